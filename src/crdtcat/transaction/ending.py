"""How a transaction ends: committed, aborted, or tried again with what it has staged.

A commit that fails leaves nothing visible and lets go of nothing: what is staged is tried again as it is,
under another id, because the first one is decided. In merge mode nothing is: once storing its file was begun
the same is stored again, under its name, and counts once, whenever the first arrives.
Whoever dies in between is in `crdtcat.cas.preparing`.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from crdtcat.conflicts.resolve import Policy
from crdtcat.errors import CommitConflict, CommitContended, InvalidArgument
from crdtcat.head import Version
from crdtcat.lifecycle.closing import is_counted
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.protocol import claim_name
from crdtcat.protocol.names import transaction_name
from crdtcat.support.locks import ForkSafeLock
from crdtcat.transaction.commit import Try, commit_merged
from crdtcat.transaction.commit_cas import commit_cas, require_unchanged
from crdtcat.transaction.staged import StagedSession
from crdtcat.transaction.table import StagedTable
from crdtcat.transaction.tending import tend
from crdtcat.transaction.verbs import TableVerbs
from crdtcat.writing.own_commits import Own
from crdtcat.writing.staged import require_in_time

if TYPE_CHECKING:
    from crdtcat.catalog import Catalog


class Ending(TableVerbs):
    """The end of a transaction, and its status until then."""

    isolation: str
    status: str
    id: str | None
    versions: dict[str, tuple[Version, ...]]
    _catalog: Catalog
    _since_ms: int
    _ending: ForkSafeLock
    _failed: bool
    """Whether it is aborted because its commit failed, and what is staged is still here."""
    _closing: bool
    """Whether it is being committed: what is staged now would be in no commit."""
    _unclear: Try | None
    """What a commit in merge mode was storing, until it is known what became of it."""
    _process: int
    """Where it was begun."""

    @abstractmethod
    def _all(self) -> list[StagedTable]:
        """Its tables."""

    @abstractmethod
    def _wait_for_stages(self) -> None:
        """Until whoever stages or joins at this moment has done so, or was told that it is too late."""

    @abstractmethod
    def _let_go(self) -> None:
        """Forget what is staged."""

    def commit(self) -> dict[str, tuple[Version, ...]]:
        """Make everything visible, at once. Nothing staged: no request, and nothing is committed; where it is
        serializable and read several tables, one refresh of each.

        What is staged is kept whatever fails. Commit again, or abort; after a conflict commit it with other
        answers, `error.retry(on_conflict=...)`. In CAS mode each try is a transaction of its own, with a new
        id; the one before it is aborted.

        Raises:
            StoreUnavailable, ClockSkew, LimitExceeded: nothing became visible.
            CommitUnknown: the store gave no clear answer. In merge mode commit again: it counts once. In CAS
                mode it waits for its decision: `Catalog.transaction_status` of its `id` tells which it was.
            CommitConflict, CommitContended: tables in CAS mode: see `crdtcat.transaction.commit_cas`.
        """
        return self._committed(None)

    def _committed(self, policy: Policy | None) -> dict[str, tuple[Version, ...]]:
        """Commit, with other answers to conflicts than the catalog's. Of several threads one does."""
        with self._ending():
            self._closing = True
            try:
                self._wait_for_stages()
                return self._ended(policy)
            finally:
                self._closing = False

    def _ended(self, policy: Policy | None) -> dict[str, tuple[Version, ...]]:
        if self.status == "prepared":
            raise InvalidArgument(
                f"whether this transaction was committed is not known: ask transaction_status({self.id!r}), "
                "and begin another if it is aborted"
            )
        if self.status == "forked":
            raise InvalidArgument("a fork is not committed itself: join() it to the transaction it is from")
        if self.status != "open" and not self._failed:
            raise InvalidArgument(f"this transaction is {self.status}: begin another")
        if self._process != os.getpid():  # both would commit it, and it would count twice
            raise InvalidArgument(
                "this transaction was begun before a fork, and is committed by the process that began it: "
                "begin another here, or let this process stage in its `fork()`, and join that"
            )
        self.status, self.id, self._failed = "open", None, False
        strict = self.isolation == "serializable"
        sessions = [table._session for table in self._all()]
        if self._unclear is not None:
            return self._settled(sessions, self._unclear)
        staged = any(session.staged for session in sessions)
        sessions = [item for item in sessions if item.staged or (strict and item.reads)]
        if not staged:
            if len(sessions) > 1:
                self._require_unchanged(sessions)
            sessions = []  # it read one snapshot, and that is all
        if sessions:
            require_in_time(self._since_ms)
            cas = sessions[0].settings.mode == "cas"
            committed = (
                self._decided(sessions, policy) if cas else commit_merged(sessions, trying=self._trying)
            )
            return self._stands(sessions, committed)
        self.status = "committed"
        return self.versions

    def _stands(
        self, sessions: Sequence[StagedSession], committed: Sequence[tuple[Version, ...]]
    ) -> dict[str, tuple[Version, ...]]:
        self.versions = {}
        for session, made in zip(sessions, committed, strict=True):
            if made:
                self.versions[_shown(session)] = made
                session.base.writer.last = Own(made[-1].id, self._file_of(session, made[-1]))
                session.told(made)
        self.status, self._unclear = "committed", None
        for made in list(self.versions.values())[:1]:
            tend(self._catalog, made[-1].id)
        return self.versions

    def _file_of(self, session: StagedSession, version: Version) -> str:
        if self._unclear is not None:  # in merge mode, all tables' versions
            return transaction_name(self._unclear.id)
        return claim_name(session.folder, version.number)

    def _trying(self, tried: Try) -> None:
        self._unclear = tried

    def _settled(self, tables: Sequence[StagedSession], tried: Try) -> dict[str, tuple[Version, ...]]:
        """Commit what may be there: look, then store it again. A refresh more than another commit."""
        sessions = [session for session in tables if session.folder in tried.parts]
        if is_counted(tried.held(sessions), tried.id):
            return self._stands(sessions, tried.versions(sessions))
        require_in_time(self._since_ms)
        return self._stands(sessions, commit_merged(sessions, trying=self._trying, unclear=tried))

    def _require_unchanged(self, sessions: Sequence[StagedSession]) -> None:
        """Whether what it read was so at one moment; else it is over: there is nothing to try again."""
        try:
            require_unchanged(sessions)
        except CommitConflict:
            self.status = "aborted"
            raise

    def _decided(self, sessions: Sequence[StagedSession], policy: Policy | None) -> list[tuple[Version, ...]]:
        """Commit to tables in CAS mode, and keep the status."""

        def prepared(writer: int) -> None:
            self.id, self.status = f"{writer:016x}", "prepared"

        def aborted(writer: int | None) -> None:
            self.id = None if writer is None else f"{writer:016x}"
            self.status, self._failed = "aborted", True

        strict = self.isolation == "serializable"
        try:
            return commit_cas(
                sessions, serializable=strict, policy=policy, prepared=prepared, aborted=aborted
            )
        except CommitConflict as error:
            answered = policy or Policy.of(self._catalog.options.on_conflict)
            error.again = lambda answers: self._committed(answered.amended(answers))
            raise
        except CommitContended:
            if self.status == "prepared":  # somebody waited for it, and decided
                self.status, self._failed = "aborted", True
            raise

    def abort(self) -> None:
        """Let go of everything staged. No request. Waits for a commit of another thread. After
        `CommitUnknown` it may be visible all the same."""
        with self._ending():
            if not self._failed and self._unclear is None:
                self._check_open()
            self.status, self._failed, self._unclear = "aborted", False, None
            self._let_go()

    def _check_open(self) -> None:
        if self._closing:
            raise InvalidArgument("this transaction is being committed: nothing is added to it any more")
        if self._unclear is not None:
            raise InvalidArgument(
                "this transaction failed while it was being stored, and may be there all the same: nothing "
                "is added to it; commit() again, it counts once"
            )
        if self._failed:
            raise InvalidArgument(
                "the commit of this transaction failed, so nothing is added to it: commit() again, or "
                "error.retry(on_conflict=...) after a conflict, or begin another"
            )
        if self.status not in ("open", "forked"):
            raise InvalidArgument(f"this transaction is {self.status}: begin another")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status != "open":
            return
        if kind is None:
            self.commit()
        elif self._unclear is None:  # else it may be there, and can be committed again
            self.abort()


def _shown(session: StagedSession) -> str:
    return session.table if session.branch == MAIN else f"{session.table}@{session.branch}"
