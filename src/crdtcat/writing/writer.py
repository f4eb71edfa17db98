"""A writer: one handle's identity in one log, and the commits it makes.

A writer's id is random, made here, never passed in. Its sequence numbers are never reused: once a commit's
outcome is in doubt (no clear answer, Ctrl-C in the middle), the identity is abandoned and the next commit
starts a new one. The same happens in a forked child and in an unpickled copy. One commit is in flight at a
time; other threads wait.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from crdtcat.clock import HybridClock, VersionId
from crdtcat.drive import Unclear, cause, put_all, reason, run
from crdtcat.errors import (
    AccessDenied,
    CapabilityMissing,
    ClockSkew,
    CommitUnknown,
    RequestRefused,
    StoreFull,
)
from crdtcat.format.version import encode_version
from crdtcat.protocol import Outcome, Publish, Put, version_name
from crdtcat.store import Store
from crdtcat.support.locks import ForkSafeLock
from crdtcat.writing.own_commits import Own
from crdtcat.writing.recent import Recent


class Slot:
    """A sequence number held for one commit: in doubt from its first request until it is settled.

    A function that answers a conflict may commit by the same handle, in the middle of this commit: that one
    has another identity, and what becomes of this number does not concern it."""

    def __init__(self, owner: Writer) -> None:
        self._owner = owner
        self.writer, self.seq = owner.id, owner.seq + 1

    def in_doubt(self) -> None:
        """A request was made under this number, and its outcome is not known."""
        if self._is_current:
            self._owner._in_doubt = True

    def settle(self, *, used: bool) -> None:
        """The outcome is known: the number was used, or nothing was stored under it."""
        if self._is_current:
            self._owner._in_doubt = False
            self._owner.seq = self.seq if used else self._owner.seq

    @property
    def _is_current(self) -> bool:
        return self._owner.id == self.writer

    def renewed(self) -> Slot:
        """Another identity's first number: something that nobody will read was stored under this one."""
        self._owner._renew()
        return Slot(self._owner)


class Writer:
    """Commits versions to one log folder.

    Args:
        folder: the log's folder.
        clock: the process's hybrid clock.
        max_skew_ms: refuse to commit when this machine's clock is further from the store's.

    Attributes:
        recent: what it stored lately.
        last: the latest version that its handle stored, in whatever way, and knows to be stored.
    """

    def __init__(self, folder: str, clock: HybridClock, max_skew_ms: float) -> None:
        self.folder = folder
        self._clock = clock
        self._max_skew_ms = max_skew_ms
        self._lock = ForkSafeLock()
        self._held = 0
        self.recent = Recent()
        self.last: Own | None = None
        self._renew()

    def _renew(self) -> None:
        self.id = secrets.randbits(64)
        self.seq = 0
        self._process = os.getpid()
        self._in_doubt = False

    def _renew_if_needed(self) -> None:
        if self._process != os.getpid():
            self._held = 0  # by a thread that a fork did not copy
            self._renew()
        if self._in_doubt or self._held:
            self._renew()

    def commit(self, store: Store, body: Mapping[str, Any], puts: Sequence[Put] = ()) -> VersionId:
        """Store `puts`, then one version file with `body`. One PUT each, no read, no list.

        Raises:
            ClockSkew, LimitExceeded: nothing was written.
            StoreUnavailable: nothing became visible.
            CommitUnknown: the version may or may not be there.
        """
        check_clock(store, self._max_skew_ms)
        with self._lock():
            self._renew_if_needed()
            id, data = self._stamped(body)
            if puts:
                put_all(puts, store, f"{self.folder}: the rows", "nothing is visible, try again")
                id, data = self._stamped(body)  # storing rows may take long, and no id is older than need be
            name = version_name(self.folder, id)
            # In doubt until the outcome is known, whatever interrupts us: no number is ever used twice.
            self._in_doubt = True
            publish_version(Put(name, data), store, advice(body.get("k")))
            self.seq += 1
            self._in_doubt = False
            self.recent.add(name, data)
            self.last = Own(id, name)
        return id

    @contextmanager
    def reserved(self, store: Store) -> Iterator[Slot]:
        """This writer's next sequence number, for one commit whose outcome the caller settles.

        Other commits of this writer wait; one within this one, by the same thread, starts a new identity.
        Raises `ClockSkew`.
        """
        check_clock(store, self._max_skew_ms)
        with self._lock():
            self._renew_if_needed()
            self._held += 1
            try:
                yield Slot(self)
            finally:
                self._held -= 1

    def _stamped(self, body: Mapping[str, Any]) -> tuple[VersionId, bytes]:
        stamp = {"h": self._clock.tick(), "w": self.id, "s": self.seq + 1, "l": self.folder}
        return encode_version({**body, **stamp})


def check_clock(store: Store, max_skew_ms: float) -> None:
    """Raises `ClockSkew` where this machine's clock is known to be too far from the store's. No request."""
    skew = store.skew_ms()
    if skew is not None and abs(skew) > max_skew_ms:
        side = "behind" if skew > 0 else "ahead of"
        raise ClockSkew(
            f"this machine's clock is {abs(skew) / 1000:,.0f} s {side} the store's, more than "
            f"{max_skew_ms / 1000:,.0f} s; set the clock, then commit again"
        )


def publish_version(put: Put, store: Store, advised: str) -> None:
    """Store a version. Raises `CommitUnknown`, with what is advised then, for whatever is not a clear
    answer."""
    unclear: Unclear = {}
    try:
        if run(Publish((put,)), store, unclear=unclear).outcome is Outcome.DONE:
            return
    except (AccessDenied, CapabilityMissing, RequestRefused, StoreFull):  # and so not stored
        raise
    except Exception as error:
        raise CommitUnknown(f"{put.name}: storing it failed ({error}); it may be there: {advised}") from error
    raise CommitUnknown(
        f"{put.name}: the store gave no clear answer ({reason(unclear)}); the commit may stand: {advised}"
    ) from cause(unclear)


def advice(key: str | None) -> str:
    """What to do about a commit that may or may not stand."""
    if key is None:
        return (
            "look for it in history() before you repeat it: without an idempotency key it could count twice"
        )
    return f"repeat it with the same idempotency key, {key!r}: it counts once"
