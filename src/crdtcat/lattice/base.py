"""What every lattice here is: a value with a merge, and what follows from that.

Theory. A join-semilattice is a set with an operation `merge` that is associative, commutative and
idempotent. It carries an order for free: `a <= b` when merging `a` into `b` adds nothing. Replicas that
only ever replace their value by a merge therefore move upward, and replicas that have merged the same
values, in any order, grouping or number of times, hold the same value.

Equality is equality of canonical bytes, so "the same value" means the same on disk too, and values that are
lists, floats or not-a-number can be held without the surprises of Python's `==`.

Everything is immutable: a merge returns a value and changes none. No I/O, no Arrow, no numpy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, Self, runtime_checkable


@runtime_checkable
class Lattice(Protocol):
    """Anything that merges and has canonical bytes, so that maps can hold it."""

    def merge(self, other: Self) -> Self:
        """The least value above both."""

    def to_bytes(self) -> bytes:
        """Equal values, equal bytes."""


class CanonicalLattice(ABC):
    """Equality, hash and order for a lattice, derived from `merge` and `to_bytes`.

    Comparing costs an encoding of both sides: fine for tests and small registers, not for inner loops.
    """

    __slots__ = ()

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """The least value above both: associative, commutative, idempotent."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Canonical MessagePack: equal values give equal bytes on every machine."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, CanonicalLattice)
        return self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash((type(self), self.to_bytes()))

    def __le__(self, other: Self) -> bool:
        """Whether `other` already contains all of this."""
        return self.merge(other) == other

    def __lt__(self, other: Self) -> bool:
        """Whether `other` contains all of this, and more."""
        return self <= other and self != other
