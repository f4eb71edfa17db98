"""Rows that were deleted before a commit came are nothing that it touched, also where its file names them.

Whoever updates or deletes a row that somebody else has deleted meanwhile, and yields, is committed with a
file that names the row all the same. To others that is no conflict: the row was gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas.claiming import Committing
from crdtcat.errors import CommitConflict
from tests.cas.scenes import lake, meanwhile

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def beside(between: Callable[[Table, Table], Any], **options: Any) -> Table:
    """A handle beside whose next commit `between` has happened, by one who deletes and one who yields."""
    catalog, url = lake(**options)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append([{"n": n, "x": 0} for n in range(4)])
    first = Catalog(url, upkeep=False).table("t")
    second = Catalog(url, upkeep=False, on_conflict={"update-delete": "theirs"}).table("t")
    meanwhile(mine, lambda: between(first, second))
    return mine


def late_update(first: Table, second: Table) -> None:
    """It set a cell of row 1, which was gone by then, and of row 2."""
    meanwhile(second, lambda: first.delete("n = 1"))
    second.update("n = 1 or n = 2", {"x": 7})


def late_delete(first: Table, second: Table) -> None:
    meanwhile(second, lambda: first.delete("n = 1"))
    second.delete("n = 1 or n = 3")


def values(table: Table) -> dict[int, int]:
    return {row["n"]: row["x"] for row in table.read().to_pylist()}


def test_a_delete_of_a_row_that_was_gone_passes_an_update_that_still_names_it() -> None:
    mine = beside(late_update)
    mine.delete("n = 1")
    assert values(mine) == {0: 0, 2: 7, 3: 0}


def test_and_so_does_an_update_that_yields_to_the_delete() -> None:
    mine = beside(late_update, on_conflict={"update-delete": "theirs"})
    mine.update("n = 1 or n = 3", {"x": 5})
    assert values(mine) == {0: 0, 2: 7, 3: 5}


def test_what_else_it_touched_is_told_without_that_row() -> None:
    mine = beside(late_update, on_conflict={"update-delete": "theirs"})
    with pytest.raises(CommitConflict) as caught:
        mine.update("n = 1 or n = 2", {"x": 5})
    (conflict,) = caught.value.conflicts
    assert (conflict.kind.value, conflict.number, conflict.rows.total) == ("update-update", 3, 1)
    (sides,) = caught.value.sides
    assert sides.theirs.to_pydict() == {"x": [7]}


def test_a_row_is_deleted_by_the_first_who_does() -> None:
    mine = beside(late_delete)
    with pytest.raises(CommitConflict) as caught:
        mine.update("n = 1", {"x": 5})
    assert [(item.kind.value, item.number) for item in caught.value.conflicts] == [("update-delete", 2)]


def test_a_chunk_that_both_remove_has_no_rows_that_were_deleted_before() -> None:
    """Its file says "all of it", however many rows that are; those that were there had gone one by one."""

    def between(first: Table, second: Table) -> None:
        meanwhile(second, lambda: first.delete("n = 1"), lambda: first.delete("n != 1"))
        second.delete("true")

    mine = beside(between, on_conflict="fail")
    with pytest.raises(CommitConflict) as caught:
        mine.delete("true")
    told = [(item.kind.value, item.number, item.rows.total) for item in caught.value.conflicts]
    assert told == [("delete-delete", 2, 1), ("delete-delete", 3, 3)]


WHOLE: dict[str, Callable[[Table], Any]] = {
    "overwrite": lambda table: table.overwrite([{"n": 9, "x": 9}]),
    "restore": lambda table: table.restore(table.history()[0].id),
    "drop": lambda table: table.drop_column("x"),
}


@pytest.mark.parametrize("verb", WHOLE)
def test_a_late_update_of_a_row_that_was_gone_before_mine_read_is_in_nobodys_way(verb: str) -> None:
    catalog, url = lake(on_conflict="fail")
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append([{"n": n, "x": 0} for n in range(4)])
    late = Catalog(url, upkeep=False, on_conflict={"update-delete": "theirs"}).transaction()
    late.update("t", "n = 1", {"x": 7})
    mine.delete("n = 1")
    meanwhile(mine, late.commit)
    assert WHOLE[verb](mine).number == 4


def test_what_an_earlier_change_of_the_same_transaction_deleted_is_told_once() -> None:
    """Its overwrite removes the chunk, and not the row that it had deleted."""
    catalog, url = lake()
    catalog.create_table("t", SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(4)])
    tx = catalog.transaction()
    tx.delete("t", "n = 1")
    tx.overwrite("t", [{"n": 9}])
    tx.table("t").drop_column("x")
    Catalog(url, upkeep=False).table("t").update("n = 1", {"x": 5})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert [item.kind.value for item in caught.value.conflicts] == ["delete-update", "drop-write"]


def test_what_the_handle_had_read_stays_dead_when_a_commit_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is too slow reads the log and is held against it again, above what it had known before."""
    catalog, url = lake(on_conflict={"update-delete": "theirs"})
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append([{"n": n, "x": 0} for n in range(4)])
    theirs = Catalog(url, upkeep=False, on_conflict={"update-delete": "theirs"})
    late = theirs.transaction()
    late.update("t", "n = 1", {"x": 7})
    meanwhile(mine, lambda: theirs.table("t").delete("n = 1"), mine._session.refresh, late.commit)
    monkeypatch.setattr(Committing, "_is_old", lambda _: True)
    assert mine.update("n <= 1", {"x": 5}).number == 4
    assert values(mine) == {0: 5, 2: 0, 3: 0}


def test_forks_are_told_alike() -> None:
    catalog, _ = lake(on_conflict={"update-delete": "theirs"})
    catalog.create_table("t", SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(4)])
    tx = catalog.transaction(["t"])
    first, second, third = tx.fork(), tx.fork(), tx.fork()
    first.delete("t", "n = 1")
    second.update("t", "n = 1 or n = 2", {"x": 7})
    third.delete("t", "n = 1")
    tx.join(first, second, third)
    tx.commit()
    assert values(catalog.table("t")) == {0: 0, 2: 7, 3: 0}


@pytest.mark.parametrize("answer", ["both", lambda _: "both"], ids=["a word", "a function"])
def test_a_merge_may_be_answered_that_both_stand(answer: Any) -> None:
    catalog, _ = lake(on_conflict={"delete-delete": answer})
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append([{"n": n, "x": 0} for n in range(3)])
    branch = table.branch("side")
    branch.delete("n <= 1")
    table.delete("n >= 1")
    assert table.merge("side").versions == 1
    assert values(table) == {}
