"""Committing a transaction in merge mode: marks where they are missing, then one file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from crdtcat.cas.switching import listed_lately, settle_switch
from crdtcat.clock import VersionId
from crdtcat.drive import put_all
from crdtcat.errors import CommitContended, InvalidArgument
from crdtcat.format.version import OPERATIONS, decode_version, encode_version
from crdtcat.head import Version
from crdtcat.lifecycle.closing import is_passed_by
from crdtcat.lifecycle.horizons import greatest, is_late
from crdtcat.protocol import Put, mark_name
from crdtcat.protocol.names import transaction_name
from crdtcat.session import Session
from crdtcat.transaction.staged import StagedSession
from crdtcat.writing.restamp import StagedVersion, restamped
from crdtcat.writing.version_keys import version_of
from crdtcat.writing.writer import check_clock, publish_version

_ADVICE: Final = "commit() again: it counts once"


class Try(NamedTuple):
    """What was staged, under ids of one moment.

    Attributes:
        id: the transaction's.
        data: its file.
        parts: by log folder, its versions.
    """

    id: VersionId
    data: bytes
    parts: Mapping[str, Sequence[StagedVersion]]

    def held(self, sessions: Iterable[StagedSession]) -> list[tuple[Session, VersionId]]:
        """Each table with a version of it that this one brings."""
        return [(session.base, self.parts[session.folder][0].id) for session in sessions]

    def versions(self, sessions: Iterable[StagedSession]) -> list[tuple[Version, ...]]:
        """What it brings to each table, as its author sees it."""
        return [committed_versions(session, self.parts[session.folder]) for session in sessions]


def commit_merged(
    sessions: Sequence[StagedSession],
    *,
    trying: Callable[[Try], None],
    unclear: Try | None = None,
) -> list[tuple[Version, ...]]:
    """Commit what is staged, in all logs at once. One PUT, and one for each mark not known to be there.

    A refresh of each table more where it was pinned longer ago than half of `max_commit_delay_seconds`, and
    of one where storing it took longer than that; a LIST for each where the clock is behind by more than
    that; another PUT where an expiry has passed it by.

    Args:
        sessions: the tables, with what is staged.
        trying: told what is about to be stored.
        unclear: what an earlier call was storing when it failed: it is stored again as it is. The same file
            under the same name counts once, whenever the first arrives.

    Raises:
        InvalidArgument: two branches of one table are changed; nothing was written.
        CommitContended: a table is being switched to CAS mode; nothing was written.
        ClockSkew, LimitExceeded: nothing was written.
        StoreUnavailable: nothing became visible.
        CommitUnknown: it may or may not be there: call it again with what it was trying.
    """
    store = sessions[0].store
    require_one_branch(session.base for session in sessions)
    check_clock(store, sessions[0].options.max_clock_skew_seconds * 1000)
    for session in sessions:
        session.base.require_not_dropped()
        _require_merge_mode(session)
    tried = unclear or _stamped(sessions)
    marks = [Put(mark_name(session.folder), b"") for session in sessions if not session.base.marked]
    if marks:
        put_all(marks, store, f"{marks[0].name} and others", "nothing is visible, try again")
        tried = unclear or _stamped(sessions)  # above whatever an expiry folds that found no mark
    for session in sessions:
        session.base.marked = True
    while True:
        trying(tried)
        publish_version(Put(transaction_name(tried.id), tried.data), store, _ADVICE)
        if not is_passed_by(tried.held(sessions), tried.id):
            return tried.versions(sessions)
        tried = _stamped(sessions)  # for good, in all tables: the same under younger ids


def require_one_branch(sessions: Iterable[Session]) -> None:
    """For tables in merge mode that one transaction changes. Raises `InvalidArgument` where two are branches
    of one table: both logs would have the same writer's numbers, for different versions. One log may take in
    the other, and clocks and snapshots name versions by these numbers."""
    branches: dict[str, str] = {}
    for session in sessions:
        other = branches.setdefault(session.table, session.branch)
        if session.settings.mode == "merge" and other != session.branch:
            raise InvalidArgument(
                f"table {session.table!r} is in merge mode: a transaction changes one branch of it, not "
                f"{other!r} and {session.branch!r}; read both, change one, and the other in another one"
            )


def _require_merge_mode(session: StagedSession) -> None:
    """What rests on a head that was pinned before a switch to CAS mode would come behind its back."""
    base = session.base
    if not listed_lately(base):
        settle_switch(base)
    if base.settings.mode != "merge":
        raise switched_meanwhile(session.table)


def switched_meanwhile(table: str) -> CommitContended:
    """The error of a transaction over a table whose mode is switched."""
    return CommitContended(
        f"table {table!r} is in another mode than when this transaction began, or about to be; nothing was "
        "committed: repeat it"
    )


def _stamped(sessions: Sequence[StagedSession]) -> Try:
    """What is staged, under ids of now.

    The file has the least of their times: whatever is below a time, or is not, it is with all of them.
    """
    writer, hlc = secrets.randbits(64), _tick(sessions)
    longest = max(len(session.staged) for session in sessions)
    sessions[0].clock.observe(hlc + longest)
    parts = {session.folder: restamped(session.staged, writer, hlc) for session in sessions}
    listed = {folder: [part.data for part in made] for folder, made in parts.items()}
    return Try(*encode_version({"h": hlc, "w": writer, "s": longest, "t": listed}), parts)


def _tick(sessions: Sequence[StagedSession]) -> int:
    """A stamp above every horizon that was proposed before these tables had their marks.

    An expiry that lists no mark closes nothing: what comes later below its horizon is lost in that table, and
    in no other. It proposes, `max_commit_delay_seconds` after that time, and then lists; so a mark that it
    does not find comes later. A clock that is not behind by half of that is above it; any other looks: one
    LIST for each table.
    """
    store, clock = sessions[0].store, sessions[0].clock
    hlc = clock.tick()
    if not is_late(store, hlc, sessions[0].options.max_commit_delay_seconds):
        return hlc
    for session in sessions:
        clock.observe(greatest(store, session.table, session.settings.incarnation))
    return clock.tick()


def committed_versions(
    session: StagedSession, parts: Sequence[StagedVersion], *, rebases: int = 0
) -> tuple[Version, ...]:
    """Versions of a transaction as their author sees them."""
    log, made = session.log_with(parts), []
    for part in parts:
        _, body = decode_version(part.data, str(part.id))
        made.append(replace(version_of(part.id, OPERATIONS[body["o"]], body, log), rebases=rebases))
    return tuple(made)
