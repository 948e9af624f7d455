"""The array types that kernels take, always C-contiguous."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Array = npt.NDArray[Any]
