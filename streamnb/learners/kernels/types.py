"""The two array types that every kernel takes, always C-contiguous."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Array = npt.NDArray[Any]
