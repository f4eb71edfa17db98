"""Arrays in the memory that Arrow keeps for its own.

What numpy allocates goes back to the system when it is let go, if it is large, and comes anew page by page:
for an array that is filled once that costs several times the filling. Arrow's pool keeps what was let go.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.format.sections import Array


def pooled(length: int, dtype: npt.DTypeLike) -> Array:
    """An array with whatever is in its memory. `pa.py_buffer` makes a buffer of it without copying."""
    found: Array = np.frombuffer(pa.allocate_buffer(length * np.dtype(dtype).itemsize), dtype)
    return found


def pooled_copy(array: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """The same values in memory of their own; `dtype`: as another type, which they fit."""
    found = pooled(len(array), array.dtype if dtype is None else dtype)
    found[:] = array
    return found
