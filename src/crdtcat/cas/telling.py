"""Everything that stands in a commit's way, told at once: of every table, of every commit that came between.

A commit stops at the first conflict that nobody answers. Whoever handles the error wants to know the rest,
too, before repeating it: so the tables are read once more, and what came after is held against the same
change. Resolvers are not asked about it: nothing is committed any more. What cannot be found out by then,
because the store fails or a table was dropped, is left out, and the error says that it is not complete.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from crdtcat.cas.changes import LogChange
from crdtcat.cas.modes import ModeSwitched
from crdtcat.cas.reading import claimed_above
from crdtcat.cas.resolving import takes_rows
from crdtcat.cas.sides import Sides, names_of
from crdtcat.conflicts import Answer, Kind, Overlap
from crdtcat.conflicts.resolve import possible, stands_as_it_is
from crdtcat.errors import CommitConflict, CrdtcatError
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.limits import CONFLICTS_MAX
from crdtcat.protocol.claimer import Parent

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session

SHOWN_MAX: Final = 10  # conflicts of one table that a message has; the error has them all
_WORDS_ONLY: Final = ", which here says a word: rows go into no merge, only into a table's single change"


Found = tuple["Session", LogChange, "Head | None", Overlap]
"""A conflict, who reads the rows of it, the change, and what that was made from."""
ByTable = Mapping[str, Sequence[Overlap]]
Intro = Callable[[ByTable], str]
"""What a message begins with, for the tables that it is about."""


class Stand(NamedTuple):
    """A change that is not committed, and the claim above which everything is held against it."""

    session: Session
    change: LogChange
    seen: Head | None
    above: Parent


def conflict(
    session: Session, change: LogChange, seen: Head | None, found: Sequence[Overlap]
) -> CommitConflict:
    """The error for what was found in one table. No request."""
    error = CommitConflict("", change=change)
    take(error, [(session, change, seen, item) for item in named(session, found, seen) if not item.is_over])
    return error


def named(session: Session, found: Iterable[Overlap], seen: Head | None = None) -> list[Overlap]:
    """Conflicts that say in which table they are, branches as "table@branch", and what mine calls their
    columns: as it saw them, or, where it read nothing, as its handle knows them. No request."""
    shown = session.table if session.branch == MAIN else f"{session.table}@{session.branch}"
    names = names_of(session, seen)
    return [item.told(shown, names) for item in found]


def tell_rest(error: CommitConflict, session: Session, seen: Head | None) -> None:
    """Add to an error of one table what came after the commit that it names. A refresh."""
    last = max(error.conflicts, key=lambda item: item.theirs)
    tell_all(error, [Stand(session, error.change, seen, Parent(last.number, last.theirs))])


def tell_all(error: CommitConflict, stands: Iterable[Stand]) -> None:
    """Add to an error what else is in the way of its change, or of its changes. A refresh of each table."""
    told = {(item.table, item.theirs, item.kind) for item in error.conflicts}
    tell_more(
        error,
        (
            (stand.session, stand.change, stand.seen, item)
            for stand in stands
            for item in _rest(stand)
            if (item.table, item.theirs, item.kind) not in told
        ),
    )


def tell_more(error: CommitConflict, found: Iterable[Found], intro: Intro | None = None) -> None:
    """Add to an error what is found, as far as it can be, and whether that is all."""
    more: dict[object, Found] = {}
    error.complete = False
    with suppress(CrdtcatError, ModeSwitched, _TooMany):  # the first conflict is what went wrong
        for each in found:
            if len(error.conflicts) + len(more) >= CONFLICTS_MAX:
                raise _TooMany
            more.setdefault(each[-1].what, each)
        error.complete = True
    take(error, list(more.values()), intro)


class _TooMany(Exception):
    """No error: acted on."""


def _rest(stand: Stand) -> Iterator[Overlap]:
    stand.session.refresh()
    log = stand.session.state.log
    for index in np.flatnonzero(claimed_above(log, stand.above)).tolist():
        found = named(stand.session, stand.change.judged_in(log, index).conflicts, stand.seen)
        yield from (item for item in found if is_open(stand.change, item))


def is_open(change: LogChange, overlap: Overlap) -> bool:
    """Whether no word settles it: what a function would say is not known before it is asked."""
    if overlap.is_over:
        return False
    answer = change.policy.answer(overlap)
    if not isinstance(answer, Answer) or answer is Answer.FAIL:
        return True
    return not change.patchable and not stands_as_it_is(overlap.kind, answer)


def take(error: CommitConflict, found: Sequence[Found], intro: Intro | None = None) -> None:
    """Add conflicts to an error, grouped by table, each once, and say so in its message."""
    sides = [*error.sides, *(Sides(item, session, change, seen) for session, change, seen, item in found)]
    overlaps = [*error.conflicts, *(item for *_, item in found)]
    first = {overlap.what: at for at, overlap in reversed(list(enumerate(overlaps)))}
    order = sorted(first.values(), key=lambda at: (overlaps[at].table, overlaps[at].theirs, at))
    error.conflicts = tuple(overlaps[at] for at in order)
    error.sides = tuple(sides[at] for at in order)
    words_only = {side.kind for side in error.sides if not takes_rows(side.change, side.overlap)}
    error.message = _message(error.by_table, intro or _commits, words_only)
    error.args = (error.message,)


def _commits(by_table: ByTable) -> str:
    names = ", ".join(map(repr, by_table))
    what = f"table {names}: another commit" if len(by_table) == 1 else f"tables {names}: other commits"
    text = f"{what} touched the same; nothing was committed. Read again and repeat"
    if all(overlap.kind is Kind.READ_WRITE for found in by_table.values() for overlap in found):
        return f"{text}."  # no word answers for what was read
    return f"{text}, or say what shall win: error.retry(on_conflict=...), or Catalog(url, on_conflict=...)."


def _message(by_table: ByTable, intro: Intro, words_only: Container[str]) -> str:
    lines = [intro(by_table)]
    for table, found in by_table.items():
        if len(by_table) > 1:
            lines.append(f"table {table!r}:")
        lines += map(str, found[:SHOWN_MAX])
        if len(found) > SHOWN_MAX:
            lines.append(f"... and {len(found) - SHOWN_MAX} more")
    return "\n  ".join([*lines, *_answers(by_table, words_only)])


def _answers(by_table: ByTable, words_only: Container[str]) -> list[str]:
    """What may be said of each kind among them, so that nobody says what cannot be had."""
    words: dict[str, set[str]] = {}
    for overlap in (item for found in by_table.values() for item in found):
        may = {answer.value for answer in overlap.kind.rule.allowed if possible(overlap, answer) is answer}
        words[overlap.kind.value] = words.get(overlap.kind.value, may) & may - {Answer.FAIL.value}
    more = {kind: _WORDS_ONLY if kind in words_only else "" for kind in words}
    return [
        f"{kind} may be answered {', '.join(sorted(may))}, or by a function{more[kind]}"
        for kind, may in sorted(words.items())
        if may
    ]
