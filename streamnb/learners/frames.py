"""Many events at once: arrays, CSR matrices and data frames to rows, and answers back to what came in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamnb.learners.kernels import arrays as kernel
from streamnb.learners.kernels.layout import EVENT_FIELDS, LABEL, WIDE
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.rows import Rows
from streamnb.learners.values import LARGEST_WEIGHT, Label, plain_name, plain_time, plain_weight

if TYPE_CHECKING:
    from streamnb.learners.model import Model


def rows_of(model: "Model", X: Any, y: Any = None, w: Any = None, t: Any = None) -> Rows:
    """Return the events of X as rows.

    With `y`, each is labelled. Raise ValueError or TypeError if any of them is bad.
    """
    n_rows = _length(X)
    rows = Rows(model)
    rows.version = model.version
    labels, weights, times = _targets(n_rows, y, w, t)
    if is_sparse(X) and not (len(model.blocks) == 1 and model.blocks[0].presents_columns):
        raise TypeError(f"a {type(model).__name__} takes no sparse matrix: what is not stored would be missing, not 0")
    columns = dense_columns(model, X)
    if columns is None and not is_sparse(X):
        for i, x in enumerate(_events(X)):
            time = None if times is None else times[i]
            rows.add(x, None if y is None else labels[i], float(weights[i]), time, supervised=y is not None)
        return rows
    rows.batch.n_rows = n_rows
    block, buffer = model.blocks[0], rows.buffers[0]
    presents = columns is None or (block.presents_columns and not is_frame(X))
    width = X.shape[1] if presents else 0
    if y is None:
        events = model.unlabelled_events(n_rows)
        events[:, WIDE] = width
    else:
        events = np.empty((n_rows, EVENT_FIELDS))
        rows.learned = _write_events(model, rows, labels, weights, width, events)
    rows.batch.events = events
    learned = events[:n_rows, LABEL] >= 0.0
    if model.forgets:
        rows.times = [None] * n_rows if times is None else [plain_time(time) for time in times]
    if columns is None:
        block.fill_sparse(buffer, X, learned)
    elif presents:
        block.fill_columns(buffer, columns[1], learned)
    else:
        block.fill(buffer, columns[0], columns[1], learned)
    return rows


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix or array."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def is_frame(X: Any) -> bool:
    """Whether X is a data frame and not an array."""
    return not isinstance(X, np.ndarray) and not is_sparse(X)


def _length(X: Any) -> int:
    if isinstance(X, np.ndarray) or is_sparse(X):
        if X.ndim != 2:
            raise ValueError(f"an array of events has shape (n_events, n_features), not {X.shape}")
        return int(X.shape[0])
    return int(_frame(X).shape[0])


def _frame(X: Any) -> Any:
    import narwhals.stable.v2 as nw  # a frame is rare enough to wait for the import

    try:
        return nw.from_native(X, eager_only=True)
    except TypeError:
        raise TypeError(f"X is a {type(X).__name__}; a data frame, a 2-d numpy array or a CSR matrix is due") from None


def dense_columns(model: "Model", X: Any) -> tuple[list[Any], Array] | None:
    """Return names and numbers of an X whose every value is a plain number; None if events must be read one by one."""
    if not model.blocks or len(model.blocks) > 1 or not model.blocks[0].takes_arrays:
        return None
    if isinstance(X, np.ndarray):
        return (list(range(X.shape[1])), X) if X.dtype.kind in "iuf" and X.dtype.itemsize <= 8 else None
    if is_sparse(X):
        return None
    frame = _frame(X)
    if not all(dtype.is_integer() or dtype.is_float() for dtype in frame.schema.values()):
        return None
    if model.kind == "categorical" and len(set(frame.schema.values())) > 1:
        return None  # beside floats, whole numbers would become floats, which cannot tell large ones apart
    if any(int(frame[name].null_count()) for name in frame.columns):
        return None  # a null is missing, which an array of numbers cannot say
    names = [plain_name(name) for name in frame.columns]
    return names, np.asarray(frame.to_numpy())


def _events(X: Any) -> Any:
    """Yield the rows of X as mappings."""
    if isinstance(X, np.ndarray):
        for row in X:
            yield dict(enumerate(row.tolist() if X.dtype.kind != "O" else row))
        return
    frame = _frame(X)
    names = [plain_name(name) for name in frame.columns]
    columns = [[_plain(value) for value in frame[name].to_list()] for name in frame.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _plain(value: Any) -> Any:
    """Return pandas' NA as None."""
    return None if type(value).__name__ == "NAType" else value


