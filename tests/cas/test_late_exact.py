"""Commits that were late against comparing all rows and cells: nothing missed, nothing made up.

Whoever staged its change, was overtaken, and yields or prevails as it had answered, is committed with a file
that names rows as they were when it read: some of them are gone by then, and what others have put there in
between is not among them. What it did is seen by looking: the table right before its commit is held against
the one right after it. Mine reads after some of those who overtook it, and meets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from hypothesis import event, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.conflicts import Answer, Kind
from crdtcat.errors import AlreadyExists, CommitConflict, UserError
from crdtcat.table import Table
from crdtcat.transaction import Transaction
from tests.bounds import bounded
from tests.cas.scenes import lake, meanwhile
from tests.cas.test_verbs_exact import (
    FAIL_ALWAYS,
    ROWS,
    SCHEMA,
    Effect,
    RowId,
    Shown,
    Verb,
    Verbs,
    Work,
    committed,
    conflicts,
    effect,
    followed,
    shown,
    staged,
    told,
    works,
)

AS_IT_IS = {
    "update-update": "ours",
    "update-delete": "theirs",
    "update-overwrite": "theirs",
    "delete-update": "ours",
    "overwrite-update": "ours",
    "overwrite-append": "ours",
    "overwrite-overwrite": "ours",
}
"""Answers under which a late commit writes no cell that it had not staged."""
LATE = ("update", "update", "delete", "write", "update_rows", "overwrite", "overwrite_day", "append")
BEFORE = ("delete", "delete", "update", "overwrite", "overwrite_day")
CLOSE = ("overwrite", "overwrite_day", "delete", "update", "write")


@dataclass(frozen=True)
class Race:
    """What happens: late ones are staged, `before` is done, mine reads, `between` is done and the late ones
    are committed, mine is committed. `order`: who comes when; the lowest numbers are the late ones."""

    partitioned: bool
    late: list[Verb]
    before: list[Work]
    between: list[Work]
    order: list[int]
    mine: Work


def one(draw: st.DrawFn, names: Sequence[str], first: int, *, partitioned: bool) -> Verb:
    name = draw(st.sampled_from(names))
    verb: Verb = getattr(Verbs(first, partitioned=partitioned), f"_do_{name}")(draw)
    verb.is_write, verb.is_blind = name == "write", name == "append"  # type: ignore[attr-defined]
    return verb


@st.composite
def races(draw: st.DrawFn) -> Race:
    """Most of them only remove and update rows, and so meet more often."""
    partitioned, close = draw(st.booleans()), draw(st.integers(0, 3)) > 0

    def work(first: int, names: Sequence[str], *, tending: bool) -> Work:
        if close:
            return False, [one(draw, names, first, partitioned=partitioned)]
        return draw(works(first, partitioned=partitioned, tending=tending))

    late = [
        one(draw, LATE, 50_000 + 1_000 * at, partitioned=partitioned) for at in range(draw(st.integers(1, 2)))
    ]
    before, between = (
        [work(first + 1_000 * at, names, tending=True) for at in range(draw(st.integers(least, 2)))]
        for first, names, least in ((10_000, BEFORE, int(close)), (30_000, CLOSE, 0))
    )
    order = draw(st.permutations(range(len(late) + len(between))))
    return Race(partitioned, late, before, between, list(order), work(1_000, CLOSE, tending=False))


def late_effect(transaction: Transaction, staged: Effect, verb: Verb, there: Table) -> Effect | None:
    """Commit what was staged; what it did, or `None` where its answers did not let it pass.

    Cells that it sets to what another one has put there since do not look different, and it has set them:
    two `write`s that take out the same row both give the next one its values.
    """
    before = shown(there)
    try:
        transaction.commit()
    except CommitConflict:
        transaction.abort()
        return None
    after = shown(there)
    scope = verb.scope(there) if hasattr(verb, "scope") else None
    found = effect(before, after, scope)
    same = {
        (id, name): value
        for (id, name), value in staged.cells.items()
        if id in before.rows and id in after.rows and after.rows[id].get(name, ...) == value
    }
    found = replace(found, cells={**same, **found.cells})
    return replace(found, names=frozenset(after.columns)) if verb.is_write and not after.rows else found  # type: ignore[attr-defined]


@settings(max_examples=bounded(4_000, 100), deadline=None)
@given(races())
def test_exactly_the_conflicts_with_those_who_were_late(race: Race) -> None:
    catalog, url = lake(on_conflict=FAIL_ALWAYS)
    mine = catalog.create_table("t", SCHEMA, mode="cas", partition_by=["day"] if race.partitioned else [])
    mine.append(ROWS[:4])
    mine.append(ROWS[4:], key="twice")
    slow, elsewhere = Catalog(url, upkeep=False, on_conflict=AS_IT_IS), Catalog(url, upkeep=False)
    there = elsewhere.table("t")
    waiting = [(begun, did) for begun, (did,) in (staged(slow, [verb]) for verb in race.late)]
    for work in race.before:
        committed(elsewhere, there, work)
    base = shown(mine)
    branch = mine.branch("alone")
    alone = committed(Catalog(url, upkeep=False), branch, race.mine)
    whole = effect(base, shown(branch), None)
    came: list[tuple[int, list[Effect], Shown]] = []

    def come() -> None:
        for at in race.order:
            number = int(there.head().log.number.max())
            if at < len(waiting):
                done = late_effect(*waiting[at], race.late[at], there)
                effects = [] if done is None else [done]
            else:
                effects = committed(elsewhere, there, race.between[at - len(waiting)])
            now = int(there.head().log.number.max())
            if now > number and effects:
                came.append((now, effects, shown(there)))

    found: dict[tuple[int, Kind], set[RowId]] = {}
    try:
        if race.mine[0]:
            transaction, _ = staged(catalog, race.mine[1])
            come()
            transaction.commit()
        else:
            meanwhile(mine, come)
            with suppress(AlreadyExists, UserError):
                race.mine[1][0](mine)
    except CommitConflict as error:
        found = told(error.conflicts, base)
        if all(kind.rule.default is Answer.BOTH for _, kind in found):
            error.retry({kind.value: "both" for _, kind in found})
            followed(came[-1][2], whole, there)
    else:
        followed(came[-1][2] if came else base, whole, there)
    wanted: dict[tuple[int, Kind], set[RowId]] = {}
    for number, done, _ in came:
        for ours, theirs in product(alone, done):
            for kind, held in conflicts(ours, theirs, base).items():
                wanted.setdefault((number, kind), set()).update(held)
    assert found == wanted
    event(f"{len(found)} kinds of conflicts")
