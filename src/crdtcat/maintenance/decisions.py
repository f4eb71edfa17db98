"""Collecting decisions: one of a coordinator goes when every claim that waited for it is in an old bundle.

A bundle holds only what is decided, so a claim in a bundle is its own copy of the decision. The file says
which claims waited for it. Once the bundles of all those logs, older than the grace period by the store's
clock, reach their numbers, nobody who may act on what it knows asks for it again: readers and writers throw
away what took half a grace period. Decisions to abort that somebody else made stay, about 70 bytes each:
whoever made one does not know which claims the coordinator still makes, and the coordinator could still
commit. One that gave up itself knows, and will not. Safe beside readers, writers, bundlers and other
collectors. (Model: `Decisions` in proofs/tla.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from crdtcat.format.decision import decided_claims
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.protocol import bundle_number
from crdtcat.session import Session
from crdtcat.store import ObjectInfo, Store

OpenLog = Callable[[str], Session | None]


def collect_decisions(
    store: Store, listed: Sequence[ObjectInfo], old_ms: int, open_log: OpenLog, bundled: set[str]
) -> int:
    """Delete decisions that nobody asks for any more; how many. Logs that lack a bundle get one now.

    Costs one GET for each decision older than `old_ms`, for each log they name one LIST, and a checkpoint
    where it lacks one; one DELETE.
    """
    old = [item.name for item in listed if item.modified_ms <= old_ms]
    reached = _Reached(store, old_ms, open_log, bundled)
    deleted = []
    for name, data in zip(old, store.get_many([(name, 0, None) for name in old]), strict=True):
        claims = None if data is None else decided_claims(data, name)
        if claims and all([reached.past(folder, number) for folder, number in claims.items()]):  # noqa: C419
            deleted.append(name)
    store.delete(deleted)
    return len(deleted)


class _Reached:
    """Up to which number old bundles, and old bases by their boundaries, of each log reach, listed once."""

    def __init__(self, store: Store, old_ms: int, open_log: OpenLog, bundled: set[str]) -> None:
        self._store, self._old_ms, self._open, self._bundled = store, old_ms, open_log, bundled
        self._numbers: dict[str, int] = {}

    def past(self, folder: str, number: int) -> bool:
        """Whether a claim is in an old bundle, or its log was dropped; else the log is bundled."""
        try:
            session = self._open(folder)
        except LookupError:
            return False
        if session is None:
            return True
        if folder not in self._numbers:
            names = [item.name for item in self._store.list(folder) if item.modified_ms <= self._old_ms]
            self._numbers[folder] = max(map(bundle_number, names), default=0)
        if self._numbers[folder] >= number:
            return True
        if folder not in self._bundled:
            with suppress(LookupError):  # dropped meanwhile: another time
                checkpoint(session)
            self._bundled.add(folder)
        return False
