"""A session inside a transaction: reads are pinned, commits are staged.

Verbs are functions over a session, so inside a transaction they run unchanged: the head they see is the
pinned snapshot with everything staged so far over it, and what they commit is kept as a version file that
nobody else sees. Segments are stored at once; if the transaction is aborted they are garbage. Thread-safe:
stages of several threads come one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from crdtcat.cas.reading import Asked, Read
from crdtcat.clock import VersionId
from crdtcat.conflicts import WriteSet, write_set
from crdtcat.drive import put_all
from crdtcat.errors import InvalidArgument, StoreError
from crdtcat.format.version import encode_version
from crdtcat.head import Head, Version
from crdtcat.log import Log, State, join
from crdtcat.protocol import Put, Reader
from crdtcat.session import Session
from crdtcat.support.locks import ForkSafeLock
from crdtcat.writing.fit import Known
from crdtcat.writing.knowledge import Knowledge, born_as
from crdtcat.writing.restamp import StagedVersion, restamped, staged_log
from crdtcat.writing.version_keys import seen_clock, version_body, version_of
from crdtcat.writing.writer import Writer

LAST: Final = 2**64 - 2**32
"""A stamp that no clock reaches, for versions that come after all that anybody commits."""


class StagedSession(Session):
    """One table inside a transaction.

    Args:
        base: the handle's own session.
        pinned: the versions it reads.
        writer: the transaction's.
        isolation: the transaction's.
        require_open: raises where the transaction takes no more changes.
    """

    def __init__(
        self,
        base: Session,
        pinned: Log,
        writer: Writer,
        isolation: str,
        require_open: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            base.store,
            base.table,
            branch=base.branch,
            settings=base.settings,
            options=base.options.model_copy(update={"upkeep": False, "isolation": isolation}),
            clock=base.clock,
            origin=base.origin,
            life=base.life,
        )
        self.base, self.pinned, self._require_open, self.footers = base, pinned, require_open, base.footers
        self.staged: list[StagedVersion] = []
        self.inherited = 0
        self.reads: list[tuple[Read, tuple[StagedVersion, ...]]] = []
        self.joined: dict[VersionId, VersionId] = {}
        self._writes: dict[VersionId, WriteSet] = {}
        self._stagers: dict[VersionId, int] = {}
        self._writer = writer
        self._staging = ForkSafeLock()
        self._shown: tuple[int, Head] | None = None
        self._knowledge, self._must_look = Knowledge(base._knowledge.columns), True
        self._teaches = False

    @property
    def known(self) -> Known | None:
        """The columns that rows are checked against: those of the head, if what is staged was changed."""
        if self._must_look:
            self._look()
        return self._knowledge.columns

    def _look(self) -> None:
        """Learn the columns. Where nothing but rows was committed, and all of them are of one schema, that
        and the settings say it all: then it is worked out once for many transactions of a handle."""
        log, last = self.pinned, self.base.last_known
        if self.staged or len(log.schemas) != 1 or log.ops.null_count != len(log):
            self.head()
        elif last is not None and last[:2] == (self.settings, log.schemas[0]):
            self._knowledge, self._must_look = Knowledge(last[2]), False
        else:
            self.head()
            self.base.last_known = self.settings, log.schemas[0], self._knowledge.columns

    def learn(self, columns: Known, author: VersionId) -> None:
        """What a staged version made of the columns: the table's own handle is told once it is committed."""
        super().learn(columns, author)
        self._teaches = True

    def told(self, made: Sequence[Version]) -> None:
        """What is staged was committed, as these: what it made of the columns, the table's own handle knows
        from then on. No request; a refresh where conflicts were answered by leaving out some of it."""
        known = self.known if self._teaches else None
        if known is None:
            return
        if len(made) != len(self.staged):
            with suppress(StoreError):  # it is committed, whether that can be looked at or not
                self.base.head()
            return
        names = {item.id: version.id for item, version in zip(self.staged, made, strict=True)}
        self.base.learn(born_as(known, names), made[-1].id)

    def refresh(self, *, described: bool = False) -> Reader[State]:  # noqa: ARG002 (nothing is listed)
        """Not inside a transaction: what it reads is pinned."""
        raise InvalidArgument(f"table {self.table!r} is pinned: this cannot be done inside a transaction")

    def head(self, *, refresh: bool = True) -> Head:  # noqa: ARG002 (pinned: there is nothing to refresh)
        """The pinned snapshot with what is staged over it. No request."""
        with self._staging():
            if self._shown is None or self._shown[0] != len(self.staged):
                head = Head(self.table, self.log_with(self.staged), self.settings)
                self._knowledge, self._must_look = self._knowledge.looked_at(head), False
                self._shown = len(self.staged), head
            return self._shown[1]

    def looked(self, head: Head, read: Read) -> None:  # noqa: ARG002 (it is of what is staged now)
        """Remember what was read, and what was staged by then, if that counts. No request."""
        if self.options.isolation == "serializable":
            with self._staging():
                self.reads.append((read.kept(), tuple(self.staged)))

    @property
    def asked(self) -> Asked:
        """What was read, each of what was pinned with what was staged by then, stamped to come last: as it
        will be committed, after whatever it is held against."""
        groups: dict[tuple[VersionId, ...], tuple[tuple[StagedVersion, ...], dict[Any, Read]]] = {}
        for read, staged in self.reads:
            known = groups.setdefault(tuple(item.id for item in staged), (staged, {}))
            known[1][read.key] = read
        last = ((restamped(staged, self._writer.id, LAST), reads) for staged, reads in groups.values())
        return Asked(self, ((self.log_with(staged), list(reads.values())) for staged, reads in last))

    def log_with(self, staged: Sequence[StagedVersion]) -> Log:
        """The pinned snapshot's log with some versions."""
        return join(self.pinned, staged_log(self.folder, staged)) if staged else self.pinned

    def commit(
        self,
        operation: str,
        *,
        body: Mapping[str, Any],
        puts: Sequence[Put] = (),
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        seen: Head | None = None,
        writer: Writer | None = None,
    ) -> Version:
        """Stage one version. Segments are stored, one PUT each.

        Raises:
            StoreUnavailable: nothing was staged.
            InvalidArgument: the transaction is over, or being committed.
        """
        if writer is not None:
            raise InvalidArgument("upkeep is not a part of transactions")
        self._require_open()
        put_all(puts, self.store, f"{self.folder}: the rows", "nothing was staged")
        whole = version_body(operation, body, metadata, key)
        clock = {} if seen is None else seen_clock(seen)
        with self._staging():
            self._require_open()  # again, where nobody ends it meanwhile: what comes later is in no commit
            stamp = {
                "h": self.clock.tick(),
                "w": self._writer.id,
                "s": len(self.staged) + 1,
                "l": self.folder,
            }
            id, data = encode_version({**whole, **clock, **stamp})
            self.staged.append(StagedVersion(id, data))
            self._stagers[id] = threading.get_ident()
        return version_of(id, operation, whole, self.pinned if seen is None else seen.log)

    def stamped(
        self, staged: Sequence[StagedVersion], after: int, hlc: int | None = None
    ) -> list[StagedVersion]:
        """Versions that a fork has staged, as if they were staged here, now, after so many others."""
        hlc = self.clock.tick() if hlc is None else hlc
        self.clock.observe(hlc + len(staged))
        return restamped(staged, self._writer.id, hlc, after=after)

    def take(
        self,
        staged: Sequence[StagedVersion],
        reads: Sequence[tuple[Read, tuple[StagedVersion, ...]]],
        joined: Mapping[VersionId, VersionId],
    ) -> None:
        """Have these staged, and these reads: what was here, and what forks have brought."""
        with self._staging():
            if staged:  # whatever is staged here from now on comes after them
                self.clock.observe(max(item.id.hlc for item in staged))
            self.staged, self.reads, self.joined = list(staged), list(reads), dict(joined)
            self._teaches = bool(staged)
            self._look_again()

    def staging(self) -> AbstractContextManager[bool]:
        """Nobody else stages meanwhile."""
        return self._staging()

    def writes(self, item: StagedVersion) -> WriteSet:
        """What a version that is staged here writes, found once."""
        if item.id not in self._writes:
            self._writes[item.id] = write_set(staged_log(self.folder, [item]), 0, self.settings.key)
        return self._writes[item.id]

    def with_staged(self, staged: Sequence[StagedVersion]) -> StagedSession:
        """Another one that reads some versions over what is pinned as if they were committed. No request."""
        view = StagedSession(self.base, self.pinned, self._writer, self.options.isolation)
        view.staged = list(staged)
        view._state = State(self.folder, self.log_with(staged))
        return view

    def keep(self, count: int) -> bool:
        """Forget what was staged after the first `count` versions; whether all that is this thread's."""
        with self._staging():
            mine = threading.get_ident()
            alone = all(self._stagers.get(item.id, mine) == mine for item in self.staged[count:])
            del self.staged[count:]
            self._look_again()
            return alone

    def _look_again(self) -> None:
        """What is staged is not what it was, nor perhaps the columns: a commit that they were known from may
        be gone."""
        self._shown, self.last_fit = None, None
        self._knowledge, self._must_look = Knowledge(self.base._knowledge.columns), True
