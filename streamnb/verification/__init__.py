"""Was it all learned, and exactly once? A second fit of the same events, in exact arithmetic, beside the model.

It is written from the formulas and shares no arithmetic with the learners. Counts and sums are integers over a power
of two, so nothing is rounded before the last step; the events are read one by one and not kept.
"""

from streamnb.verification.comparing import Row, compare
from streamnb.verification.gathering import Gathered, gather
from streamnb.verification.reference import Reference

__all__ = ["Gathered", "Reference", "Row", "compare", "gather"]
