"""Cells that lost are listed with both versions, rows and columns, and what they held can be read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.errors import InvalidArgument
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back


def two_handles() -> tuple[Table, Table]:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())]))
    table.append([{"id": at, "a": f"a{at}", "b": at} for at in range(6)])
    return table, another(catalog).table("t")


def test_two_updates_of_one_cell() -> None:
    first, second = two_handles()
    arrive = held_back(second, lambda: second.update("id < 3", {"a": pa.array(["x", "y", "z"])}))
    winner = first.update("id in (1, 2, 5)", {"a": "mine"})
    assert first.conflicts() == ()
    arrive()
    (lost,) = first.conflicts()
    assert (lost.kind, lost.subject, lost.winner) == ("cell", "a", winner.id)
    assert lost.loser in {item.id for item in first.history() if item.operation == "update"} - {winner.id}
    assert [interval[2:] for interval in lost.rows] == [(1, 3)]
    assert first.lost_values(lost)["a"].to_pylist() == ["y", "z"]
    assert first.read(["a"])["a"].to_pylist() == ["x", "mine", "mine", "a3", "a4", "mine"]
    first.compact()
    assert first.conflicts() == (lost,)
    assert first.lost_values(lost)["a"].to_pylist() == ["y", "z"]


def test_an_update_of_a_row_that_was_deleted_meanwhile() -> None:
    first, second = two_handles()
    arrive = held_back(second, lambda: second.update("id in (3, 4)", {"b": -1}))
    deleted = first.delete("id = 4")
    arrive()
    (lost,) = first.conflicts()
    assert (lost.kind, lost.subject, lost.winner) == ("deleted", "b", deleted.id)
    assert [lost.loser] == [item.id for item in first.history() if item.operation == "update"]
    assert first.lost_values(lost)["b"].to_pylist() == [-1]
    assert first.read()["id"].to_pylist() == [0, 1, 2, 3, 5]
    assert "deleted or overwrote" in str(lost)


def test_what_was_replaced_knowingly_is_no_conflict() -> None:
    first, second = two_handles()
    first.update("id = 1", {"a": "one"})
    second.update("id = 1", {"a": "two"})
    second.delete("id = 1")
    assert first.conflicts() == second.conflicts() == ()


def test_only_conflicts_about_cells_have_lost_values() -> None:
    first, second = two_handles()
    arrive = held_back(second, lambda: second.set_properties(owner="second"))
    first.set_properties(owner="first")
    arrive()
    (lost,) = first.conflicts()
    with pytest.raises(InvalidArgument, match="not about cells"):
        first.lost_values(lost)
    with pytest.raises(InvalidArgument, match="no conflict"):
        first.lost_values("a conflict")  # type: ignore[arg-type]


def test_what_was_lost_of_a_column_that_was_dropped_and_survived() -> None:
    """The drop had seen the update that lost, and not another, so that the column is still there."""
    first, second = two_handles()
    remove = held_back(second, lambda: second.delete("id = 1"))
    first.update("id = 1", {"a": "lost"})
    survive = held_back(second, lambda: second.update("id = 2", {"a": "unseen"}))
    first.drop_column("a")
    remove()
    survive()
    (lost,) = [item for item in first.conflicts() if item.kind == "deleted"]
    assert first.lost_values(lost).to_pydict() == {"a": ["lost"]}


def test_what_was_lost_is_of_the_column_and_not_of_another_born_under_its_name() -> None:
    first, second = two_handles()
    first.rename_column("a", "old")
    first.add_column("a", pa.string())
    second.head()
    arrive = held_back(second, lambda: second.update("id = 1", {"old": "lost", "a": "too"}))
    first.update("id = 1", {"old": "x", "a": "y"})
    arrive()
    both = {item.subject: item for item in first.conflicts()}
    loser = {name: first.lost_values(item)[name].to_pylist() for name, item in both.items()}
    assert loser == {"old": ["lost"], "a": ["too"]}
    first.drop_column("old")
    about = [item for item in first.conflicts() if item.kind == "cell"]
    assert len(about) == 2
    found = {item.column: first.lost_values(item)["a"].to_pylist() for item in about}
    assert found == {both["a"].column: ["too"], both["old"].column: ["lost"]}


def test_what_was_lost_of_a_column_that_was_dropped_since() -> None:
    """In the type that it was written in: the column has none any more."""
    first, second = two_handles()
    arrive = held_back(second, lambda: second.update("id in (1, 2)", {"b": pa.array([-1, -2])}))
    first.update("id = 1", {"b": 8})
    first.delete("id = 2")
    arrive()
    assert {item.kind: first.lost_values(item)["b"].to_pylist() for item in first.conflicts()} == {
        "cell": [-1],
        "deleted": [-2],
    }
    first.drop_column("b")
    for _ in range(2):
        lost = {item.kind: first.lost_values(item) for item in first.conflicts()}
        assert lost == {"cell": pa.table({"b": [-1]}), "deleted": pa.table({"b": [-2]})}
        first.compact()


@pytest.mark.parametrize("verb", ["restore", "overwrite", "delete", "write"])
def test_rows_that_were_gone_before_are_taken_by_nobody_else(verb: str) -> None:
    """Where nobody compacted, an overwrite that has seen both names the whole chunk, dead row and all."""
    listed = []
    for compacted in (False, True):
        first, second = two_handles()
        start = first.head().snapshot
        arrive = held_back(second, lambda table=second: table.update("id = 4", {"b": -1}))  # type: ignore[misc]
        deleted = first.delete("id = 4")
        arrive()
        if compacted:
            first.compact()
        if verb == "restore":
            first.restore(start)
        elif verb == "delete":
            first.delete("id >= 0")
        else:
            getattr(first, verb)([{"id": 9, "a": "new", "b": 9}])
        (lost,) = first.conflicts()
        assert lost.winner == deleted.id
        assert first.lost_values(lost)["b"].to_pylist() == [-1]
        listed.append((lost.kind, lost.subject, [interval[1:] for interval in lost.rows]))
    assert listed[0] == listed[1]


def test_an_update_of_no_row_is_no_misfit() -> None:
    """It named a column which somebody else, unseen, made another of: but it wrote nothing."""
    first, second = two_handles()
    arrive = held_back(second, lambda: second.rename_column("b", "x"))
    first.update("id = 77", {"b": 1})
    first.add_column("x", pa.string())
    first.update("id = 1", {"b": 8})
    arrive()
    lost = [item for item in first.conflicts() if item.kind == "misfit"]
    assert [first.lost_values(item)["x"].to_pylist() for item in lost] == [[0, 1, 2, 3, 4, 5], [8]]
