"""Committing a transaction in merge mode: marks where they are missing, then one file."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from crdtcat.clock import VersionId
from crdtcat.closing import is_passed_by
from crdtcat.drive import put_all
from crdtcat.errors import CommitContended
from crdtcat.format.version import OPERATIONS, decode_version, encode_version
from crdtcat.head import Version
from crdtcat.protocol import Put, mark_name
from crdtcat.protocol.names import transaction_name
from crdtcat.staged import StagedSession
from crdtcat.switching import listed_lately, settle_switch
from crdtcat.writing.restamp import StagedVersion, restamped
from crdtcat.writing.version_keys import version_of
from crdtcat.writing.writer import check_clock, publish_version


def commit_merged(sessions: Sequence[StagedSession]) -> list[tuple[Version, ...]]:
    """Commit what is staged, in all logs at once. One PUT, and one for each mark not known to be there.

    A refresh of each table more where it was pinned longer ago than half of `max_commit_delay_seconds`, and
    of one where storing it took longer than that; another PUT where an expiry has passed it by.

    Raises:
        CommitContended: a table is being switched to CAS mode; nothing was written.
        ClockSkew, LimitExceeded: nothing was written.
        StoreUnavailable: nothing became visible.
        CommitUnknown: it may or may not be there.
    """
    store = sessions[0].store
    check_clock(store, sessions[0].options.max_clock_skew_seconds * 1000)
    for session in sessions:
        session.base.require_not_dropped()
        _require_merge_mode(session)
    parts, id, data = _stamped(sessions)
    marks = [Put(mark_name(session.folder), b"") for session in sessions if not session.base.marked]
    if marks:
        put_all(marks, store, f"{marks[0].name} and others", "nothing is visible, try again")
    if marks:  # an expiry that found no mark yet may have gone beyond the first stamps
        parts, id, data = _stamped(sessions)
    for session in sessions:
        session.base.marked = True
    publish_version(Put(transaction_name(id), data), None, store)
    while is_passed_by(sessions[0].base, id, parts[sessions[0].folder][0].id):
        parts, id, data = _stamped(sessions)  # for good, in all tables: the same under younger ids
        publish_version(Put(transaction_name(id), data), None, store)
    return [committed_versions(session, parts[session.folder]) for session in sessions]


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


def _stamped(sessions: Sequence[StagedSession]) -> tuple[dict[str, list[StagedVersion]], VersionId, bytes]:
    """What is staged, under ids of now: per log its versions, and the file that holds them all.

    The file has the least of their times: whatever is below a time, or is not, it is with all of them.
    """
    clock, writer = sessions[0].clock, secrets.randbits(64)
    longest = max(len(session.staged) for session in sessions)
    hlc = clock.tick()
    clock.observe(hlc + longest)
    parts = {session.folder: restamped(session.staged, writer, hlc) for session in sessions}
    listed = {folder: [part.data for part in made] for folder, made in parts.items()}
    return parts, *encode_version({"h": hlc, "w": writer, "s": longest, "t": listed})


def committed_versions(
    session: StagedSession, parts: Sequence[StagedVersion], *, rebases: int = 0
) -> tuple[Version, ...]:
    """Versions of a transaction as their author sees them."""
    log, made = session.log_with(parts), []
    for part in parts:
        _, body = decode_version(part.data, str(part.id))
        made.append(replace(version_of(part.id, OPERATIONS[body["o"]], body, log), rebases=rebases))
    return tuple(made)
