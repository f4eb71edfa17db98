"""Transactions: several tables, read at one snapshot, committed at once.

In merge mode a commit is one PUT: a file under `transactions/` that holds the versions of all tables. Before
it, once in the life of a table, a mark is stored in its folder, so that readers look there. Nobody is waited
for and no other commit is in the way: what met is merged, and listed, as always. In CAS mode it is one claim
in each table and one decision: all of them count, or none.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from crdtcat.clock.hlc import wall_ms
from crdtcat.conflicts.resolve import Policy
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.head import Head, Version
from crdtcat.head.snapshot import versions_of
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.log import Log
from crdtcat.names import validate_branch_name, validate_table_name
from crdtcat.session import Session
from crdtcat.support.arguments import require_one_of, require_tables
from crdtcat.support.locks import ForkSafeLock
from crdtcat.support.showing import shown
from crdtcat.transaction.commit import require_one_branch
from crdtcat.transaction.ending import Ending
from crdtcat.transaction.forks import Kept, Name, require_as_it_was, require_joinable
from crdtcat.transaction.joining import Joining, joined
from crdtcat.transaction.pinning import Known, pin, require_one_mode
from crdtcat.transaction.staged import StagedSession
from crdtcat.transaction.table import StagedTable
from crdtcat.writing.restamp import StagedVersion
from crdtcat.writing.writer import Writer

if TYPE_CHECKING:
    from crdtcat.catalog import Catalog

ISOLATIONS: Final = ("snapshot", "serializable")


class Transaction(Ending):
    """Several changes to several tables that are committed together. Get one from `Catalog.transaction`.

    Reads see what was committed when each table was first used, the same transactions in all of them, and
    what was staged here since. Thread-safe: threads may stage side by side. `fork` gives a copy that can be
    pickled, for other processes to stage with; `join` takes back what they staged.

    Attributes:
        status: "open", "committed" or "aborted"; over tables in CAS mode "prepared" while all tables are
            claimed and nothing is decided, also where the store gave no clear answer to that, and "aborted"
            where its commit failed, which can be tried again.
        id: over tables in CAS mode, once it is prepared, or aborted with something of it in the store: its
            name, for `Catalog.transaction_status`.
        versions: once committed, what was committed to each table, in order; branches as "table@branch".
    """

    def __init__(self, catalog: Catalog, tables: Sequence[str] = (), *, isolation: str | None = None) -> None:
        isolation = catalog.options.isolation if isolation is None else isolation
        require_one_of("isolation", isolation, ISOLATIONS)
        names = dict.fromkeys(map(validate_table_name, require_tables(tables)))
        self._catalog, self.isolation = catalog, isolation
        self._since_ms = wall_ms()
        self._start()
        self.status, self._failed, self._closing = "open", False, False
        self._name, self._origin = secrets.token_hex(8), ""
        self.id: str | None = None
        self.versions: dict[str, tuple[Version, ...]] = {}
        with self._lock():
            self._pin([(name, MAIN) for name in names])

    def _start(self) -> None:
        self._unclear, self._process = None, os.getpid()
        self._lock, self._ending = ForkSafeLock(), ForkSafeLock()
        self._tables: dict[Name, StagedTable] = {}
        self._waiting: dict[Name, Kept] = {}
        self._forks: list[Transaction] = []  # those that were joined
        options = self._catalog.options
        self._writer = Writer("", self._catalog.clock, options.max_clock_skew_seconds * 1000)
        opened = [table._session for table in list(self._catalog._tables.values())]
        self._begun = {session.folder: Known.of(session) for session in opened}

    @property
    def committed(self) -> bool:
        """Whether it was committed."""
        return self.status == "committed"

    def __repr__(self) -> str:
        counts = {name: len(kept.staged) for name, kept in list(self._waiting.items())}
        counts |= {name: len(table._session.staged) for name, table in list(self._tables.items())}
        staged = ", ".join(f"{name}: {count}" for (name, _), count in counts.items())
        return f"Transaction({self.status}; {staged or 'nothing staged'})"

    # Tables.

    def table(self, name: str, branch: str = MAIN) -> StagedTable:
        """A handle on a table inside this transaction; pinned the first time, which costs a refresh.

        Raises `NotFound`, `InvalidName`, and `InvalidArgument` where tables of both modes would be in one
        transaction.
        """
        self._check_open()
        validate_table_name(name)
        validate_branch_name(branch)
        with self._lock():
            if (name, branch) not in self._tables:
                self._pin([(name, branch)])
            return self._tables[name, branch]

    def _pin(self, names: Sequence[Name]) -> None:
        """Take in more tables, all of one moment."""

        def pinned() -> tuple[list[Session], dict[str, Log]]:
            bases = [self._base(*name) for name in names]
            for base in bases[1:]:
                require_one_mode(base, {bases[0].settings.mode})
            fresh = [base for name, base in zip(names, bases, strict=True) if name not in self._waiting]
            held = [(table._session.base, table._session.pinned) for table in self._all()]
            return bases, dict(
                zip((base.folder for base in fresh), pin(fresh, held, self._begun), strict=True)
            )

        bases, found = self._catalog._again(pinned)
        for name, base in zip(names, bases, strict=True):
            kept = self._waiting.pop(name, None)
            if kept is not None:
                base.refresh()
                found[base.folder] = versions_of(base.state.log, kept.snapshot, name[0])
            session = self._session(base, found[base.folder])
            if kept is not None:
                session.take(kept.staged, kept.reads, kept.joined)
                session.inherited = kept.inherited
            self._tables[name] = StagedTable(session)

    def _session(self, base: Session, pinned: Log) -> StagedSession:
        return StagedSession(base, pinned, self._writer, self.isolation, lambda: self._check_stageable(base))

    def _check_stageable(self, base: Session) -> None:
        """Now, and not only when it is committed: by then all the work was done."""
        self._check_open()
        changed = [table._session.base for table in self._all() if table._session.staged]
        require_one_branch([*changed, base])

    def _base(self, name: str, branch: str) -> Session:
        base = self._catalog.table(name, branch)._session
        require_one_mode(base, {table._session.settings.mode for table in self._all()})
        if self.isolation == "serializable" and base.settings.mode != "cas":
            raise InvalidArgument(f"table {name!r} is in merge mode: serializable is for tables in CAS mode")
        return base

    def _all(self) -> list[StagedTable]:
        return list(self._tables.values())

    # Parts of it.

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """What is staged inside is forgotten if the block raises; the error goes on, and forks that were
        joined there can be joined again. Inside, other threads stage with a `fork`. If one did without, and
        the block raises, what it staged cannot be told from what is to be forgotten: the transaction is
        aborted, with `InvalidArgument`.
        """
        self._check_open()
        before, forks = {name: len(staged) for name, staged in self._staged().items()}, len(self._forks)
        try:
            yield
        except BaseException as error:
            with self._lock():
                alone = [table._session.keep(before.get(name, 0)) for name, table in self._tables.items()]
                while len(self._forks) > forks:
                    self._forks.pop().status = "forked"
            if not all(alone):
                self.status = "aborted"
                raise InvalidArgument(
                    "a savepoint failed in which several threads had staged: the transaction is aborted, "
                    "nothing of it is visible; begin another, and let other threads stage with fork()"
                ) from error
            raise

    def fork(self) -> Transaction:
        """A copy for another thread or process: it sees what is pinned and staged here, and what it stages
        comes back with `join`. It cannot be committed itself."""
        self._check_open()
        forked = Transaction(self._catalog, isolation=self.isolation)
        forked.status, forked._origin, forked._begun = "forked", self._name, self._begun
        forked._writer = Writer("", self._catalog.clock, 0)
        with self._lock():  # others may be about to use a table for the first time
            for name, table in self._tables.items():
                session = table._session
                copy = forked._session(session.base, session.pinned)
                copy.staged = list(session.staged)
                copy.inherited = len(copy.staged)
                forked._tables[name] = StagedTable(copy)
            forked._waiting.update({name: kept.forked() for name, kept in self._waiting.items()})
        return forked

    def join(self, *forks: Transaction, on_conflict: Any = None) -> None:
        """Take in what forks have staged, in the order given: all of them, or none. Each can be joined once.

        What a fork staged follows what is here, which it has not seen as far as it was staged since the fork
        was made. Where both touched the same, `on_conflict` says what becomes of it, or else the catalog's
        option of that name, as between two commits: "ours" is the fork's. Appends never meet. Where the
        transaction is serializable, nothing that the fork has read may have changed either. No request,
        unless a resolver looks at values, or a table is new here: then a refresh of it.

        Raises:
            InvalidArgument: what is no fork of this one, was joined before, saw something staged here that a
                savepoint has forgotten since, or, over tables in CAS mode, uses a table of another moment; a
                function of `on_conflict` that stages or joins something itself.
            CommitConflict: a fork touched what was staged here since it was made, in either mode; it tells of
                all tables and changes in the way of the first such fork. Nothing was joined or lost: join
                with other answers, `error.retry(on_conflict=...)`, or join the others and do that fork's work
                again.
        """
        answers = self._catalog.options.on_conflict if on_conflict is None else on_conflict
        self._join(forks, Policy.of(answers))

    def _join(self, forks: Sequence[Transaction], policy: Policy) -> None:
        self._check_open()
        with self._lock(), ExitStack() as held:
            for table in self._all():  # nobody stages between the judgement and the joining
                held.enter_context(table._session.staging())
            here, begun = self._kept(), self._staged()
            for at, fork in enumerate(forks):
                mine = getattr(fork, "status", "") == "forked" and fork._origin == self._name
                if not mine or fork in forks[:at]:
                    raise InvalidArgument(f"{shown(fork)} is not an open fork of this transaction")
                held.enter_context(fork._lock())
                for table in fork._all():  # nor there: what comes too late is told
                    held.enter_context(table._session.staging())
                found = fork._kept()
                require_joinable(here, found, strict=self._is_strict(found))
                for name, kept in found.items():
                    if name not in self._tables:  # first used there: what was read there is what counts
                        here[name] = self._waiting.setdefault(name, kept.untouched())
                    session = self.table(*name)._session
                    try:
                        here[name] = joined(session, here[name], kept, policy, self._after(name, found, here))
                    except CommitConflict as error:
                        error.again = lambda answers: self._join(forks, policy.amended(answers))
                        raise
            require_as_it_was(begun, self._staged())
            for name, table in self._tables.items():  # whoever commits meanwhile waits for all of it
                table._session.take(here[name].staged, here[name].reads, here[name].joined)
            for fork in forks:
                fork.status = "joined"
            self._forks += forks

    def _after(self, name: Name, fork: Mapping[Name, Kept], here: Mapping[Name, Kept]) -> Iterator[Joining]:
        """Tables of a fork that come after one of them, where something is here."""
        later = list(fork)[list(fork).index(name) + 1 :]
        return ((self.table(*each)._session, here[each], fork[each]) for each in later if each in here)

    def _is_strict(self, names: Iterable[Name]) -> bool:
        return any(self._base(*name).settings.mode == "cas" for name in names)

    def __getstate__(self) -> dict[str, Any]:
        if self.status != "forked":
            raise InvalidArgument("a transaction is not copied: pickle a fork() of it, and join() that back")
        return {
            "catalog": self._catalog,
            "isolation": self.isolation,
            "names": (self._name, self._origin),
            "waiting": self._kept(),
        }

    def _staged(self) -> dict[Name, list[StagedVersion]]:
        with self._lock():
            staged = {name: kept.staged for name, kept in self._waiting.items()}
            return staged | {name: list(table._session.staged) for name, table in self._tables.items()}

    def _kept(self) -> dict[Name, Kept]:
        with self._lock():
            return self._waiting | {name: _kept(table._session) for name, table in self._tables.items()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._catalog = state["catalog"]
        self._start()
        self.status, self.versions, self.isolation = "forked", {}, state["isolation"]
        self.id, self._failed, self._closing = None, False, False
        self._name, self._origin = state["names"]
        self._waiting.update(state["waiting"])

    def _wait_for_stages(self) -> None:
        with self._lock(), ExitStack() as held:
            for table in self._all():
                held.enter_context(table._session.staging())

    def _let_go(self) -> None:
        self._tables.clear()


def _kept(session: StagedSession) -> Kept:
    snapshot = Head(session.table, session.pinned, session.settings).snapshot
    return Kept(snapshot, list(session.staged), session.inherited, list(session.reads), dict(session.joined))
