"""What holds a horizon down: tags and branch starts, whose snapshots must stay readable; the newest claim.

What is folded is read as a whole, so a snapshot is readable as long as it holds all of it.
"""

from __future__ import annotations

from crdtcat.cold_claims import newest
from crdtcat.head import Snapshot
from crdtcat.incarnations import MAIN
from crdtcat.log import Log
from crdtcat.session import Session
from crdtcat.verbs.branches import needed_starts
from crdtcat.verbs.travel import list_tags


def holds(session: Session, log: Log) -> dict[str, int]:
    """Per tag and branch the greatest horizon below which its snapshot holds everything."""
    incarnation = session.settings.incarnation
    found: dict[str, int] = {}
    for life, start in needed_starts(session.store, session.table, incarnation).items():
        if start.source == MAIN:
            name = life.branch if life.number == 1 else f"{life.branch}~{life.number}"
            snapshot = Snapshot.parse(start.snapshot)
            found[f"branch {name}"] = min(_first_unseen(log, snapshot), _last(log, snapshot) + 1)
    tagged = {f"tag {name}": _first_unseen(log, snapshot) for name, snapshot in list_tags(session).items()}
    return found | tagged


def claimed_until(session: Session, log: Log) -> int:
    """In CAS mode the time of the newest claim: every later one is stamped after it."""
    if session.settings.mode != "cas":
        return 2**64 - 1
    last = newest(log).id
    return 0 if last is None else last.hlc


def _first_unseen(log: Log, snapshot: Snapshot) -> int:
    unseen = ~snapshot.members(log)
    times = log.id_fields["hlc"][unseen]
    return int(times.min()) if len(times) else 2**64 - 1


def _last(log: Log, snapshot: Snapshot) -> int:
    """The time of the latest version in a snapshot: what is committed on a branch of it is later."""
    times = log.id_fields["hlc"][snapshot.members(log)]
    return int(times.max()) if len(times) else 0
