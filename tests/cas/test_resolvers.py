"""What is done about conflicts with the rows at hand: both sides on the error, functions, another try."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.cas.sides import Sides
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.format.ops import ColumnId, decode_ops
from crdtcat.table import Table
from tests.bounds import bounded
from tests.cas.scenes import SCHEMA, lake, meanwhile, rows, two, values
from tests.cost.places import asked


def conflict(mine: Table, theirs: Table) -> CommitConflict:
    """Rows 0 to 2 of mine, 2 to 4 of theirs: they meet in row 2."""
    meanwhile(mine, lambda: theirs.update("n >= 2 and n <= 4", {"x": 7}))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n <= 2", {"x": pc.add(pc.field("n"), 100)})
    return caught.value


def test_the_error_has_both_sides_of_the_rows_in_conflict() -> None:
    mine, theirs = two()
    error = conflict(mine, theirs)
    (sides,) = error.sides
    assert (sides.kind, sides.theirs_id) == ("update-update", theirs.history()[-1].id)
    assert sides.base.to_pydict() == {"x": [0]}
    assert sides.mine.to_pydict() == {"x": [102]}
    assert sides.theirs.to_pydict() == {"x": [7]}
    assert repr(sides) == f"Sides({error.conflicts[0]})"
    assert repr(error.conflicts) == f"(Overlap({error.conflicts[0]}),)"
    assert len(repr(sides)) < 400


def test_values_are_read_when_asked_for() -> None:
    catalog, url = lake(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", *range(9)))
    other = Catalog(url, upkeep=False).table("t")
    error = conflict(table, other)
    assert asked(catalog, lambda: error.sides[0].kind) == {}
    assert asked(catalog, lambda: error.sides[0].mine)["get"] >= 1
    assert asked(catalog, lambda: error.sides[0].mine) == {}


def test_a_deleted_row_has_no_side() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.delete("n = 1"))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n <= 2", {"x": 5})
    (sides,) = caught.value.sides
    assert sides.base.to_pydict() == {"day": ["mo"], "n": [1], "x": [0]}
    assert sides.mine.to_pydict() == {"day": ["mo"], "n": [1], "x": [5]}
    assert sides.theirs is None
    meanwhile(mine, lambda: theirs.update("n = 2", {"x": 1}))
    with pytest.raises(CommitConflict) as caught:
        mine.delete("n = 2")
    (sides,) = caught.value.sides
    assert sides.mine is None
    assert sides.theirs.to_pydict()["x"] == [1]


def test_sides_of_compacted_rows() -> None:
    mine, theirs = two(partitioned=False)
    theirs.update("n = 4", {"x": 1})
    theirs.compact()
    meanwhile(mine, lambda: theirs.update("n >= 4 and n <= 5", {"x": 2}))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n >= 4", {"x": 3})
    (sides,) = caught.value.sides
    assert sides.base.to_pydict() == {"x": [1, 0]}
    assert sides.theirs.to_pydict() == {"x": [2, 2]}


def test_sides_of_a_transaction() -> None:
    mine, theirs = two()
    catalog = Catalog(mine._session.store, upkeep=False)
    transaction = catalog.transaction()
    transaction.update("t", "n = 1", {"x": 3})
    theirs.update("n = 1", {"x": 4})
    with pytest.raises(CommitConflict) as caught:
        transaction.commit()
    (sides,) = caught.value.sides
    found = (sides.base, sides.mine, sides.theirs)
    assert [table.to_pydict() for table in found] == [{"x": [0]}, {"x": [3]}, {"x": [4]}]
    assert caught.value.retry("ours")["t"][0].number == 3
    assert values(mine)[1] == (1, 3)


def test_the_change_is_kept_for_another_try() -> None:
    mine, theirs = two(inline_bytes=0)
    error = conflict(mine, theirs)
    with pytest.raises(CommitConflict) as caught:
        error.retry({"property-property": "ours"})
    before = mine._session.store.requests.snapshot()
    version = caught.value.retry("ours")
    with pytest.raises(InvalidArgument, match="by an earlier try"):
        error.retry("ours")  # it was committed, and others may have gone on from there
    assert (version.number, version.operation) == (3, "update")
    assert mine._session.store.requests.since(before).put == 1, "the claim; no row is stored again"
    assert values(mine)[:5] == [(0, 100), (1, 101), (2, 102), (3, 7), (4, 7)]
    copy = pickle.loads(pickle.dumps(error))
    assert copy.sides == ()
    with pytest.raises(InvalidArgument, match="repeat the call"):
        copy.retry()


@pytest.mark.parametrize("inline", [0, 4096])
def test_theirs_keeps_their_cells_and_all_others_of_mine(inline: int) -> None:
    mine, theirs = two(on_conflict={"update-update": "theirs"}, inline_bytes=inline)
    meanwhile(mine, lambda: theirs.update("n >= 2 and n <= 4", {"x": 7}))
    version = mine.update("n <= 2", {"x": pc.add(pc.field("n"), 100), "day": "su"})
    assert (version.number, version.rebases) == (3, 1)
    assert values(theirs)[:5] == [(0, 100), (1, 101), (2, 7), (3, 7), (4, 7)]
    assert theirs.read(["day"], "n <= 2")["day"].to_pylist() == ["su"] * 3, (
        "the cells of row 2 they did not set"
    )


def test_a_function_is_given_both_sides_and_answers_with_values() -> None:
    def added(sides: Sides) -> Any:
        assert sides.mine is not None
        assert sides.theirs is not None
        assert sides.base is not None
        change = pc.subtract(sides.mine["x"], sides.base["x"])
        return pa.table({"x": pc.add(sides.theirs["x"], change)})

    mine, theirs = two(on_conflict={"update-update": added})
    for turn in range(3):
        meanwhile(mine, lambda: theirs.update("n >= 1", {"x": pc.add(pc.field("x"), 10)}))
        mine.update("n <= 2", {"x": pc.add(pc.field("x"), 1)})
        assert values(theirs)[:4] == [
            (0, turn + 1),
            (1, 11 * (turn + 1)),
            (2, 11 * (turn + 1)),
            (3, 10 * (turn + 1)),
        ], "both counts are in"


def test_a_function_may_answer_with_a_word_for_every_kind() -> None:
    seen: list[str] = []

    def answer(sides: Sides) -> str:
        seen.append(sides.kind)
        return {"update-update": "ours", "update-delete": "theirs"}.get(sides.kind, "fail")

    mine, theirs = two(on_conflict=answer)
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 1}), lambda: theirs.delete("n = 1"))
    mine.update("n <= 2", {"x": 5})
    assert values(mine)[:2] == [(0, 5), (2, 5)]
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 6}))
    with pytest.raises(CommitConflict):
        mine.delete("n = 0")
    assert seen == ["update-update", "update-delete", "delete-update"]


def test_wrong_answers_are_refused_and_nothing_is_committed() -> None:
    for answer, match in (
        (lambda _: "perhaps", "none of"),
        (lambda _: "both", "cannot be answered"),
        (lambda _: pa.table({"x": [1, 2]}), "2 rows"),
        (lambda _: pa.table({"n": [1]}), "rows of"),
        (lambda _: [], "0 rows"),
        (lambda _: None, "on_conflict: for update-update .* NoneType"),  # it forgot to return
        (lambda _: 5, "on_conflict: for update-update .* int"),
        (lambda _: b"ours", "on_conflict: for update-update .* bytes"),
        (lambda _: lambda _: "ours", "on_conflict: for update-update .* function"),
    ):
        mine, theirs = two(on_conflict={"update-update": answer})
        meanwhile(mine, lambda theirs=theirs: theirs.update("n = 0", {"x": 1}))  # type: ignore[misc]
        with pytest.raises(InvalidArgument, match=match):
            mine.update("n = 0", {"x": 5})
        assert values(theirs)[0] == (0, 1)
        assert mine.append(rows("mo", 9)).number == 3, "the handle goes on"
    mine, theirs = two(on_conflict=lambda _: pa.table({"x": [1]}))
    meanwhile(mine, lambda: theirs.set_properties(p=1))
    with pytest.raises(InvalidArgument, match="not about rows"):
        mine.set_properties(p=2)


def test_what_cannot_be_patched_fails_as_it_is() -> None:
    """A `write` that changes cells and adds rows at once is not taken apart."""
    mine, theirs = two(on_conflict={"update-update": "theirs"}, partitioned=False)
    data = mine.read().to_pylist()
    data[0]["x"] = 5
    data.insert(4, {"day": "tu", "n": 99, "x": 0})
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 1}))
    with pytest.raises(CommitConflict) as caught:
        mine.write(data, on=["n"])
    assert values(theirs)[0] == (0, 1)
    caught.value.retry("ours")
    assert values(theirs)[0] == (0, 5)
    assert values(theirs)[-1] == (99, 0)


@pytest.mark.parametrize("where", ["true", "n < 4"], ids=["whole chunks", "rows"])
def test_rows_that_several_changes_of_one_commit_updated_are_all_left_alone(where: str) -> None:
    """Before, a delete of whole chunks left those of the last change alone, and took the others."""
    catalog, url = lake(on_conflict={"delete-update": "theirs"})
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append(rows("mo", *range(6)))

    def come() -> None:
        with Catalog(url, upkeep=False).transaction() as transaction:
            for n in (1, 2, 3):
                transaction.update("t", f"n = {n}", {"x": n})

    meanwhile(mine, come)
    mine.delete(where)
    assert [row for row in values(mine) if row[0] < 4] == [(1, 1), (2, 2), (3, 3)]
    assert mine.read().num_rows == (3 if where == "true" else 5)


def as_theirs(sides: Sides) -> Any:
    """The rows as theirs left them, doubled: something that neither side has."""
    assert sides.theirs is not None
    return sides.theirs.set_column(2, "x", pc.multiply(sides.theirs["x"], 2))


@pytest.mark.parametrize("inline", [0, 4096])
def test_rows_that_mine_deletes_and_theirs_updated_can_be_added_as_others(inline: int) -> None:
    mine, theirs = two(on_conflict={"delete-update": as_theirs}, inline_bytes=inline)
    meanwhile(mine, lambda: theirs.update("n = 1", {"x": 5}))
    version = mine.delete("n <= 2")
    assert (version.number, version.rebases) == (3, 1)
    assert sorted(values(theirs)) == [(1, 10), *((n, 0) for n in range(3, 9))]
    assert mine.verify().ok


@pytest.mark.parametrize("gone", ["delete", "overwrite"])
def test_rows_that_theirs_removed_can_be_brought_back_with_the_cells_of_mine(gone: str) -> None:
    def back(sides: Sides) -> Any:
        assert sides.theirs is None
        return sides.mine

    mine, theirs = two(on_conflict=back)
    change = {
        "delete": lambda: theirs.delete("n = 1"),
        "overwrite": lambda: theirs.overwrite(rows("mo", 50), where="day = 'mo'"),
    }
    meanwhile(mine, change[gone])
    mine.update("n <= 2", {"x": 5})
    more = [(50, 0)] if gone == "overwrite" else []
    assert sorted(values(theirs)) == [*((n, 5) for n in range(3)), *((n, 0) for n in range(3, 9)), *more]
    assert mine.verify().ok


@pytest.mark.parametrize("partition", [True, False])
def test_what_theirs_added_or_updated_in_what_mine_overwrites_can_be_kept(partition: bool) -> None:
    mine, theirs = two(on_conflict={"overwrite-append": as_theirs, "overwrite-update": as_theirs})
    where = "day = 'mo'" if partition else None
    meanwhile(
        mine,
        lambda: theirs.append([{"day": "mo", "n": 70, "x": 7}]),
        lambda: theirs.update("n = 1", {"x": 5}),
    )
    mine.overwrite(rows("mo", 50), where=where)
    rest = [(n, 0) for n in range(3, 9)] if partition else []
    assert sorted(values(theirs)) == sorted([*rest, (50, 0), (70, 14), (1, 10)])
    assert theirs.verify().ok


def test_rows_of_other_partitions_are_refused_and_nothing_is_committed() -> None:
    def elsewhere(_: Sides) -> Any:
        return [{"day": "tu", "n": 1, "x": 1}]

    mine, theirs = two(on_conflict={"overwrite-update": elsewhere})
    meanwhile(mine, lambda: theirs.update("n = 1", {"x": 5}))
    with pytest.raises(InvalidArgument, match="other partitions"):
        mine.overwrite(rows("mo", 50), where="day = 'mo'")
    assert len(theirs.history()) == 2


def keyed(**options: Any) -> tuple[Table, Table]:
    catalog, url = lake(base_delay=0, **options)
    mine = catalog.create_table("t", SCHEMA, mode="cas", key=["n"])
    mine.append(rows("mo", *range(4)))
    return mine, Catalog(url, upkeep=False).table("t")


def test_keys_that_both_upserted_take_what_the_function_makes_of_both() -> None:
    def added(sides: Sides) -> Any:
        assert sides.base is None  # a blind upsert has read nothing
        assert sides.mine is not None
        assert sides.theirs is not None
        return sides.mine.set_column(2, "x", pc.add(sides.mine["x"], sides.theirs["x"]))

    mine, theirs = keyed(on_conflict={"upsert-upsert": added})
    theirs.upsert([{"day": "mo", "n": n, "x": 10 + n} for n in (1, 2)])
    mine.upsert([{"day": "tu", "n": n, "x": 100 * n} for n in (2, 3)])
    for _ in range(2):
        assert values(theirs) == [(0, 0), (1, 11), (2, 212), (3, 300)]
        assert theirs.read(["day"])["day"].to_pylist() == ["mo", "mo", "tu", "tu"]
        theirs.compact()
    assert theirs.verify().ok


def test_keys_that_one_deleted_and_the_other_upserted() -> None:
    seen: list[Any] = []

    def both(sides: Sides) -> Any:
        seen.append((sides.kind, sides.mine is None, sides.theirs is None))
        side = sides.theirs if sides.mine is None else sides.mine
        assert side is not None
        return side.set_column(2, "x", pc.add(side["x"], 1))

    mine, theirs = keyed(on_conflict=both)
    theirs.upsert([{"day": "mo", "n": 1, "x": 10}])
    mine.delete(keys=[1, 2])
    assert values(theirs) == [(0, 0), (1, 11), (3, 0)]
    theirs.delete(keys=[3])
    mine.upsert([{"day": "mo", "n": 3, "x": 30}])
    for _ in range(2):
        assert values(theirs) == [(0, 0), (1, 11), (3, 31)]
        theirs.compact()
    assert seen == [("delete-upsert", True, False), ("upsert-delete", False, True)]


CELL = st.dictionaries(st.sampled_from(["x", "day"]), st.integers(1, 9), min_size=1)
CELLS = st.dictionaries(st.integers(0, 8), CELL, max_size=9)


@given(st.lists(CELLS, min_size=1, max_size=3), st.sets(st.integers(0, 8), min_size=1), st.booleans())
@settings(max_examples=bounded(400, 40), deadline=None)
def test_theirs_and_ours_are_what_a_model_says(others: list[Any], chosen: set[int], both: bool) -> None:
    """Every cell is what the last one set who may: mine where nobody else did, or where mine prevails."""
    for answer in ("ours", "theirs"):
        mine, theirs = two(partitioned=False, on_conflict={"update-update": answer})
        model = {n: {"x": 0, "day": "motuwe"[n // 3 * 2 : n // 3 * 2 + 2]} for n in range(9)}
        actions, touched = [], set()
        for cells in others:
            for n, new in cells.items():
                new = {name: value if name == "x" else f"d{value}" for name, value in new.items()}  # noqa: PLW2901
                actions.append(partial(theirs.update, f"n = {n}", new))
                model[n].update(new)
                touched |= {(n, name) for name in new}
        mine_sets = {"x": 50, "day": "me"} if both else {"x": 50}
        for n in chosen:
            kept = {name for name in mine_sets if answer == "ours" or (n, name) not in touched}
            model[n].update({name: mine_sets[name] for name in kept})
        meanwhile(mine, *actions)
        mine.update(f"n in ({', '.join(map(str, sorted(chosen)))})", mine_sets)
        found = {row["n"]: {"x": row["x"], "day": row["day"]} for row in theirs.read().to_pylist()}
        assert found == model


def test_base_is_what_mine_rests_on_once_it_was_settled() -> None:
    """Two others and mine add to one cell: what a function adds up of both sides is the sum of all three."""

    def total(sides: Sides) -> Any:
        assert sides.base is not None
        assert sides.mine is not None
        assert sides.theirs is not None
        given = (sides.base["x"].to_pylist(), sides.mine["x"].to_pylist(), sides.theirs["x"].to_pylist())
        return {"x": [theirs + mine - base for base, mine, theirs in zip(*given, strict=True)]}

    mine, theirs = two(on_conflict={"update-update": total})
    meanwhile(mine, lambda: theirs.update("n = 1", {"x": 1}), lambda: theirs.update("n = 1", {"x": 3}))
    mine.update("n <= 2", {"x": 10})
    assert values(theirs)[:3] == [(0, 10), (1, 13), (2, 10)]
    with Catalog(mine._session.store, upkeep=False, on_conflict={"update-update": total}).transaction() as tx:
        tx.update("t", "n <= 1", {"x": tx.read("t", ["x"], "n = 1")["x"][0].as_py() + 100})
        for by in (14, 15, 18):
            theirs.update("n = 1", {"x": by})
    assert values(theirs)[:2] == [(0, 113), (1, 118)]


def test_a_column_of_ones_own_stays_ones_own_when_the_change_is_made_another() -> None:
    mine, theirs = two(partitioned=False, on_conflict="ours")
    meanwhile(mine, lambda: theirs.append(rows("mo", 50)))
    made = mine.overwrite([{"day": "mo", "n": 1, "x": 1, "fresh": "new"}], evolve=True)
    assert theirs.read().to_pylist() == [{"day": "mo", "n": 1, "x": 1, "fresh": "new"}]
    log = theirs.head().log
    ops = decode_ops(log.ops[log.index_of(made.id)].as_py(), made.id, str(made.id))
    assert [item.column for item in ops.definitions] == [ColumnId("fresh", made.id)]


@pytest.mark.parametrize("refreshed", [False, True])
@pytest.mark.parametrize("later", ["overwrite", "delete"])
def test_a_row_that_was_deleted_before_an_overwrite_is_not_overwritten(refreshed: bool, later: str) -> None:
    """Found by `test_verbs_exact`: the second of theirs removes the chunk whole, the row that is gone too."""
    mine, theirs = two(partitioned=False, on_conflict={"update-delete": "theirs", "delete-overwrite": "fail"})
    mine.append(rows("th", 9))

    def between() -> None:
        theirs.delete("n = 1")
        if later == "overwrite":
            theirs.overwrite(rows("mo", 20))
        else:
            theirs.delete("n <= 8")
        if refreshed:
            mine._session.refresh()

    meanwhile(mine, between)
    mine.update("n = 1", {"x": 5})
    assert values(mine) == ([(20, 0)] if later == "overwrite" else [(9, 0)])
    mine, theirs = two(partitioned=False, on_conflict="fail")
    meanwhile(mine, between)
    with pytest.raises(CommitConflict) as caught:  # of the two rows that it updates one was there
        mine.update("n <= 1", {"x": 5})
    assert [item.rows.total for item in caught.value.conflicts] == [1, 1]
