"""What holds a horizon down: tags and branch starts, whose snapshots must stay readable; the newest claim."""

from __future__ import annotations

from crdtcat.cas.cold_claims import newest
from crdtcat.errors import DataError, Expired, NotFound
from crdtcat.format.refs import BranchStart
from crdtcat.head import Snapshot
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.log import Log
from crdtcat.session import Session
from crdtcat.verbs.branches import Life, needed_starts, open_life
from crdtcat.verbs.naming import FOREVER, branch_holds, tag_holds
from crdtcat.verbs.tags import held_by_tags


def holds(session: Session, log: Log) -> dict[str, int]:
    """Per tag and branch the greatest horizon below which its snapshot holds everything.

    What `tags` and `branches` cost, and a refresh of each branch that another names a version of.
    """
    found: dict[str, int] = {}
    for life, start in needed_starts(session.store, session.table, session.settings.incarnation).items():
        name = life.branch if life.number == 1 else f"{life.branch}~{life.number}"
        found[f"branch {name}"] = branch_holds(log, _spelled_out(session, log, start))
    for name, snapshots in held_by_tags(session).items():
        found[f"tag {name}"] = min(tag_holds(log, snapshot) for snapshot in snapshots)
    return found


def _spelled_out(session: Session, log: Log, start: BranchStart) -> Snapshot:
    """A start's snapshot such that main's log tells its members. It may name a version of another branch."""
    snapshot = Snapshot.parse(start.snapshot)
    if start.source == MAIN or snapshot.is_spelled_out(log):
        return snapshot
    try:
        source = open_life(session, Life(start.source, start.source_life))
        return snapshot.spelled_out(source.refresh().state.log)
    except (DataError, Expired, NotFound):  # it cannot be read as it is: what it holds is held
        return snapshot


def claimed_until(session: Session, log: Log) -> int:
    """In CAS mode the time of the newest claim: every later one is stamped after it."""
    if session.settings.mode != "cas":
        return FOREVER
    last = newest(log).id
    return 0 if last is None else last.hlc
