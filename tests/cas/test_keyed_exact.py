"""Every verb of a keyed table against a model of every key and cell: nothing missed, nothing made up.

A model of the table says which keys and cells a verb touches: an upsert and a delete by key what they name,
`update`, `delete` by a filter and `write` what they find, an `overwrite` all of its scope. What two of them
both touched are the conflicts that there have to be, each with its commit and its keys. Where there is none
the table has to be what doing one after the other gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict
from tests.bounds import bounded
from tests.cas.scenes import lake, meanwhile

PLACES, NUMBERS = ("here", "there"), range(5)
SCHEMA = pa.schema([("place", pa.string()), ("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
Key = tuple[str, int]
Cells = dict[str, int | None]
State = dict[Key, Cells]
Told = tuple[int, str, str]
"""A conflict: the number of the commit that is in the way, its kind, and a key or nothing."""


@dataclass
class Effect:
    """What a verb touched: cells that it sets, keys that it deletes, the places that it overwrites."""

    verb: str
    sets: State = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    scope: frozenset[str] = frozenset()

    def after(self, state: State) -> State:
        kept = {
            key: cells for key, cells in state.items() if key not in self.gone and key[0] not in self.scope
        }
        empty: Cells = {"x": None, "y": None}
        return kept | {key: {**kept.get(key, empty), **cells} for key, cells in self.sets.items()}


def conflicts(mine: Effect, theirs: Effect) -> set[tuple[str, str]]:
    """What both touched, by looking at each key."""
    if mine.scope:
        if theirs.scope:
            return {("overwrite-overwrite", "")} if mine.scope & theirs.scope else set()
        return {("overwrite-append", "") for place, _ in theirs.sets if place in mine.scope}
    found = set()
    if any(place in theirs.scope for place, _ in mine.sets):
        # An update or a `write` has some cells of rows that it found. An upsert has the row that it wants.
        found.add(("update-overwrite" if mine.verb in ("update", "write") else "append-overwrite", ""))
    for key, cells in mine.sets.items():
        if cells.keys() & theirs.sets.get(key, {}).keys():
            found.add(("upsert-upsert", words(key)))
        if key in theirs.gone:
            found.add(("upsert-delete", words(key)))
    found |= {("delete-upsert", words(key)) for key in mine.gone & theirs.sets.keys()}
    return found | {("delete-delete", words(key)) for key in mine.gone & theirs.gone}


def words(key: Key) -> str:
    return f"{key[0]!r}, {key[1]}"


def rows(cells: State) -> list[dict[str, Any]]:
    return [{"place": place, "n": n, **cells[place, n]} for place, n in sorted(cells)]


Verb = Callable[[State], tuple[Effect, Callable[[Any], Any]]]
"""Of a state: what it touches there, and what to call."""
KEYS = st.sets(st.tuples(st.sampled_from(PLACES), st.sampled_from(NUMBERS)), min_size=1, max_size=3)
COLUMNS = st.sets(st.sampled_from("xy"), min_size=1).map(sorted)


def matching(keys: set[Key]) -> str:
    return " or ".join(f"(place = '{place}' and n = {n})" for place, n in sorted(keys))


@st.composite
def verbs(draw: st.DrawFn, first: int, *, partitioned: bool) -> Verb:
    """One verb, with values that nobody else writes."""
    names = ["upsert", "delete", "update", "delete where", "write", "write", "overwrite"]
    name = draw(st.sampled_from([*names, *["overwrite where"] * partitioned]))
    event(name)
    keys, columns = draw(KEYS), draw(COLUMNS)
    added, gone = (
        draw(KEYS),
        draw(st.sets(st.sampled_from([(p, n) for p in PLACES for n in NUMBERS]), max_size=2)),
    )
    values: dict[str, int | None] = {column: first + at for at, column in enumerate(columns)}
    whole: Cells = {"x": first + 5, "y": first + 6}

    def verb(state: State) -> tuple[Effect, Callable[[Any], Any]]:
        there = keys & state.keys()
        match name:
            case "upsert":
                sets = dict.fromkeys(keys, values)
                return Effect(name, sets), lambda table: table.upsert(rows(sets))
            case "delete":
                return Effect(name, gone=keys), lambda table: table.delete(keys=sorted(keys))
            case "update":
                found = dict.fromkeys(there, values)
                return Effect(name, found), lambda table: table.update(matching(keys), values)
            case "delete where":
                return Effect(name, gone=there), lambda table: table.delete(matching(keys))
            case "write":
                removed = gone & state.keys()
                changed: State = dict.fromkeys(there - removed, values)
                changed |= dict.fromkeys(added - state.keys(), whole)
                done = Effect(name, changed, removed)
                return done, lambda table: table.write(pa.Table.from_pylist(rows(done.after(state)), SCHEMA))
            case "overwrite":
                sets = dict.fromkeys(keys, whole)
                return Effect(name, sets, scope=frozenset(PLACES)), lambda table: table.overwrite(rows(sets))
            case _:
                place = min(keys)[0]
                sets = {key: whole for key in keys if key[0] == place}
                where = f"place = '{place}'"
                return Effect(name, sets, scope=frozenset({place})), lambda table: table.overwrite(
                    rows(sets), where=where
                )

    return verb


@st.composite
def races(draw: st.DrawFn) -> tuple[bool, int, list[Verb], list[Verb]]:
    partitioned, inline_bytes = draw(st.booleans()), draw(st.sampled_from([64 * 1024, 0]))
    others = [draw(verbs(1_000 * (at + 1), partitioned=partitioned)) for at in range(draw(st.integers(1, 2)))]
    mine = [draw(verbs(100 * (at + 1), partitioned=partitioned)) for at in range(draw(st.integers(1, 2)))]
    return partitioned, inline_bytes, others, mine


@settings(max_examples=bounded(4_000, 120), deadline=None)
@given(races())
def test_exactly_the_conflicts_that_looking_at_every_key_finds(
    race: tuple[bool, int, list[Verb], list[Verb]],
) -> None:
    partitioned, inline_bytes, others, mine = race
    catalog, url = lake(inline_bytes=inline_bytes, on_conflict={kind.value: "fail" for kind in Kind})
    base: State = {(place, n): {"x": n, "y": n} for place in PLACES for n in range(3)}
    table = catalog.create_table(
        "t", SCHEMA, mode="cas", key=["place", "n"], partition_by=["place"] if partitioned else []
    )
    table.upsert(rows(base))
    there = Catalog(url, upkeep=False, inline_bytes=inline_bytes).table("t")
    came: list[tuple[int, Effect]] = []
    theirs = base

    def come() -> None:
        nonlocal theirs
        for other in others:
            effect, call = other(theirs)
            came.append((call(there).number, effect))
            theirs = effect.after(theirs)

    done: list[Effect] = []
    view = base
    found: set[Told] = set()
    exact = True
    try:
        if len(mine) == 1:
            effect, call = mine[0](view)
            done.append(effect)
            meanwhile(table, come)
            call(table)
        else:
            with catalog.transaction() as transaction:
                for verb in mine:
                    effect, call = verb(view)
                    done.append(effect)
                    call(transaction.table("t"))
                    view = effect.after(view)
                come()
    except CommitConflict as error:
        exact, met = error.exact, error.conflicts
        found = {(item.number, item.kind.value, key) for item in met for key in item.keys or ("",)}
    assert exact
    wanted = {(number, *pair) for number, effect in came for ours in done for pair in conflicts(ours, effect)}
    assert found == wanted
    event("conflicts" if found else "none")
    state = theirs
    for effect in done if not found else ():
        state = effect.after(state)
    shown = {(row["place"], row["n"]): {"x": row["x"], "y": row["y"]} for row in there.read().to_pylist()}
    assert shown == state
