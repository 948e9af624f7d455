"""The compiled loops, and the only place that imports numba.

Every kernel runs over a batch row by row, in order: a row is read by the state that has learned all rows before it,
then learned. Nothing here may depend on the batch: no fastmath, no parallel, no dot, no np.sum. State is feature-major,
`[slot, class]`; a sum over classes runs in sorted class order, a sum over features in the order of the event.
"""
