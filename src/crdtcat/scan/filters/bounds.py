"""Bounds of a column over many entries, and what they prove about its values, as whole arrays.

Theory. Bounds are outer bounds: `minimum <= value <= maximum` for every value that is not null, in the
column's statistics domain: int64; float64, rounded outward; bytes, cut and rounded up. A literal is an
interval `[low, high]` of that domain around its exact value, a point unless the domain cannot hold it. A
bound b is a domain value, so `b < v` is `b < high`, `b <= v` is `b <= low`, and so on, each exact.

`Range` answers one kind of question: for which entries do *all* values certainly satisfy a comparison? "Some
value may satisfy it" is the negation of "all certainly satisfy its opposite", so nothing else is needed. NaN
makes bounds unknown, so known bounds imply that there is none.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.chunks.statistics import Domain, domain
from crdtcat.limits import STATISTICS_BYTES_MAX
from crdtcat.scan.filters.literals import float_floor
from crdtcat.scan.filters.members import Members, is_nan
from crdtcat.scan.filters.predicate import Operator

Bits = npt.NDArray[np.bool_]
EXACT_BYTES = STATISTICS_BYTES_MAX
"""Bounds of bytes at least this long may have been cut: they never prove that all values are equal."""


class ColumnBounds(NamedTuple):
    """One column's statistics over all entries.

    Attributes:
        minimum: outer lower bounds: int64 or float64 array, or a LargeBinaryArray for strings and binaries.
        maximum: outer upper bounds, likewise.
        known_min: where `minimum` means anything.
        known_max: where `maximum` means anything.
        nulls: nulls per entry, -1 if unknown.
    """

    minimum: Any
    maximum: Any
    known_min: Bits
    known_max: Bits
    nulls: npt.NDArray[np.int64]


class BoundsSource(Protocol):
    """Where statistics come from: entries in any order, the same order for every column."""

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Rows per entry."""

    def bounds(self, column: str) -> ColumnBounds | None:
        """A column's bounds in the domain of its type in the schema, or None if there are none."""


def interval(value: Any) -> tuple[Any, Any]:
    """The narrowest interval of domain values around an Arrow scalar that is not null and not NaN."""
    kind = value.type
    where = domain(kind)
    if where == "bytes":
        plain = value.as_py()
        data = plain.encode() if isinstance(plain, str) else plain
        return data, data
    if where == "int":
        number = int(value.value if pt.is_temporal(kind) else value.as_py())
        return number, number
    exact: int | float | Decimal = value.as_py()
    low = float_floor(exact)
    return low, low if low == exact else math.nextafter(low, math.inf)


