"""The collector: delete log files that a durable bundle covers.

A file goes only when all of this holds (theorem: `delete_covered_safe`):

- a bundle that covers it was in the listing, stored longer ago than the grace period by the store's clock;
- that bundle has been read back, now, and its checksum holds;
- the file itself was fetched and joined, so that what is deleted is known to be in the bundle;
- if the file is a bundle, its rank is strictly lower;
- it is in the log's own folder: a transaction's file stays for the other tables it touches;
- if a base with claims covers it, the base's boundary is as old as the base must be: names of claims that are
  deleted are free again, and only the names of bundles and boundaries tell that their numbers are not. Where
  there is none, because whoever wrote the base died, it is put now, and what it is for waits.

Collectors need no lock: two that race delete the same files, and a deletion of what is gone is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, Self, TypeVar

from crdtcat.protocol.names import TRANSACTIONS, bundle_rank, is_boundary, is_bundle, is_commit
from crdtcat.protocol.requests import Answer, Delete, Get, Got, Object, Put, Request
from crdtcat.support.object_bytes import ObjectBytes

BATCH: Final = 256  # files fetched, joined and deleted at a time: bounds memory


class Covering(Protocol):
    """What the collector asks of a state. Immutable."""

    def joined(self, files: Sequence[tuple[str, ObjectBytes]]) -> Self:
        """The state with these files in it."""
        ...

    def covered(self, bundle: tuple[str, ObjectBytes], names: Sequence[str]) -> Sequence[str]:
        """Those version files that the bundle's bytes hold, read afresh."""
        ...

    def contains(self, bundle: tuple[str, ObjectBytes], other: tuple[str, ObjectBytes]) -> bool:
        """Whether everything `other` covers is covered by the bundle."""
        ...

    def boundary(self, bundle: tuple[str, ObjectBytes]) -> str:
        """The name of a base's boundary; empty for other bundles, and for a base without claims."""
        ...


S = TypeVar("S", bound=Covering)


@dataclass(frozen=True, slots=True)
class Collector(Generic[S]):
    """Delete what is covered. Begin with the listing and clock of a finished `Reader`.

    Theorem: `delete_covered_safe`.

    Attributes:
        state: a state that holds everything in the listing.
        listing: the objects a reader listed.
        now_ms: the store's clock then.
        grace_ms: how long a bundle must have been durable.
        bundles: old bundles still to be read back, the highest rank first.
        current: the bundle read back, with its bytes.
        bounding: a boundary to put now.
        doomed: names still to be fetched for `current`.
        deleting: names to delete now.
        deleted: names deleted so far.
    """

    state: S
    listing: tuple[Object, ...]
    now_ms: int
    grace_ms: int
    bundles: tuple[str, ...] | None = None
    current: tuple[str, ObjectBytes] | None = None
    bounding: str = ""
    doomed: tuple[str, ...] = ()
    deleting: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def _old_bundles(self) -> tuple[str, ...]:
        if self.bundles is not None:
            return self.bundles
        old = [item.name for item in self.listing if is_bundle(item.name) and self._is_old(item)]
        return tuple(sorted(old, key=bundle_rank, reverse=True))

    def _is_bounded(self, since: Sequence[Object]) -> bool:
        return any(self._is_old(item) for item in since)

    def _is_old(self, item: Object) -> bool:
        return self.now_ms - item.modified_ms >= self.grace_ms

    @property
    def wants(self) -> tuple[Request, ...]:
        """A bundle to read back, files to fetch, files to delete, or a boundary to put."""
        if self.bounding:
            return (Put(self.bounding, b""),)
        if self.deleting:
            return (Delete(self.deleting),)
        if self.current is not None:
            return tuple(Get(name) for name in self.doomed[:BATCH])
        return tuple(Get(name) for name in self._old_bundles[:1])

    def take(self, answers: Sequence[Answer]) -> Collector[S]:
        """The next step. Raises `Corrupt` where a file is damaged or a bundle is not what it covers."""
        if self.bounding:
            return replace(self, bounding="")
        if self.deleting:
            return replace(self, deleting=(), deleted=self.deleted + self.deleting)._next()
        if self.current is None:
            return self._read_back(answers)
        batch, rest = self.doomed[:BATCH], self.doomed[BATCH:]
        found = [
            (name, answer.data)
            for name, answer in zip(batch, answers, strict=True)
            if isinstance(answer, Got) and answer.data is not None
        ]
        bundle = self.current
        state = self.state.joined(found)
        sure = set(state.covered(bundle, [name for name, _ in found if is_commit(name)]))
        sure |= {name for name, data in found if is_bundle(name) and state.contains(bundle, (name, data))}
        return replace(self, state=state, doomed=rest, deleting=tuple(sorted(sure)))._next()

    def _read_back(self, answers: Sequence[Answer]) -> Collector[S]:
        (answer,) = answers
        assert isinstance(answer, Got)
        name, *rest = self._old_bundles
        if answer.data is None:  # another collector was faster: a bundle of higher rank replaced it
            return replace(self, bundles=tuple(rest))
        bundle = (name, answer.data)
        boundary = self.state.boundary(bundle)
        since = [item for item in self.listing if is_boundary(item.name) and item.name >= boundary]
        if boundary and not self._is_bounded(since):
            return replace(self, bundles=tuple(rest), bounding="" if since else boundary)
        gone = set(self.deleted)
        listed = [
            item.name
            for item in self.listing
            if item.name not in gone and not item.name.startswith(TRANSACTIONS)
        ]
        doomed = list(self.state.covered(bundle, [other for other in listed if is_commit(other)]))
        doomed += [other for other in listed if is_bundle(other) and bundle_rank(other) < bundle_rank(name)]
        state = self.state.joined([bundle])  # so that what is deleted is compared with what covers it
        step = replace(self, state=state, bundles=tuple(rest), current=bundle, doomed=tuple(doomed))
        return step._next()

    def _next(self) -> Collector[S]:
        if self.current is None or self.doomed or self.deleting:
            return self
        gone = set(self.deleted)
        left = tuple(name for name in self._old_bundles if name not in gone)
        return replace(self, current=None, bundles=left)
