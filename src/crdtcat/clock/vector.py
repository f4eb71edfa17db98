"""Vector clocks: who had seen what.

Theory. A clock maps each writer to the greatest sequence number seen of it; a missing writer counts as 0.
Writers count without gaps, so a clock stands for a set of versions: all `(writer, seq)` with
`1 <= seq <= clock[writer]`. Merge is the pointwise maximum, which is the union of those sets: associative,
commutative, idempotent (theorem: `vclock_merge_semilattice`). One version happened before another when its
clock is contained in the other's and differs; two clocks neither of which contains the other are concurrent.

Clocks decide only what is *listed as concurrent* and what a snapshot contains. Whatever removes or covers
names full version ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class VectorClock(Mapping[int, int]):
    """An immutable map from writer to the greatest sequence number seen; zeros are never stored.

    Every operation returns a new clock. Merge, comparison and difference cost O(writers).
    """

    __slots__ = ("_hash", "_seen")

    def __init__(self, seen: Mapping[int, int] | None = None) -> None:
        self._seen = {writer: seq for writer, seq in (seen or {}).items() if seq > 0}
        self._hash: int | None = None

    def __getitem__(self, writer: int) -> int:
        return self._seen.get(writer, 0)

    def __iter__(self) -> Iterator[int]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, writer: object) -> bool:
        return writer in self._seen

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VectorClock) and self._seen == other._seen

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._seen.items()))
        return self._hash

    def __le__(self, other: VectorClock) -> bool:
        """Whether everything in this clock is also in `other`. Theorem: `vclock_le_is_below`."""
        return all(seq <= other[writer] for writer, seq in self._seen.items())

    def __repr__(self) -> str:
        inside = ", ".join(f"{writer:016x}: {seq}" for writer, seq in sorted(self._seen.items()))
        return f"VectorClock({{{inside}}})"

    def saw(self, writer: int, seq: int) -> bool:
        """Whether the version `(writer, seq)` is in this clock."""
        return 0 < seq <= self._seen.get(writer, 0)

    def increment(self, writer: int) -> VectorClock:
        """This clock after one more version of `writer`."""
        return VectorClock({**self._seen, writer: self[writer] + 1})

    def merge(self, other: VectorClock) -> VectorClock:
        """What either had seen: pointwise maximum. Theorem: `vclock_merge_semilattice`."""
        merged = dict(self._seen)
        for writer, seq in other._seen.items():
            if seq > merged.get(writer, 0):
                merged[writer] = seq
        return VectorClock(merged)

    def happened_before(self, other: VectorClock) -> bool:
        """Whether `other` had seen all of this, and more."""
        return self <= other and self != other

    def concurrent_with(self, other: VectorClock) -> bool:
        """Whether each saw something the other did not."""
        return not self <= other and not other <= self

    def beyond(self, other: VectorClock) -> VectorClock:
        """The entries of this clock that `other` does not contain.

        `other.merge(self.beyond(other))` equals `other.merge(self)`.
        """
        return VectorClock({writer: seq for writer, seq in self._seen.items() if seq > other[writer]})
