"""Last-writer-wins register: of two values, the one with the greater stamp.

Theory. Stamps come from a total order, normally `VersionId`, so merge is the maximum of a chain, which is
associative, commutative and idempotent. Nothing less than a total order will do: with bare timestamps two
writers in one millisecond tie, "keep mine" makes merge depend on the direction, and replicas differ for
ever. Version ids never tie between different contents, because the digest is part of them. Should a caller
use stamps that do tie, the greater canonical bytes win; refusing would make merge partial, and a merge that
can fail cannot be applied by everybody in any order.

Transition table, with `s` the stamp and `b` the canonical bytes of stamp and value:

    s1 < s2             -> 2
    s1 > s2             -> 1
    s1 = s2, b1 <= b2   -> 2
    s1 = s2, b1 >  b2   -> 1

A register has no empty value: an absent register is an absent key of a `LatticeMap`. No I/O.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, Self, TypeVar

from crdtcat.errors import InvalidArgument
from crdtcat.lattice.base import CanonicalLattice
from crdtcat.lattice.canonical import canonical_bytes


class Stamp(Protocol):
    """Anything totally ordered with canonical bytes."""

    def __lt__(self, other: Any, /) -> bool: ...


ValueT = TypeVar("ValueT")


class LWWRegister(CanonicalLattice, Generic[ValueT]):
    """A value and the stamp it was written under. Immutable.

    Args:
        stamp: totally ordered against every stamp it will meet; normally a `VersionId`.
        value: anything `canonical_bytes` takes.

    Raises:
        InvalidArgument: a stamp that does not equal itself (not-a-number), or a value that has no canonical
            bytes.
    """

    __slots__ = ("_bytes", "stamp", "value")

    stamp: Stamp
    value: ValueT

    def __init__(self, stamp: Stamp, value: ValueT) -> None:
        if stamp != stamp:  # noqa: PLR0124  (that is what not-a-number is)
            raise InvalidArgument(f"{stamp!r} is not ordered, so it cannot stamp a register")
        self._bytes = canonical_bytes((stamp, value))
        self.stamp = stamp
        self.value = value

    def __repr__(self) -> str:
        return f"LWWRegister({self.stamp!r}, {self.value!r})"

    def merge(self, other: Self) -> Self:
        """The register with the greater stamp. O(1). Theorem: `lww_merge_semilattice`."""
        if self.stamp < other.stamp:
            return other
        if other.stamp < self.stamp:
            return self
        return other if self._bytes <= other._bytes else self

    def to_bytes(self) -> bytes:
        """`[stamp, value]`, encoded once at construction."""
        return self._bytes
