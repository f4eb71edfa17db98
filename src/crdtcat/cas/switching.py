"""Commits in merge mode beside somebody who switches the table to CAS mode.

In CAS mode a handle cannot miss a switch: it meets it under the number that it wanted. In merge mode, commits
that read nothing need not know. One that rests on a head is void if it met a switch (`crdtcat.log.modes`), so
it has to be seen by the switch or to find out:

1. Whoever switches announces the number it will claim, in a file that every listing shows; waits as long as a
   commit may take; lists; claims that number, and no other.
2. A commit that listed less than half that long ago and found no announcement is stored in time to be listed.
3. Any other one lists once it is stored. No announcement: whoever announces later will list it. The claim is
   there: it says whether the commit is in it; if not, it is made again, as a claim. Announced, and not there:
   it waits for it, and in the end takes the number itself, so that nobody can switch without listing again.

Nobody waits but whoever switches, unless they meet; only commits that were slow pay a listing more.
(Model: `Switching` in proofs/tla.)
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crdtcat.cas.claiming import commit_claim
from crdtcat.cas.modes import ModeSwitched
from crdtcat.clock import VersionId
from crdtcat.drive import elapsed_clock
from crdtcat.errors import CommitContended, CommitUnknown, StoreError
from crdtcat.format.version import OPERATIONS
from crdtcat.head.stragglers import stragglers
from crdtcat.lifecycle.horizons import greatest

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session


def listed_lately(session: Session) -> bool:
    """Whether the last listing showed no announcement, and is so recent that whoever announces waits for what
    is committed from it. No request."""
    age = elapsed_clock() - session.listed_at
    return not session.switching and age <= session.options.max_commit_delay_seconds / 2


def require_merged(session: Session, id: VersionId, seen: Head) -> None:
    """Find out whether a version that was just stored in merge mode, and rests on a head, met a switch.

    No request unless it took long or a switch was announced; then a refresh, several while it is not made.

    Raises:
        ModeSwitched: it is void: commit it again, as a claim.
        CommitContended: it is void, and the table is in merge mode again, where nothing would judge it.
        CommitUnknown: it is stored, and the store could not be asked.
    """
    if seen.log is session.state.log and listed_lately(session):
        return
    try:
        settle_switch(session)
        head = session.head(refresh=False)
    except StoreError as error:
        raise CommitUnknown(f"{id} is stored, and the table may be in CAS mode by now: {error}") from error
    at = head.log.index_of(id)
    if at in stragglers(head.log, head.folded.clocks):
        if session.settings.mode == "cas":
            raise ModeSwitched
        raise CommitContended(
            f"table {session.table!r} was switched to CAS mode and back while this was committed: it does "
            "not count; read and commit again"
        )


def settle_switch(session: Session) -> None:
    """Refresh, until no switch is announced that was not made: it is made, or its number is taken from it."""
    began = elapsed_clock()
    delay = session.options.max_commit_delay_seconds
    session.refresh()
    while session.switching:
        if elapsed_clock() - began < 2 * delay:
            time.sleep(max(delay / 20, 0.01))
        else:  # whoever announced it died, or is too slow
            with suppress(ModeSwitched):
                claim_switch(session, "merge mode")
        session.refresh()


def claim_switch(session: Session, operation: str) -> tuple[VersionId, int, int, dict[str, Any]]:
    """Claim the next number with a switch, from the last head. Its id, number, rebases and body.

    It is stamped above every horizon that was proposed before: whoever proposes later finds the switch
    announced, and expires nothing until it is made. One LIST more than a commit.

    Raises `ModeSwitched` if somebody else was faster to switch; else as `commit_claim` does.
    """
    session.clock.observe(greatest(session.store, session.table, session.settings.incarnation))
    body = {"o": OPERATIONS.index(operation), "!": ["modes"]}
    claimed = commit_claim(session, body, (), session.head(refresh=False))
    mode = "cas" if operation == "cas mode" else "merge"
    session.settings = session.settings.model_copy(update={"mode": mode})
    return (*claimed, body)