class Range:
    """A column's bounds, ready to be compared with literals of its type.

    Every method costs a fixed number of array operations over the entries.
    """

    def __init__(self, bounds: ColumnBounds, where: Domain) -> None:
        self._domain = where
        self._minimum, self._maximum = bounds.minimum, bounds.maximum
        self._known_min, self._known_max = np.asarray(bounds.known_min), np.asarray(bounds.known_max)
        if where == "float":
            # One side of a float column is never trusted alone: only both together rule NaN out.
            numbers = ~(np.isnan(self._minimum) | np.isnan(self._maximum))
            self._known_min = self._known_max = self._known_min & self._known_max & numbers

    @property
    def known(self) -> Bits:
        """Where both bounds are known."""
        return self._known_min & self._known_max

    @staticmethod
    def fits(bounds: ColumnBounds, where: Domain) -> bool:
        """Whether the arrays are of the domain. Others (a column widened since) say nothing."""
        if where == "bytes":
            return all(isinstance(side, pa.LargeBinaryArray) for side in (bounds.minimum, bounds.maximum))
        wanted = np.int64 if where == "int" else np.float64
        return all(getattr(side, "dtype", None) == wanted for side in (bounds.minimum, bounds.maximum))

    def all_satisfy(self, sign: Operator, value: Any) -> Bits:  # noqa: PLR0911 (one case per operator)
        """Where every value that is not null certainly satisfies `value sign literal`."""
        low, high = interval(value)
        match sign:
            case "<":
                return self.maximum_is("<", high)
            case "<=":
                return self.maximum_is("<=", low)
            case ">":
                return self.minimum_is(">", low)
            case ">=":
                return self.minimum_is(">=", high)
            case "!=":
                return self.minimum_is(">", low) | self.maximum_is("<", high)
            case "=":
                if self._domain == "bytes" and len(low) >= EXACT_BYTES:
                    return np.zeros(len(self._known_min), np.bool_)
                return self.minimum_is(">=", high) & self.maximum_is("<=", low)

    def minimum_is(self, sign: Operator, literal: Any) -> Bits:
        """Where the lower bound is known and satisfies the comparison with a domain value."""
        return self._known_min & _compared(self._minimum, sign, literal)

    def maximum_is(self, sign: Operator, literal: Any) -> Bits:
        """Where the upper bound is known and satisfies the comparison with a domain value."""
        return self._known_max & _compared(self._maximum, sign, literal)

    def membership(self, values: Members) -> tuple[Bits, Bits]:
        """Where all values certainly are in a list, and where certainly none is. Binary search per entry."""
        nan = ~self.known if values.has_nan else np.zeros(len(self._known_min), np.bool_)
        lows, highs = self._ends(values)
        if not len(lows):
            return np.zeros(len(self._known_min), np.bool_), ~nan
        # Only entries whose range meets the list's own range are searched one by one.
        near = ~(self.minimum_is(">", lows[-1]) | self.maximum_is("<", highs[0]))
        places = np.flatnonzero(near)
        minimum, maximum = (self._domain_values(side, places) for side in (self._minimum, self._maximum))
        known_min, known_max = self._known_min[places], self._known_max[places]
        first = np.where(known_min, np.searchsorted(lows, minimum, "left"), 0)
        inside = first < len(lows)
        at = np.minimum(first, len(lows) - 1)
        one = inside & known_min & known_max & _equal(lows[at], minimum) & _equal(highs[at], maximum)
        one &= self._proves_equal(minimum)
        every, none = np.zeros(len(near), np.bool_), ~near
        every[places] = one
        none[places] = ~(inside & (~known_max | (highs[at] <= maximum)).astype(np.bool_))
        return every, none & ~nan

    def _ends(self, values: Members) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The intervals around the values of a list, without NaN: their lower ends, rising, and the upper."""
        texts = values.texts() if self._domain == "bytes" else None
        ends = values.numbers() if texts is None else _array(texts, np.object_)
        if ends is not None:
            return ends, ends
        pairs = sorted(interval(value) for value in values if not is_nan(value))
        kind = {"int": np.int64, "float": np.float64, "bytes": np.object_}[self._domain]
        return _array([low for low, _ in pairs], kind), _array([high for _, high in pairs], kind)

    def _domain_values(self, side: Any, places: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        if self._domain != "bytes":
            chosen: npt.NDArray[Any] = np.asarray(side)[places]
            return chosen
        return _array(pc.fill_null(side.take(pa.array(places)), b"").to_pylist(), np.object_)

    def _proves_equal(self, minimum: npt.NDArray[Any]) -> Bits:
        """Whether equal bounds mean that all values are the same *member*: lists tell 0.0 from -0.0."""
        if self._domain == "bytes":
            return np.fromiter((len(value) < EXACT_BYTES for value in minimum), np.bool_, len(minimum))
        return np.asarray(minimum != 0) if self._domain == "float" else np.ones(len(minimum), np.bool_)


def _compared(bounds: Any, sign: Operator, literal: Any) -> Bits:
    if isinstance(bounds, np.ndarray):
        function: Any = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[sign]
        found: Bits = function(bounds, literal)
        return found
    function = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}[sign]
    answer = pc.fill_null(function(bounds, pa.scalar(literal, pa.large_binary())), False)
    return np.asarray(answer.to_numpy(zero_copy_only=False), np.bool_)


def _equal(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Bits:
    return np.asarray(left == right, np.bool_)


def _array(values: list[Any], kind: Any) -> npt.NDArray[Any]:
    array = np.empty(len(values), kind)
    array[:] = values
    return array
