"""Asking for memory before it is needed: the counts of a large vocabulary are in no cache, and each token is a miss."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from streamnb.learners.kernels.jit import inlined
from streamnb.learners.kernels.layout import LABEL, WIDE
from streamnb.learners.kernels.types import Array, Floats, Ints

AHEAD = 16
"""Entries between asking for memory and using it."""
LEARNED = 1
"""The field of a feature that learning a row of an array takes: df, or whether it is listed."""
LINE = 64
"""Bytes of a cache line."""
FOR_READING, KEPT, DATA = 0, 3, 1
"""What llvm.prefetch calls them."""


def _fetch(_context: Any, table: Any, _row: Any, _column: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        array = target.make_array(kind)(target, builder, arguments[0])
        place = cgutils.get_item_pointer(  # type: ignore[no-untyped-call]  # numba has no types
            target, builder, kind, array, arguments[1:]
        )
        byte, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
        )
        how = [integer(number) for number in (FOR_READING, KEPT, DATA)]
        builder.call(prefetch, [builder.bitcast(place, byte), *how])
        return target.get_dummy_value()

    return types.void(table, types.intp, types.intp), generate


fetch: Any = intrinsic(_fetch)
"""`fetch(table, row, column)` asks for the cache line of a number; nothing is read, so any row will do, even -1."""


@inlined
def fetch_next(
    counts: Array,
    features: Floats,
    slots: Ints,
    starts: Ints,
    events: Floats,
    row: int,
    n_rows: int,
    n_classes: int,
    settled: bool,
) -> None:
    """Ask for what reading and learning the event after this one takes: counts, and marks unless all is `settled`."""
    after = row + 1
    if after < n_rows and n_classes > 0:
        for k in range(starts[after], starts[after + 1]):
            for c in range(0, n_classes, LINE // counts.itemsize):
                fetch(counts, slots[k], c)
            fetch(counts, slots[k], n_classes - 1)  # the counts of a feature need not start with a line
        if settled:
            return
        named = events[after, LABEL] >= 0.0 and events[after, WIDE] == 0.0
        marks = features.shape[1] if named else 1
        for k in range(starts[after], starts[after + 1]):
            for field in range(marks):
                fetch(features, slots[k], field)


@inlined
def fetch_added(counts: Array, features: Floats, slots: Ints, k: int, label: int) -> None:
    """Ask for what learning an entry after this one takes: a count, if its event is of the same class, and a mark."""
    slot = slots[min(k + AHEAD, len(slots) - 1)]
    fetch(counts, slot, label)
    fetch(features, slot, LEARNED)
