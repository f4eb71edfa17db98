"""Grow-only counter: many writers count, nobody's count is lost.

Theory. Each writer counts in a slot of its own and only upward; the counter is the map from writer to
count, merged by pointwise maximum, and its value is the sum. Maximum per slot makes a count that arrives
twice count once, which a plain sum would not. A missing slot is 0, and zeros are never stored, so that
equal counters have equal bytes.

No I/O. It cannot count down: the head subtracts nothing, it leaves out what does not stand. `Head.commits` is
one, made from the versions; the versions are what is merged.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

from crdtcat.errors import InvalidArgument
from crdtcat.lattice.base import CanonicalLattice
from crdtcat.lattice.canonical import canonical_bytes, key_bytes

IdT = TypeVar("IdT", bound=Hashable)


class GCounter(CanonicalLattice, Generic[IdT]):
    """An immutable map from writer to how much it has counted.

    Args:
        counts: per writer id (int, str, bytes or a tuple of those) a count of at least 0.

    Raises:
        InvalidArgument: a negative count, one that is not an integer, or an id that cannot be a key.
    """

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[IdT, int] | None = None) -> None:
        for writer, count in (counts or {}).items():
            key_bytes(writer)
            _check_count(writer, count)
        self._counts: dict[IdT, int] = {writer: count for writer, count in (counts or {}).items() if count}

    def __repr__(self) -> str:
        return f"GCounter({self._counts!r})"

    @property
    def counts(self) -> Mapping[IdT, int]:
        """Each writer's own count, as a read-only view; a missing writer has counted nothing."""
        return MappingProxyType(self._counts)

    @property
    def value(self) -> int:
        """The sum over all writers. O(writers)."""
        return sum(self._counts.values())

    def increment(self, writer: IdT, by: int = 1) -> GCounter[IdT]:
        """This counter after `writer` counted `by` more. Only `writer` itself may do this.

        Raises:
            InvalidArgument: `by` is negative or not an integer.
        """
        _check_count(writer, by)
        return GCounter({**self._counts, writer: self._counts.get(writer, 0) + by})

    def merge(self, other: Self) -> Self:
        """Pointwise maximum. O(writers). Theorem: `gcounter_merge_semilattice`."""
        merged = dict(self._counts)
        for writer, count in other._counts.items():
            merged[writer] = max(count, merged.get(writer, 0))
        return type(self)(merged)

    def to_bytes(self) -> bytes:
        """A map from writer to count, keys in canonical order."""
        return canonical_bytes(self._counts)


def _check_count(writer: Any, count: Any) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidArgument(f"writer {writer!r} cannot count {count!r}: a counter only grows, by integers")
