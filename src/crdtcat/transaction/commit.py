"""Committing a transaction in merge mode: marks where they are missing, then one file."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from crdtcat.drive import run
from crdtcat.errors import StoreUnavailable
from crdtcat.format.version import OPERATIONS, decode_version, encode_version
from crdtcat.head import Version
from crdtcat.protocol import Outcome, Publish, Put, mark_name
from crdtcat.protocol.names import TRANSACTIONS
from crdtcat.session import version_of
from crdtcat.staged import StagedSession
from crdtcat.writing.restamp import StagedVersion, restamped
from crdtcat.writing.writer import check_clock, publish_version


def commit_merged(sessions: Sequence[StagedSession]) -> list[tuple[Version, ...]]:
    """Commit what is staged, in all logs at once. One PUT, and one for each mark not known to be there.

    Raises:
        ClockSkew, LimitExceeded: nothing was written.
        StoreUnavailable: nothing became visible.
        CommitUnknown: it may or may not be there.
    """
    store, clock = sessions[0].store, sessions[0].clock
    check_clock(store, sessions[0].options.max_clock_skew_seconds * 1000)
    for session in sessions:
        session.base.require_not_dropped()
    writer, longest = secrets.randbits(64), max(len(session.staged) for session in sessions)
    hlc = clock.tick()
    clock.observe(hlc + longest)
    parts = {session.folder: restamped(session.staged, writer, hlc) for session in sessions}
    stamp = {"h": clock.tick(), "w": writer, "s": longest}
    id, data = encode_version(
        {**stamp, "t": {folder: [part.data for part in made] for folder, made in parts.items()}}
    )
    marks = [Put(mark_name(session.folder), b"") for session in sessions if not session.base.marked]
    if marks and run(Publish(tuple(marks)), store).outcome is not Outcome.DONE:
        raise StoreUnavailable(
            f"{marks[0].name} and others could not be stored; nothing is visible, try again"
        )
    for session in sessions:
        session.base.marked = True
    publish_version(Put(f"{TRANSACTIONS}{id}.v", data), None, store)
    return [tuple(committed_version(part) for part in parts[session.folder]) for session in sessions]


def committed_version(part: StagedVersion, *, rebases: int = 0, number: int = 0) -> Version:
    """A version of a transaction as its author sees it."""
    _, body = decode_version(part.data, str(part.id))
    return replace(version_of(part.id, OPERATIONS[body["o"]], body), rebases=rebases, number=number)
