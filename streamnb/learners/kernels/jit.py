"""How kernels are compiled: lazily, without the GIL, cached on disk where that is possible."""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile at the first call; keep the machine code on disk if the cache folder can be written."""
    return _compiled(function, forceinline=False)


def inlined(function: F) -> F:
    """The same for a step inside a kernel's loop: passing an array on costs more than most of them."""
    return _compiled(function, forceinline=True)


def reordered(function: F) -> F:
    """The same for a step whose sums are exact, so that their order cannot be seen, and the compiler may choose it."""
    return _compiled(function, forceinline=True, fastmath={"reassoc"})


def without_nan(function: F) -> F:
    """The same for a step over numbers none of which is NaN, so that a maximum may be taken several at once."""
    return _compiled(function, forceinline=True, fastmath={"nnan", "nsz"})


def _compiled(function: F, **how: Any) -> F:
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", **how}
    try:
        compiled: Any = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # numba found no folder that it can write its cache to
        compiled = numba.njit(**settings)(function)
    return compiled  # type: ignore[no-any-return]  # it is called as the function is


def load_without_blas() -> None:
    """Have numba load its NumPy functions as where there is no SciPy: that is a sixth of the time to start.

    No kernel uses what needs BLAS (`dot`). For a process in which nobody else compiles any.
    """
    if "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # how Python is told that it is not there
        try:
            with suppress(ImportError):
                import_module("numba.np.arraymath")
        finally:
            del sys.modules["scipy.linalg"]
