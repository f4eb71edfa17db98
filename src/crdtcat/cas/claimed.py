"""A commit in CAS mode as its author has it: the version with its number, or the error to try again with.

What was read for the commit is forgotten with it, and with a conflict: whoever repeats it reads again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crdtcat.cas.claiming import commit_claim
from crdtcat.cas.modes import ModeSwitched
from crdtcat.cas.reading import Note
from crdtcat.cas.telling import tell_rest
from crdtcat.conflicts.resolve import Policy
from crdtcat.errors import CommitConflict, CommitContended, Expired, InvalidArgument
from crdtcat.protocol import Put
from crdtcat.protocol.claimer import Parent
from crdtcat.support.locks import ForkSafeLock
from crdtcat.writing.version_keys import version_of

if TYPE_CHECKING:
    from crdtcat.head import Head, Version
    from crdtcat.session import Session


def commit_claimed(
    session: Session,
    operation: str,
    whole: Mapping[str, Any],
    puts: Sequence[Put],
    seen: Head | None,
    *,
    policy: Policy | None = None,
    notes: Sequence[Note] | None = None,
    since: Parent | None = None,
    tried: list[Version] | None = None,
) -> Version:
    """Commit a version under the next number. `since` and `tried`: the claim that an earlier try followed,
    and what became of it, if anything did.

    Raises as `crdtcat.cas.claiming.commit_claim` does. A `CommitConflict` costs a refresh more: it tells of
    every commit that came between.
    """
    notes, tried = session.notes.all() if notes is None else notes, [] if tried is None else tried
    if tried:  # others may have gone on from there
        raise InvalidArgument("this error's change was committed by an earlier try: repeat the call")
    try:
        id, number, rebases = commit_claim(
            session, whole, puts, seen, policy=policy, notes=notes, since=since
        )
    except CommitConflict as error:
        since, answered, one_at_a_time = error.change.since, error.change.policy, ForkSafeLock()

        def again(answers: Any) -> Version:
            chosen = answered.amended(answers)
            try:
                with one_at_a_time():
                    return commit_claimed(
                        session, operation, whole, (), seen,
                        policy=chosen, notes=notes, since=since, tried=tried,
                    )  # fmt: skip
            except ModeSwitched as switched:
                session.refresh()  # or dropped: it says so
                raise CommitContended(
                    f"table {session.table!r} was switched to another mode since this change was made; "
                    "nothing was committed: read again, and repeat the call"
                ) from switched

        error.again = again
        session.notes.forget()
        tell_rest(error, session, seen)
        raise
    except Expired:  # what was read can never be judged: else no later commit of this thread could be, either
        session.notes.forget()
        raise
    session.notes.forget()
    tried.append(replace(version_of(id, operation, whole, session.state.log), number=number, rebases=rebases))
    return tried[0]