def _listed(values: Any, n_rows: int, what: str) -> list[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise TypeError(f"{what}: one per event is due, got a {type(values).__name__}")
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if len(listed) != n_rows:
        raise ValueError(f"{what}: {len(listed)} of them for {n_rows} events")
    return listed


def _targets(n_rows: int, y: Any, w: Any, t: Any) -> tuple[Any, Floats, list[Any] | None]:
    """Return labels (an array or a list), weights and times (None: as of now), one per event, lengths checked."""
    if y is None:
        labels: Any = None
    elif isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "ib" and len(y) == n_rows:
        labels = y
    else:
        labels = _listed(y, n_rows, "labels")
    if w is None:
        weights = np.ones(n_rows)
    elif np.ndim(w) == 0:
        weights = np.full(n_rows, plain_weight(w))
    elif isinstance(w, np.ndarray) and w.dtype.kind in "iuf" and w.shape == (n_rows,):
        weights = w.astype(np.float64)
        if not ((weights >= 0.0) & (weights <= LARGEST_WEIGHT)).all():
            raise ValueError(f"weights: allowed are numbers from 0 to {LARGEST_WEIGHT:g}")
    else:
        weights = np.array([plain_weight(weight) for weight in _listed(w, n_rows, "weights")])
    if t is None:
        return labels, weights, None
    return labels, weights, [t] * n_rows if np.ndim(t) == 0 else _listed(t, n_rows, "event times")


def _write_events(model: "Model", rows: Rows, labels: Any, weights: Floats, width: int, events: Floats) -> int:
    """Write the events of labelled rows; return how many are to be learned. New labels go to the batch."""
    if isinstance(labels, np.ndarray):
        codes = model.label_codes
        if labels.dtype.kind == codes.dtype_kind:
            numbers = np.ascontiguousarray(labels, np.int64)
            learned = kernel.write_events(numbers, codes.low, codes.slots, weights, width, events)
            if learned >= 0:
                return learned
        labels = labels.tolist()
    seen: dict[tuple[type, Any], int] = {}
    ranks = np.array([seen.setdefault((type(y), _hashable(y)), len(seen)) for y in labels], np.int64)
    wanted = set(ranks[weights > 0.0].tolist())
    slots = np.zeros(len(seen), np.int64)
    for (_, y), rank in seen.items():  # the label of an event of weight 0 is refused like any other, but not learned
        slot, label = model.label_slot(y, rows.fresh_labels)
        if slot < 0 and rank in wanted:
            slot = rows.fresh_labels[label] = len(model.labels) + len(rows.fresh_labels)
        slots[rank] = max(slot, 0)
    return kernel.write_events(ranks, 0, slots, weights, width, events)


def _hashable(y: Any) -> Any:
    try:
        hash(y)
    except TypeError:
        raise TypeError(f"label {y!r}: allowed are strings, integers and booleans") from None
    return y


def labels_like(X: Any, labels: Sequence[Label], best: Ints) -> Any:
    """Return a prediction per event: an array for an array, a Series for a frame; None while no class was known."""
    if len(labels) and (best >= 0).all() and len({type(label) for label in labels}) == 1:
        chosen: Array = np.array(labels)[best]
    else:
        table = np.empty(len(labels) + 1, object)
        table[:-1] = labels
        chosen = table[best]  # -1 is the last place, None
    if not is_frame(X):
        return chosen
    frame = _frame(X)
    if _is_pandas(frame):
        return frame.implementation.to_native_namespace().Series(chosen, index=X.index)
    import narwhals.stable.v2 as nw

    return nw.new_series("label", chosen.tolist(), backend=frame.implementation).to_native()


def numbers_like(X: Any, labels: Sequence[Label], numbers: Floats) -> Any:
    """Return a number per event and label: an array for an array, a frame for a frame."""
    if not is_frame(X):
        return numbers
    frame = _frame(X)
    if _is_pandas(frame):
        return frame.implementation.to_native_namespace().DataFrame(numbers, index=X.index, columns=list(labels))
    import narwhals.stable.v2 as nw

    columns = {str(label): numbers[:, j].tolist() for j, label in enumerate(labels)}
    return nw.from_dict(columns, backend=frame.implementation).to_native()


def _is_pandas(frame: Any) -> bool:
    return bool(frame.implementation.is_pandas())
