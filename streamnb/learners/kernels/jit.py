"""How kernels are compiled: lazily, without the GIL, cached on disk where that is possible."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile at the first call; keep the machine code on disk if the cache folder can be written."""
    try:
        compiled: F = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no folder that it can write its cache to
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled
