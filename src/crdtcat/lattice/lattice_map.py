"""A map of lattices: many small lattices under one merge.

Theory. If every value is a lattice then so is the map, merged key by key, where a missing key stands below
every value. The head's tables are such maps: a register per property name, a register per cell, a counter
per application. Product lattices have no law of their own to get wrong, which is why the parts are split
this finely: two writers that touch different keys cannot disturb each other.

A key is never taken away: removal is a value of the inner lattice (a register holding None, a removed dot).
No I/O.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Self, TypeVar

from crdtcat.errors import InvalidArgument
from crdtcat.lattice.base import CanonicalLattice, Lattice
from crdtcat.lattice.canonical import canonical_bytes, key_bytes

KeyT = TypeVar("KeyT", bound=Hashable)
LatticeT = TypeVar("LatticeT", bound=Lattice)


class LatticeMap(CanonicalLattice, Mapping[KeyT, LatticeT]):
    """An immutable map whose values merge. Reads like any `Mapping`.

    Args:
        entries: keys (int, str, bytes or tuples of those) and lattice values, all of one type per key.

    Raises:
        InvalidArgument: a key without canonical bytes.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[KeyT, LatticeT] | None = None) -> None:
        self._entries: dict[KeyT, LatticeT] = dict(entries or {})
        for key in self._entries:
            key_bytes(key)

    # Mapping brings an `__eq__` of its own, by Python's idea of equality; ours goes by bytes.
    __eq__ = CanonicalLattice.__eq__
    __hash__ = CanonicalLattice.__hash__

    def __getitem__(self, key: KeyT) -> LatticeT:
        return self._entries[key]

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"LatticeMap({self._entries!r})"

    def update(self, key: KeyT, value: LatticeT) -> LatticeMap[KeyT, LatticeT]:
        """This map with `value` merged into what `key` holds.

        Raises:
            InvalidArgument: `key` holds a lattice of another type, or cannot be a key.
        """
        return self.merge(LatticeMap({key: value}))

    def merge(self, other: Self) -> Self:
        """Key by key. O(keys of both) inner merges. Theorem: `map_merge_semilattice`.

        Raises:
            InvalidArgument: one key holds lattices of two types; the maps are not of one kind.
        """
        merged = dict(self._entries)
        for key, value in other._entries.items():
            held = merged.get(key)
            if held is not None and type(held) is not type(value):
                kinds = f"{type(held).__name__} and {type(value).__name__}"
                raise InvalidArgument(f"key {key!r} holds a {kinds}: only lattices of one type merge")
            merged[key] = value if held is None else held.merge(value)
        return type(self)(merged)

    def to_bytes(self) -> bytes:
        """A map from key to the value's own canonical bytes, keys in canonical order."""
        return canonical_bytes({key: value.to_bytes() for key, value in self._entries.items()})
