"""A fork that comes back is held against what was staged here since, as a commit is against those before it.

It has seen nothing of that, so what it computed may be out of date. Where both touched the same, the later
one would undo the earlier one, and nobody would be told, because both become one commit. So it is the same
question as between two commits, with the same detector, kinds and answers: *mine* is what the fork staged,
*theirs* what is here. It is asked in merge mode, too: a cell that loses is listed there only if its winner
had not seen it, and within one transaction every version has seen those before it; and whoever joins is at
hand to answer, as nobody is when commits are merged.

What a fork brings gets stamps of now, later than all that is here. So what is read inside a transaction after
a join is what will be committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from crdtcat.cas.changes import KnownKeys, conflicts_with
from crdtcat.cas.key_reading import key_reader
from crdtcat.cas.preparing import TransactionChange
from crdtcat.cas.reading import Asked, Read
from crdtcat.cas.resolving import resolved
from crdtcat.cas.seen_rows import SeenRows
from crdtcat.cas.telling import ByTable, Found, is_open, named, take, tell_more
from crdtcat.conflicts import Overlap, WriteSet
from crdtcat.conflicts.resolve import Policy
from crdtcat.errors import CommitConflict
from crdtcat.head import Head
from crdtcat.support.cached import cached_property
from crdtcat.transaction.forks import Kept
from crdtcat.transaction.staged import StagedSession
from crdtcat.writing.restamp import StagedVersion
from crdtcat.writing.writer import Slot, Writer

Joining = tuple[StagedSession, Kept, Kept]
"""A table inside the transaction, what it has, and what a fork has."""


def joined(
    session: StagedSession, here: Kept, fork: Kept, policy: Policy, others: Iterable[Joining] = ()
) -> Kept:
    """What a table of a transaction has with what a fork brings. Nothing is changed. Theorems:
    `line_any_order`, `line_last_wins`.

    No request, unless a resolver looks at values, intervals leave it open whether a read still holds, or keys
    in segments lie in ranges that overlap: then what reading those costs. O(what was staged since the fork
    was made), for each version that the fork brings.

    Args:
        session: the table inside the transaction.
        here: what it has.
        fork: what the fork has.
        policy: what is to be done where both touched the same.
        others: the fork's tables that come after this one: an error tells of them, too.

    Raises:
        CommitConflict: the policy says to fail; `sides` has both. It tells of all that is staged in the way
            of this fork.
    """
    own = _judged(session, here, fork, policy, others)
    made = session.stamped(own, len(here.staged))
    names = {old.id: new.id for old, new in zip(own, made, strict=True)}
    through = {first: names[last] for first, last in fork.joined.items() if last in names}
    return here._replace(
        staged=[*here.staged, *made],
        reads=[*here.reads, *fork.reads],
        joined={**here.joined, **through, **names},
    )


def _judged(
    session: StagedSession, here: Kept, fork: Kept, policy: Policy, others: Iterable[Joining]
) -> Sequence[StagedVersion]:
    """What a fork has staged itself, as the policy says it shall be."""
    since, own = here.staged[fork.inherited :], fork.staged[fork.inherited :]
    if not since or not (own or fork.reads):
        return own
    meeting = _Meeting(session, here, fork, policy)
    met = meeting.met()
    for theirs in met:
        try:
            meeting.meet(theirs)
        except CommitConflict as error:
            later = (_Meeting(*each, policy) for each in others)
            rest = (found for each in later for theirs in each.met() for found in each.open(theirs))
            tell_more(error, chain((found for theirs in met for found in meeting.open(theirs)), rest), _forks)
            raise
    return meeting.change.staged


def _forks(tables: ByTable) -> str:
    names = ", ".join(map(repr, tables))
    return (
        f"table{'s' if len(tables) > 1 else ''} {names}: this fork touched what was staged in its "
        "transaction since it was made; nothing was joined. Say what shall win, join(fork, on_conflict=...), "
        "where 'ours' is the fork, or do its work again in another fork"
    )


class _Meeting:
    """What a fork brings to one table, and what it finds there. What is only needed to settle a conflict, or
    to ask again, is made then."""

    def __init__(self, session: StagedSession, here: Kept, fork: Kept, policy: Policy) -> None:
        self._session, self._here, self._fork = session, here, fork
        self.change = TransactionChange(
            session.folder, {}, {}, Slot(Writer("", session.clock, 0)), policy,
            keys=session.settings.key, key_reader=key_reader(session),
            staged=tuple(fork.staged[fork.inherited :]),
            known=KnownKeys(session.pinned, lambda: self._seen.log), seen_rows=SeenRows(lambda: self._seen),
        )  # fmt: skip

    @cached_property
    def _view(self) -> StagedSession:
        return self._session.with_staged(self._here.staged)

    @cached_property
    def _seen(self) -> Head:
        log = self._session.log_with(self._fork.staged[: self._fork.inherited])
        return Head(self._session.table, log, self._session.settings)

    def met(self) -> Iterator[WriteSet]:
        """What is here that the fork has not seen, as far as it may be in the way."""
        fork, adds = self._fork, all(map(_only_adds, self.change.writes))
        for item in self._here.staged[fork.inherited :]:
            theirs = self._session.writes(item)
            if fork.reads or not adds or not _only_adds(theirs):
                yield theirs

    def meet(self, theirs: WriteSet) -> None:
        """One version that is here. Raises `CommitConflict`."""
        if conflicts := self._conflicts(theirs):
            self.change = self._settled(conflicts)

    def open(self, theirs: WriteSet) -> Iterator[Found]:
        """What of one version that is here no word of the policy settles."""
        for item in named(self._session, self._conflicts(theirs), self._seen):
            if is_open(self.change, item):
                yield self._view, self.change, self._seen, item

    def _conflicts(self, theirs: WriteSet) -> tuple[Overlap, ...]:
        conflicts = conflicts_with(self.change, self.change.writes, theirs)
        if self._asked is None:
            return conflicts
        log = self._view.state.log
        return conflicts + self._asked.judged(log, log.index_of(theirs.id))

    def _settled(self, conflicts: Sequence[Overlap]) -> TransactionChange:
        view, change, seen = self._view, self.change, self._seen
        view.head()  # what is known of its columns
        found = named(view, conflicts, seen)
        patched = resolved(view, change, seen, found)
        if isinstance(patched, TransactionChange):
            return patched
        error = CommitConflict("", change=change)
        take(error, [(view, change, seen, item) for item in found], _forks)
        raise error

    @cached_property
    def _asked(self) -> Asked | None:
        """What the fork has read, where that counts, each of what it had staged by then, stamped to come
        last."""
        if not self._fork.reads:
            return None
        fork, view = self._fork, self._view
        hlc = view.clock.tick()
        groups: dict[tuple[object, ...], tuple[list[StagedVersion], dict[object, Read]]] = {}
        for read, staged in fork.reads:
            name = tuple(item.id for item in staged)
            if name not in groups:
                own = view.stamped(staged[fork.inherited :], len(self._here.staged), hlc)
                groups[name] = [*staged[: fork.inherited], *own], {}
            groups[name][1][read.key] = read
        return Asked(view, ((view.log_with(made), list(reads.values())) for made, reads in groups.values()))


def _only_adds(writes: WriteSet) -> bool:
    """Whether a version does nothing but append rows: two of those never meet."""
    ops = writes.ops
    touches = writes.keys or writes.touches_rows or writes.columns or ops.properties or ops.is_overwrite
    return not touches
