"""A commit in CAS mode as its author has it: the version with its number, or the error to try again with.

What was read for the commit is forgotten with it, and with a conflict: whoever repeats it reads again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crdtcat.claiming import commit_claim
from crdtcat.conflicts.resolve import Policy
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.protocol import Put
from crdtcat.reading import Note
from crdtcat.telling import tell_rest
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
    tried: list[Version] | None = None,
) -> Version:
    """Commit a version under the next number. `tried`: what became of it in an earlier try, if anything did.

    Raises as `crdtcat.claiming.commit_claim` does. A `CommitConflict` costs a refresh more: it tells of every
    commit that came between.
    """
    notes, tried = session.notes.all() if notes is None else notes, [] if tried is None else tried
    if tried:  # others may have gone on from there
        raise InvalidArgument("this error's change was committed by an earlier try: repeat the call")
    try:
        id, number, rebases = commit_claim(session, whole, puts, seen, policy=policy, notes=notes)
    except CommitConflict as error:
        error.again = lambda answers: commit_claimed(
            session,
            operation,
            whole,
            (),
            seen,
            policy=policy if answers is None else Policy.of(answers),
            notes=notes,
            tried=tried,
        )
        session.notes.forget()
        tell_rest(error, session, seen)
        raise
    session.notes.forget()
    tried.append(replace(version_of(id, operation, whole, session.state.log), number=number, rebases=rebases))
    return tried[0]
