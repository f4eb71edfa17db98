"""The values of an `in` list: one array, however many they are.

A list of a million keys is one conversion, one sort and one look-up per chunk, not a million objects. Values
are of the operand's comparison type and not null; both zeros, and NaNs of different bits, are members of
their own, as in Arrow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

SHOWN_MAX: Final = 100
"""Values that are printed; of the others, how many there are."""


class Members:
    """Some values of one type. Immutable, hashable, picklable; iterating gives Arrow scalars.

    Args:
        array: the values, none of them null.
    """

    __slots__ = ("array",)

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    @classmethod
    def of(cls, scalars: Iterable[Any], kind: pa.DataType) -> Members:
        """From scalars, one by one."""
        return cls(pa.array(list(scalars), kind))

    @classmethod
    def at_once(cls, values: list[Any] | pa.Array, kind: pa.DataType) -> Members | None:
        """From what users passed, if all of it is of the very kind of the type, or null. Else `None`: then
        each is looked at by itself. One conversion."""
        if isinstance(values, pa.Array):
            if values.type != kind and not (pt.is_integer(values.type) and pt.is_integer(kind)):
                return None
        elif not set(map(type, values)) <= {_plain(kind), type(None)}:
            return None
        try:
            array = pa.array(values, kind) if isinstance(values, list) else values.cast(kind)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # some value does not fit
            return None
        array = array.drop_null()
        return cls(array if pt.is_floating(kind) else array.unique())  # which would take both zeros for one

    def with_both_zeros(self) -> Members:
        """With the other zero beside each, as SQL has it. Of floats."""
        if not pc.any(pc.equal(self.array, 0.0)).as_py():
            return self
        return Members(pa.concat_arrays([self.array, pa.array([0.0, -0.0], self.array.type)]))

    def without_nan(self) -> Members:
        """Those that are numbers. Of floats."""
        return Members(self.array.filter(pc.invert(pc.is_nan(self.array))))

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Members) and bool(self.array.equals(other.array))

    def __hash__(self) -> int:
        return hash((str(self.array.type), len(self.array), *map(str, self.array[:3])))

    def __reduce__(self) -> Any:
        return Members, (self.array,)

    def __repr__(self) -> str:
        return f"Members({len(self.array)} of {self.array.type})"

    @property
    def has_nan(self) -> bool:
        """Whether NaN is one of them."""
        return bool(pt.is_floating(self.array.type)) and bool(pc.any(pc.is_nan(self.array)).as_py())

    def numbers(self) -> npt.NDArray[Any] | None:
        """Those that are not NaN as int64 or float64, rising, where statistics hold them exactly. O(n log n).
        `None`: each has to be looked at by itself."""
        kind = self.array.type
        if pt.is_float64(kind) or pt.is_float32(kind):
            found: npt.NDArray[Any] = self.array.to_numpy(zero_copy_only=False).astype(np.float64)
            return np.sort(found[~np.isnan(found)])
        if pt.is_temporal(kind) and not pt.is_interval(kind):
            whole = self.array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        elif pt.is_boolean(kind) or (pt.is_integer(kind) and not pt.is_uint64(kind)):
            whole = self.array
        else:
            return None
        found = whole.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return np.sort(found)

    def texts(self) -> list[bytes] | None:
        """As bytes, rising; `None` if they are no texts and no bytes."""
        kind = self.array.type
        text = pt.is_string(kind) or pt.is_large_string(kind)
        if not text and _plain(kind) is not bytes:
            return None
        found: list[bytes] = (self.array.cast(pa.large_binary()) if text else self.array).to_pylist()
        return sorted(found)


def _plain(kind: pa.DataType) -> type | None:
    """The type in Python all of whose values mean themselves in an Arrow type, where they fit."""
    if pt.is_integer(kind):
        return int
    if pt.is_float64(kind):
        return float
    if pt.is_string(kind) or pt.is_large_string(kind):
        return str
    binary = pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)
    return bytes if binary else None


def is_nan(value: Any) -> bool:
    """Whether a scalar is not a number."""
    return bool(pt.is_floating(value.type)) and math.isnan(value.as_py())
