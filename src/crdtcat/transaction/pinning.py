"""One snapshot of several tables: transactions are in all of them or in none, no commit is without its cause.

Tables are read one after the other, and others commit in between. If what is pinned has a transaction, the
next table is listed until it has it too: its file was there before. If the next table has one that what is
pinned lacks, it is left out of the snapshot.

Somebody may also have read a commit that an earlier table was pinned without, and have committed because of
it to a later one. Nobody says what a commit had read in other tables, but stamps rise: whatever rests on a
commit has a greater one. So tables are listed once more after the last was read, and of what was new in that
one, everything above the least stamp of what the others now have besides is left out. What this handle knew
or wrote before the transaction began is never left out. Whatever had seen something left out goes with it.
A table in CAS mode is not listed for that unless one read after it has something above its newest claim that
this handle did not know: stamps rise with numbers, so whatever it was read without is above that claim.

Stamps are not the order in which commits are stored: one that was slow has a small stamp, and would have much
left out that was acknowledged long before. So where anything came between, all tables are read once more, and
what the first reading had found was there before: nothing of it is left out then.
(Models: `Transactions`, `Marks` in proofs/tla; theirs has no commits that rest on others.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crdtcat.errors import InvalidArgument, StoreUnavailable
from crdtcat.format.sections import Array
from crdtcat.format.version import TO_CAS
from crdtcat.head.clocks import Clocks, Members
from crdtcat.lifecycle.closing import require_settled
from crdtcat.log import Log, empty_log, select
from crdtcat.log.log import ID
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol.reader import PASSES_MAX
from crdtcat.session import Session


class Known(NamedTuple):
    """What a handle knew of a log when a transaction began.

    Attributes:
        log: what it had read.
        newest: the newest claim it knew, its own perhaps.
        writer: the identity that it writes under.
        seq: how often it had by then. What it writes while the transaction is open is as what others write:
            it may rest on something that a table was pinned without.
    """

    log: Log
    newest: bytes | None
    writer: int
    seq: int

    @classmethod
    def of(cls, session: Session) -> Known:
        """As of now. No request."""
        parent = session.chain.parent
        newest = None if parent is None or parent.id is None else parent.id.to_bytes()
        return cls(session.state.log, newest, session.writer.id, session.writer.seq)

    def members(self, log: Log) -> Array:
        """Per version of a later log, whether it was known."""
        own = log.id_fields["writer"].astype(np.uint64) == self.writer
        known = (self.log.find(log.ids) >= 0) | (own & (log.id_fields["seq"] <= self.seq))
        if self.newest is not None:
            known |= log.ids <= np.array([self.newest], ID)[0]
        return np.asarray(known)


Pinned = tuple[Session, Log]


def pin(sessions: Sequence[Session], pinned: Sequence[Pinned], begun: Mapping[str, Known]) -> list[Log]:
    """The versions of more tables, as of the same moment as those that are pinned.

    Costs a refresh of each, one more for each time that a transaction was stored in between, and one of every
    table but the last; twice that where anything was stored in between, if no table was pinned before. In CAS
    mode a table is refreshed once more only if a later one has a commit that is new to this handle and is
    stamped above the table's newest.

    Args:
        sessions: the tables to pin.
        pinned: the others, with what is pinned of them.
        begun: by log folder, what was known when the transaction began.
    """
    found, known, unseen = _read(sessions, pinned, begun)
    if unseen and not pinned:
        begun = {session.folder: Known.of(session) for session in sessions}
        found, known, unseen = _read(sessions, pinned, begun)
    new = found[len(pinned) :]
    if not unseen:
        return [log for _, log in new]
    due = {writer for _, log in pinned for writer in transactions_in(log)}
    for (_, log), members in zip(new, known, strict=True):
        due |= transactions_in(select(log, members)).keys()
    return _cut([log for _, log in found], len(pinned), known, due, min(unseen))


def _read(
    sessions: Sequence[Session], pinned: Sequence[Pinned], begun: Mapping[str, Known]
) -> tuple[list[Pinned], list[Array], list[int]]:
    """All tables, what was known of the new ones, and the least stamps of what came into one before the last
    was read."""
    found = list(pinned)
    for session in sessions:
        found.append((session, _listed(session, found)))
    new = found[len(pinned) :]
    nothing = Known(empty_log(), None, 0, 0)
    known = [begun.get(session.folder, nothing).members(log) for session, log in new]
    if not sessions or len(found) == 1:
        return found, known, []
    highest = [_highest(log, ~members) for (_, log), members in zip(new, known, strict=True)]
    for at, (session, log) in enumerate(found[:-1]):
        if max(highest[max(0, at + 1 - len(pinned)) :]) > _unseen_above(session, log):
            session.refresh()
    return found, known, [stamp for item in found if (stamp := _least_unseen(*item)) is not None]


def _unseen_above(session: Session, log: Log) -> int:
    """A stamp that whatever comes into a table after what is pinned of it is above: that of its newest claim.
    None where commits without a number may come: in merge mode, and where a table was switched from it."""
    if session.settings.mode != "cas" or (log.operation == TO_CAS).any():
        return -1
    return _highest(log, log.number > 0)


def _highest(log: Log, chosen: Array) -> int:
    """The greatest stamp of some commits; -1: there is none."""
    return int(log.id_fields["hlc"].astype(np.int64)[chosen & ~log.is_upkeep].max(initial=-1))


def _cut(logs: Sequence[Log], fixed: int, known: Sequence[Array], due: set[int], least: int) -> list[Log]:
    """All but the first `fixed` logs without what may rest on something above a stamp that was not seen."""
    gone: set[int] = set()
    while True:
        cut = [
            _below(log, least, members | _by(log, due), gone)
            for log, members in zip(logs[fixed:], known, strict=True)
        ]
        here = [transactions_in(log).keys() for log in (*logs[:fixed], *cut)]
        torn = set().union(
            *(transactions_in(log).keys() - left for log, left in zip(logs, here, strict=True))
        )
        torn = {writer for writer in torn if any(writer in left for left in here)}
        if not torn:
            return cut
        gone |= torn  # what is left out of one table is left out of all, with what rests on it there
        stamps = [log.id_fields["hlc"][_by(log, torn)] for log in logs[fixed:]]
        least = min(least, int(np.concatenate(stamps).min()))


def _listed(session: Session, pinned: Iterable[Pinned]) -> Log:
    """A table with every transaction that is due in it, and none that the others lack."""
    held = {other.folder: transactions_in(log) for other, log in pinned}
    due = {
        writer for found in held.values() for writer, item in found.items() if session.folder in item.folders
    }
    for _ in range(PASSES_MAX):
        session.refresh()
        session.shown = len(session.state.log) > 0  # to somebody, by a head that is not the handle's
        require_settled(session)
        log = session.state.log
        here = transactions_in(log)
        if all(writer in here and here[writer].whole for writer in due):
            early = {
                writer
                for writer, item in here.items()
                if any(folder in held and writer not in held[folder] for folder in item.folders)
            }
            return _without(log, _by(log, early)) if early else log
    raise StoreUnavailable(
        f"{session.folder}: a transaction that another table shows is not here after {PASSES_MAX} listings"
    )


def _least_unseen(session: Session, log: Log) -> int | None:
    """The least stamp of what a table has by now and what is pinned of it lacks."""
    now = session.state.log
    unseen = (log.find(now.ids) < 0) & ~now.is_upkeep
    return int(now.id_fields["hlc"][unseen].min()) if unseen.any() else None


def _below(log: Log, least: int, kept: Array, gone: set[int]) -> Log:
    """A log up to a stamp, without some transactions; but with those kept, and whatever they had seen."""
    doomed = (log.id_fields["hlc"].astype(np.int64) > least) & ~log.is_upkeep & ~kept
    if doomed.any() and kept.any():
        clocks, members = Clocks(log), Members(log)
        for at in np.flatnonzero(kept & np.asarray(log.clock.is_valid())).tolist():
            if doomed[:at].any():
                doomed &= ~members.seen_by(clocks.of(at))
    parts = doomed & np.asarray(log.transaction.is_valid())
    doomed |= _by(log, gone | set(log.id_fields["writer"][parts].tolist()))  # all of one, or nothing
    return _without(log, doomed) if doomed.any() else log


def _by(log: Log, writers: set[int]) -> Array:
    """Per version, whether it is of one of some transactions."""
    found: Array = np.isin(log.id_fields["writer"].astype(np.uint64), np.array(sorted(writers), np.uint64))
    return found


def _without(log: Log, doomed: Array) -> Log:
    """A log without some versions, and without whatever had seen one of them."""
    clocks, dropped = Clocks(log), doomed.copy()
    least: dict[int, int] = {}
    for at in np.flatnonzero(doomed).tolist():
        id = log.id_at(at)
        least[id.writer] = min(id.seq, least.get(id.writer, id.seq))
    observing = np.asarray(log.clock.is_valid())
    observing[: int(np.argmax(doomed))] = False
    for at in np.flatnonzero(observing & ~doomed).tolist():
        clock = clocks.of(at)
        dropped[at] = any(clock.saw(writer, seq) for writer, seq in least.items())
    numbers = log.number[dropped & (log.number > 0)]
    if len(numbers):  # claims that hold nothing saw nothing, and would hide that one below them is missing
        dropped |= log.number > numbers.min()
    return select(log, ~dropped)


def require_one_mode(session: Session, modes: set[str]) -> None:
    """Raises `InvalidArgument` where a table is in another mode than others of its transaction."""
    if modes - {session.settings.mode}:
        raise InvalidArgument(
            f"table {session.table!r} is in {session.settings.mode} mode, and others of this transaction "
            "are not: one transaction is over tables of one mode"
        )
