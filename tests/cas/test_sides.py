"""Both sides of a conflict, as errors and resolvers have them: the columns that are meant, whatever they are
called by now, the rows that are meant, whatever their keys are, and what mine would leave."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas.sides import Sides
from crdtcat.errors import CommitConflict
from tests.cas.scenes import lake, meanwhile

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])


def two(key: str = "", **options: Any) -> tuple[Table, Table]:
    catalog, url = lake(**options)
    mine = catalog.create_table("t", SCHEMA, mode="cas", key=[key] if key else [])
    rows = [{"n": n, "x": 0, "y": 0} for n in range(4)]
    (mine.upsert if key else mine.append)(rows)
    theirs = Catalog(url, upkeep=False).table("t")
    theirs.head()
    return mine, theirs


def rows(table: Table) -> dict[int, tuple[Any, ...]]:
    """By n, the other columns in the order in which they were born."""
    return {row["n"]: tuple(row.values())[1:] for row in table.read().to_pylist()}


def rename(table: Table) -> dict[str, str]:
    table.rename_column("x", "w")
    return {"x": "w", "y": "y"}


def exchange(table: Table) -> dict[str, str]:
    """Each of two columns has the name that the other was born with."""
    for name, to in (("x", "z"), ("y", "x"), ("z", "y")):
        table.rename_column(name, to)
    return {"x": "y", "y": "x"}


def added(sides: Sides) -> pa.Table:
    assert sides.base is not None
    assert sides.mine is not None
    assert sides.theirs is not None
    assert sides.base.column_names == sides.mine.column_names == sides.theirs.column_names
    (name,) = sides.overlap.columns
    return pa.table({name: pc.add(sides.theirs[name], sides.mine[name])})


ANSWERS: dict[str, tuple[Any, int]] = {
    "ours": ("ours", 5),
    "theirs": ("theirs", 7),
    "a function": (added, 12),
}
"""What is answered, and the value that is there then of the cell that both set: 5 by mine, 7 by theirs."""


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("named", [rename, exchange])
@pytest.mark.parametrize("transaction", [False, True])
@pytest.mark.parametrize("between", [False, True])
def test_columns_are_those_that_are_meant_whatever_they_are_called(
    named: Callable[[Table], dict[str, str]], answer: str, *, transaction: bool, between: bool
) -> None:
    """They were renamed before both, or by theirs, between what mine read and its commit."""
    resolver, value = ANSWERS[answer]
    mine, theirs = two(on_conflict={"update-update": resolver})
    now = {"x": "x", "y": "y"} if between else named(theirs)
    if not between:
        mine.head()
    values = {now["x"]: 5, now["y"]: 6}

    def come() -> None:
        called = named(theirs) if between else now
        theirs.update("n = 1", {called["x"]: 7})

    if transaction:
        with Catalog(mine._session.store, upkeep=False, on_conflict={"update-update": resolver}).transaction(
            ["t"]
        ) as tx:
            tx.update("t", "n <= 2", values)
            come()
    else:
        meanwhile(mine, come)
        mine.update("n <= 2", values)
    assert rows(theirs) == {0: (5, 6), 1: (value, 6), 2: (5, 6), 3: (0, 0)}
    assert not theirs.conflicts()


def test_the_error_calls_columns_as_mine_does() -> None:
    mine, theirs = two()
    mine.rename_column("x", "w")
    meanwhile(mine, lambda: theirs.rename_column("w", "v"), lambda: theirs.update("n = 1", {"v": 7}))
    with pytest.raises(CommitConflict, match="columns w") as caught:
        mine.update("n <= 2", {"w": 5, "y": 6})
    (sides,) = caught.value.sides
    assert sides.overlap.columns == ("w",)
    found = (sides.base, sides.mine, sides.theirs)
    assert [table.to_pydict() for table in found if table is not None] == [{"w": [0]}, {"w": [5]}, {"w": [7]}]
    theirs.rename_column("v", "u")
    mine.head()
    meanwhile(mine, lambda: theirs.append([{"n": 9, "u": 1, "y": 1}]))
    with pytest.raises(CommitConflict, match="columns u"):
        mine.drop_column("u")


@pytest.mark.parametrize(("answer", "value"), [("ours", 5), ("theirs", 2**40), (added, 2**40 + 5)])
def test_a_column_that_theirs_widened_takes_what_theirs_has(answer: Any, value: int) -> None:
    mine, theirs = two(on_conflict={"update-update": answer})
    mine.add_column("z", pa.int32())
    meanwhile(
        mine, lambda: theirs.widen_column("z", pa.int64()), lambda: theirs.update("n = 1", {"z": 2**40})
    )
    mine.update("n <= 2", {"z": 5, "y": 6})
    assert rows(theirs) == {0: (0, 6, 5), 1: (0, 6, value), 2: (0, 6, 5), 3: (0, 0, None)}
    assert not theirs.conflicts()


def test_what_was_taken_of_a_wider_type_is_not_lost_to_the_next() -> None:
    """What mine was settled with is not shown by what it had read: it fails, and nothing is made of it."""
    mine, theirs = two(on_conflict={"update-update": "theirs"})
    mine.add_column("z", pa.int32())
    meanwhile(
        mine,
        lambda: theirs.widen_column("z", pa.int64()),
        lambda: theirs.update("n = 1", {"z": 2**40}),
        lambda: theirs.update("n = 2", {"z": 8}),
    )
    with pytest.raises(CommitConflict):
        mine.update("n <= 2", {"z": 5, "y": 6})
    assert rows(theirs) == {0: (0, 0, None), 1: (0, 0, 2**40), 2: (0, 0, 8), 3: (0, 0, None)}


def test_a_row_that_the_same_transaction_deletes_later_has_all_its_sides() -> None:
    """A function is asked about the change that met theirs, and sees what that one leaves."""
    mine, theirs = two()
    tx = Catalog(mine._session.store, upkeep=False).transaction(["t"])
    tx.update("t", "n = 1", {"x": 5})
    tx.delete("t", "n = 1")
    theirs.update("n = 1", {"x": 7})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    first = caught.value.sides[0]
    found = (first.base, first.mine, first.theirs)
    assert [table.to_pydict() for table in found if table is not None] == [{"x": [0]}, {"x": [5]}, {"x": [7]}]


def test_what_a_blind_upsert_would_leave_has_nothing_of_theirs() -> None:
    mine, theirs = two("n")
    theirs.upsert([{"n": 1, "x": 7, "y": 8}])
    with pytest.raises(CommitConflict) as caught:
        mine.upsert([{"n": 1, "x": 5}])
    (sides,) = caught.value.sides
    assert sides.mine.to_pylist() == [{"n": 1, "x": 5, "y": 0}]
    assert sides.theirs.to_pylist() == [{"n": 1, "x": 7, "y": 8}]


KEYS: dict[str, pa.Array] = {
    "ns": pa.array([1, 1_700_000_000_123_456_789, 1_700_000_000_123_456_790], pa.timestamp("ns")),
    "zone": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Berlin")),
    "time": pa.array([1, 123_456_789, 123_456_790], pa.time64("ns")),
    "duration": pa.array([1, 1_234_567_890_123, 5], pa.duration("ns")),
    "days": pa.array([0, 86_400_000, 172_800_000], pa.date64()),
    "unsigned": pa.array([0, 2**63, 2**64 - 1], pa.uint64()),
    "decimal": pa.array([Decimal("1.5"), Decimal("2.25"), Decimal(3)], pa.decimal128(20, 3)),
    "view": pa.array(["a", "b", "c"], pa.string_view()),
    "dictionary": pa.array(["a", "b", "c"]).dictionary_encode(),
    "bytes": pa.array([b"\0a", b"\0", b"\xff"]),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("inline", [0, 65_536])
def test_rows_are_found_by_keys_of_every_type(kind: str, inline: int) -> None:
    keys, given = KEYS[kind], []

    def answer(sides: Sides) -> pa.Table:
        assert sides.mine is not None
        assert sides.theirs is not None
        given.append((sides.mine, sides.theirs))
        return sides.theirs.set_column(1, "x", pc.add(sides.theirs["x"], sides.mine["x"]))

    catalog, url = lake(on_conflict=answer, inline_bytes=inline)
    mine = catalog.create_table("t", pa.schema([("k", keys.type), ("x", pa.int64())]), mode="cas", key=["k"])
    mine.upsert(pa.table({"k": keys, "x": [0, 0, 0]}))
    theirs = Catalog(url, upkeep=False).table("t")
    theirs.upsert(pa.table({"k": keys[:2], "x": [7, 7]}))
    mine.upsert(pa.table({"k": keys[1:], "x": [5, 5]}))
    ((ours, others),) = given
    assert (ours["x"].to_pylist(), others["x"].to_pylist()) == ([5], [7])
    assert sorted(mine.read()["x"].to_pylist()) == [5, 7, 12]


def test_keys_that_python_has_no_value_for_are_told_apart() -> None:
    catalog, url = lake()
    table = catalog.create_table(
        "times", pa.schema([("k", pa.time64("ns")), ("x", pa.int64())]), mode="cas", key=["k"]
    )
    rows = pa.table({"k": KEYS["time"], "x": [0, 0, 0]})
    table.upsert(rows)
    Catalog(url, upkeep=False).table("times").upsert(rows)
    with pytest.raises(CommitConflict) as caught:
        table.upsert(rows)
    (conflict,) = caught.value.conflicts
    assert conflict.keys == ("00:00:00.000000001", "00:00:00.123456789", "00:00:00.123456790")
    assert len(conflict.key_values) == 3


def test_a_merge_has_the_sides_of_each_of_its_changes() -> None:
    """Also of rows that have other ids here than on the branch, and that a later change deletes."""
    mine, _ = two()
    branch = mine.branch("side")
    branch.append([{"n": 9, "x": 0, "y": 0}])
    mine.merge("side")
    branch.update("n = 9", {"x": 5})
    branch.update("n = 1", {"x": 6})
    branch.delete("n = 1")
    mine.update("n = 9", {"x": 7})
    mine.update("n = 1", {"x": 8})
    with pytest.raises(CommitConflict) as caught:
        mine.merge("side")
    found = [(sides.kind, sides.base, sides.mine, sides.theirs) for sides in caught.value.sides]
    assert [(kind, *(table and table["x"].to_pylist() for table in tables)) for kind, *tables in found] == [
        ("update-update", [0], [5], [7]),
        ("update-update", [0], [6], [8]),
        ("delete-update", [0], None, [8]),
    ]


@pytest.mark.parametrize("verb", ["overwrite", "delete", "update"])
def test_rows_of_theirs_are_kept_whatever_their_columns_are_called(verb: str) -> None:
    """By the names that mine has for them, and with a column that theirs has added."""

    def kept(sides: Sides) -> pa.Table:
        found = sides.mine if verb == "update" else sides.theirs
        assert found is not None
        assert found.column_names[:3] == ["n", "x", "y"]
        return found

    mine, theirs = two(on_conflict=kept)

    def come() -> None:
        exchange(theirs)
        theirs.add_column("w", pa.string())
        if verb == "update":
            theirs.delete("n = 1")
        else:
            theirs.update("n = 1", {"y": 5, "x": 6, "w": "new"})

    meanwhile(mine, come)
    if verb == "overwrite":
        mine.overwrite([{"n": 7, "x": 7, "y": 7}])
        assert rows(mine) == {7: (7, 7, None), 1: (5, 6, "new")}
    elif verb == "delete":
        mine.delete("n <= 2")
        assert rows(mine) == {3: (0, 0, None), 1: (5, 6, "new")}
    else:
        mine.update("n <= 1", {"x": 8})
        assert rows(mine) == {0: (8, 0, None), 2: (0, 0, None), 3: (0, 0, None), 1: (8, 0, None)}
    assert {item.kind for item in mine.conflicts()} == ({"deleted"} if verb == "update" else set())


PAIR = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])


def added_up(sides: Sides) -> Any:
    """Both sides, in every column that both have."""
    assert sides.base is not None
    assert sides.mine is not None
    assert sides.theirs is not None
    rows = zip(*(side.to_pylist() for side in (sides.base, sides.mine, sides.theirs)), strict=True)
    return [
        {**theirs, **{name: mine[name] + theirs[name] - base[name] for name in "xy"}}
        for base, mine, theirs in rows
    ]


def counters(**options: Any) -> tuple[Table, Table]:
    """Mine and theirs, of a table of two keys with two numbers each."""
    catalog, url = lake(**options)
    mine = catalog.create_table("t", PAIR, mode="cas", key=["n"])
    mine.upsert([{"n": n, "x": 0, "y": 0} for n in range(2)])
    mine.head()
    return mine, Catalog(url, upkeep=False).table("t")


def counted(table: Table) -> list[tuple[int, int, int]]:
    return [(row["n"], row["x"], row["y"]) for row in table.read().to_pylist()]


def test_base_and_mine_have_what_others_did_that_met_nothing() -> None:
    """Before, mine was what it had read with its change on top, and base what the last commit left that had
    met it: a function that adds up both took away what somebody else had done in between."""
    mine, theirs = counters(on_conflict=added_up)
    with Catalog(mine._session.store, upkeep=False, on_conflict=added_up).transaction(["t"]) as tx:
        tx.upsert("t", [{"n": n, "y": 1} for n in range(2)])
        theirs.upsert([{"n": 0, "x": 2}])  # meets nothing
        theirs.upsert([{"n": 1, "y": 10}])
        theirs.upsert([{"n": 0, "y": 10}])
    assert counted(mine) == [(0, 2, 11), (1, 0, 11)]


def test_a_row_that_is_brought_back_has_what_others_did_before_it_was_deleted() -> None:
    catalog, url = lake(on_conflict=lambda sides: sides.mine)
    mine = catalog.create_table("t", PAIR, mode="cas")
    mine.append([{"n": n, "x": 0, "y": 0} for n in range(2)])
    theirs = Catalog(url, upkeep=False).table("t")
    meanwhile(mine, lambda: theirs.update("n = 0", {"y": 5}), lambda: theirs.delete("y = 5"))
    mine.update("n = 0", {"x": 7})
    assert sorted(counted(mine)) == [(0, 7, 5), (1, 0, 0)]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("answer", [added_up, lambda sides: sides.theirs], ids=["sum", "theirs"])
def test_a_transaction_of_theirs_is_met_as_a_whole(answer: Any, *, is_read: bool, again: bool) -> None:
    """Its versions came at once: what the first of them left was never there. Rows as it had left them were
    answered with, and took away what the second one had done. `is_read`: they are met in the log."""
    mine, theirs = counters(on_conflict=answer)
    with Catalog(theirs._session.store, upkeep=False).transaction(["t"]) as other:
        other.upsert("t", [{"n": 0, "y": 10}])
        other.upsert("t", [{"n": 0, "x": 3}])
        if again:
            other.upsert("t", [{"n": 0, "y": 20}])

        def come() -> None:
            other.commit()
            if is_read:
                mine.head()

        meanwhile(mine, come)
        mine.update("n = 0", {"y": 1})
    assert counted(mine)[0] == (0, 3, (20 if again else 10) + (answer is added_up))


@pytest.mark.parametrize("answer", ["theirs", lambda sides: sides.theirs], ids=["word", "values"])
def test_rows_that_the_same_transaction_deletes_later_have_what_it_had_set(answer: Any) -> None:
    catalog, url = lake(on_conflict={"update-update": answer, "update-delete": "theirs"})
    mine = catalog.create_table("t", PAIR, mode="cas")
    for n in range(3):  # a chunk each, of which nothing is left
        mine.append([{"n": n, "x": 0, "y": 0}])
    with Catalog(url, upkeep=False).transaction(["t"]) as other:
        other.update("t", "n < 2", {"x": 5})
        other.delete("t", "n = 0")
        meanwhile(mine, other.commit)
        mine.update("true", {"x": 7})
    assert sorted(counted(mine)) == [(1, 5, 0), (2, 7, 0)]
