"""Switching a table between merge mode and CAS mode, beside whoever is writing.

The switch is a claim of the next number, so of several that switch one is first, and everything in the log is
before it, after it, or a straggler (`crdtcat.log.modes`). To CAS mode it is announced, and made when every
commit has had time to be stored or to see that (`crdtcat.cas.modes`). To merge mode there is nothing to wait
for: whoever is in CAS mode meets it. Then the settings follow, for handles that are opened later. Being cut
off anywhere leaves a table in one mode or the other, and the verb can be repeated.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from crdtcat.cas.modes import ModeSwitched, announcement
from crdtcat.cas.switching import claim_switch
from crdtcat.drive import put_all
from crdtcat.errors import InvalidArgument
from crdtcat.head import Version
from crdtcat.lifecycle.incarnations import succeed
from crdtcat.log.modes import switch_of
from crdtcat.session import Session
from crdtcat.support.arguments import require_one_of
from crdtcat.verbs.settings import MODES, require_exclusion
from crdtcat.writing.version_keys import version_of


def switch_mode(session: Session, mode: str) -> Version | None:
    """Switch the table to a mode; `None` if it is in that mode.

    Requests: a refresh before and after, 3 PUTs, 2 LISTs and a GET, or three if it was switched before; to
    CAS mode a refresh and a PUT more, and it waits for `max_commit_delay_seconds`.

    Raises:
        InvalidArgument: no such mode; a branch.
        CapabilityMissing: the store cannot create exclusively.
        CommitContended, CommitUnknown, StoreUnavailable: it may be half done: repeat it.
        NotFound: the table was dropped.
    """
    require_one_of("mode", mode, MODES)
    if session.source is not None:
        raise InvalidArgument(f"branch {session.branch!r}: only {session.table!r} itself is switched")
    if mode == "cas":
        require_exclusion(session.store, session.table)
    made = None
    session.refresh()
    while session.settings.mode != mode:
        with suppress(ModeSwitched):  # somebody else was faster: look again
            made = _to_cas(session) if mode == "cas" else _claimed(session, "merge mode")
        session.refresh()
    _publish(session)
    return made


def _to_cas(session: Session) -> Version | None:
    """Announce, wait, and claim all that is there; `None` if somebody else has done it."""
    number = int(session.state.log.number.max(initial=0)) + 1
    announced = f"{session.folder}: the announcement of the switch"
    put_all([announcement(session.folder, number)], session.store, announced, "nothing was changed")
    time.sleep(session.options.max_commit_delay_seconds)
    session.refresh()
    if int(session.state.log.number.max(initial=0)) >= number:
        return None  # the number that was announced is taken: by another switch, or by one who waited for it
    return _claimed(session, "cas mode")


def _claimed(session: Session, operation: str) -> Version:
    id, number, rebases, body = claim_switch(session, operation)
    return replace(version_of(id, operation, body, session.state.log), number=number, rebases=rebases)


def _publish(session: Session) -> None:
    """Settings that say what the log says. They are advice: a handle that reads others finds out later."""
    log = session.state.log
    at = switch_of(log)
    if at < 0:
        return
    stated = session.settings.model_copy(update={"switched": int(log.number[at])})
    session.settings = session.opened_with = succeed(session.store, session.table, stated)
