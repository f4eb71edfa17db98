"""Answers to conflicts of transactions: they are committed as answered, in all tables, or not at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.cas.sides import Sides
from crdtcat.conflicts import Answer, Kind
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.table import Table
from tests.cas.scenes import DAYS, SCHEMA, lake, meanwhile, rows, values
from tests.cas.test_matrix import FOUND, VERBS

ANSWERS = ("ours", "theirs")


def two_tables(**options: Any) -> tuple[Catalog, Catalog]:
    """Mine and theirs, on tables a and b of three days with rows 0 to 8, three to a day."""
    catalog, url = lake(**options)
    for name in ("a", "b"):
        table = catalog.create_table(name, SCHEMA, mode="cas", partition_by=["day"])
        table.append([row for at, day in enumerate(DAYS) for row in rows(day, *range(3 * at, 3 * at + 3))])
    return catalog, Catalog(url, upkeep=False)


def shown(table: Table) -> Any:
    head = table.head()
    columns = sorted(head.schema.names)
    content = sorted(str([row[name] for name in columns]) for row in table.read().to_pylist())
    return content, columns, [str(head.schema.field(name).type) for name in columns], dict(head.properties)


def test_a_transaction_prevails_or_yields_where_it_stands_as_it_is() -> None:
    mine, theirs = two_tables(on_conflict={"update-update": "ours", "update-delete": "theirs"})
    with mine.transaction(["a", "b"]) as tx:
        tx.update("a", "n <= 1", {"x": 5})
        tx.update("b", "n = 1", {"x": 5})
        theirs.table("a").update("n = 0", {"x": 1})
        theirs.table("a").delete("n = 1")
        theirs.table("b").update("n = 1", {"x": 1})
    assert values(theirs.table("a"))[:2] == [(0, 5), (2, 0)]
    assert values(theirs.table("b"))[:2] == [(0, 0), (1, 5)]
    assert tx.versions["a"][-1].rebases == 2
    assert [item.kind for item in theirs.table("a").conflicts()] == ["deleted"], "what it set there is listed"


@pytest.mark.parametrize("answer", [{"update-update": lambda _: "fail"}, {"update-delete": "theirs"}, None])
def test_a_conflict_that_is_not_answered_fails_as_a_whole(answer: Any) -> None:
    mine, theirs = two_tables(on_conflict=answer)
    tx = mine.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    theirs.table("b").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert [item.kind for item in caught.value.conflicts] == [Kind.UPDATE_UPDATE]
    assert (values(theirs.table("a"))[1], values(theirs.table("b"))[1]) == ((1, 0), (1, 1))


@pytest.mark.parametrize("inline_bytes", [0, 1 << 16])
@pytest.mark.parametrize(
    ("answer", "left"),
    [("ours", 6), ("theirs", 1), (lambda sides: sides.theirs, 1), (lambda _: {"x": [77]}, 77)],
)
def test_cells_that_several_of_its_versions_set_become_what_is_answered(
    answer: Any, left: int, inline_bytes: int
) -> None:
    mine, theirs = two_tables(inline_bytes=inline_bytes)
    tx = mine.transaction(["a", "b"])
    tx.append("a", rows("mo", 70))
    tx.update("a", "n = 1 or n = 2 or n = 70", {"x": 5})  # its own row, too
    tx.update("a", "n <= 1 or n = 70", {"x": 6})
    tx.delete("a", "n = 2")
    tx.update("b", "n = 1", {"x": 5})
    theirs.table("a").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert [item.kind for item in caught.value.conflicts] == [Kind.UPDATE_UPDATE]  # of both, told once
    caught.value.retry({"update-update": answer})
    assert values(theirs.table("a"))[:3] == [(0, 6), (1, left), (3, 0)]
    assert values(theirs.table("a"))[-1] == (70, 6)
    assert values(theirs.table("b"))[1] == (1, 5)
    assert theirs.table("a").verify("content").ok


def test_single_versions_of_several_are_patched() -> None:
    mine, theirs = two_tables()
    tx = mine.transaction(["a"])
    tx.append("a", rows("mo", 70))
    tx.delete("a", "n <= 1 or n = 70")
    tx.table("a").set_properties(p=1, q=1)
    tx.overwrite("a", rows("tu", 71), where="day = 'tu'")
    theirs.table("a").update("n = 1", {"x": 1})
    theirs.table("a").set_properties(p=2)
    theirs.table("a").append(rows("tu", 80))
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    caught.value.retry({"delete-update": "theirs", "property-property": "theirs", "overwrite-append": "ours"})
    found = theirs.table("a")
    assert values(found) == [(1, 1), (2, 0), (6, 0), (7, 0), (8, 0), (71, 0)]
    assert dict(found.head().properties) == {"p": 2, "q": 1}


def test_what_others_of_its_versions_may_rest_on_is_not_made_another() -> None:
    """A column that would not be defined, or not be dropped; rows that it would have besides; cells that are
    set along with those of a column of its own."""

    def adding(table: Any) -> None:
        table.add_column("w", pa.int64())
        table.update("n = 3", {"w": 1})

    def dropping(table: Any) -> None:
        table.drop_column("x")
        table.update("n = 3", {"n": 100})

    def setting(table: Any) -> None:
        table.add_column("w", pa.int64())
        table.update("n = 3", {"w": 1, "x": 1})

    def deleting(table: Any) -> None:
        table.delete("n = 3")
        table.append(rows("mo", 70))

    scenes: list[tuple[Any, Any, Any]] = [
        (adding, lambda table: table.add_column("w", pa.string()), "theirs"),
        (dropping, lambda table: table.update("n = 1", {"x": 1}), "theirs"),
        (setting, lambda table: table.update("n = 3", {"x": 2}), "theirs"),
        (deleting, lambda table: table.update("n = 3", {"x": 2}), {"delete-update": lambda it: it.theirs}),
    ]
    for change, theirs_change, answer in scenes:
        mine, theirs = two_tables()
        tx = mine.transaction(["a"])
        change(tx.table("a"))
        theirs_change(theirs.table("a"))
        before = shown(theirs.table("a"))
        with pytest.raises(CommitConflict) as caught:
            tx.commit()
        with pytest.raises(CommitConflict) as again:
            caught.value.retry(answer)
        assert shown(theirs.table("a")) == before
        if answer == "theirs":
            continue
        again.value.retry({"delete-update": "ours"})
        assert (3, 2) not in values(theirs.table("a"))


def test_rows_are_added_where_one_version_is_all_there_is() -> None:
    mine, theirs = two_tables(on_conflict={"update-delete": lambda sides: sides.mine})
    with mine.transaction(["a", "b"]) as tx:
        tx.update("a", "n <= 1", {"x": 5})
        tx.append("b", rows("mo", 70))
        theirs.table("a").delete("n = 1")
    assert values(theirs.table("a"))[:3] == [(0, 5), (1, 5), (2, 0)]
    assert theirs.table("b").scan().count() == 10


def test_a_function_is_asked_with_both_sides() -> None:
    asked: list[tuple[str, Any, Any]] = []

    def larger(sides: Sides) -> str:
        assert sides.mine is not None
        assert sides.theirs is not None
        asked.append((sides.kind, sides.mine["x"].to_pylist(), sides.theirs["x"].to_pylist()))
        return "ours" if sides.mine["x"][0].as_py() > sides.theirs["x"][0].as_py() else "fail"

    mine, theirs = two_tables(on_conflict={"update-update": larger})
    for value, wins in ((5, True), (1, False)):
        tx = mine.transaction(["a", "b"])
        tx.update("a", "n = 1", {"x": value})
        tx.update("b", "n = 1", {"x": value})
        theirs.table("a").update("n = 1", {"x": 3})
        if wins:
            tx.commit()
        else:
            with pytest.raises(CommitConflict):
                tx.commit()
    assert asked == [("update-update", [5], [3]), ("update-update", [1], [3])]
    assert (values(theirs.table("a"))[1], values(theirs.table("b"))[1]) == ((1, 3), (1, 5))
    wrong, _ = two_tables(on_conflict={"update-update": lambda _: "perhaps"})
    tx = wrong.transaction(["a"])
    tx.update("a", "n = 1", {"x": 5})
    wrong.table("a").update("n = 1", {"x": 3})
    with pytest.raises(InvalidArgument, match="none of"):
        tx.commit()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(("mine", "theirs"), list(FOUND))
def test_it_becomes_what_a_single_commit_would_be(mine: str, theirs: str, answer: str) -> None:
    kinds = {kind for kind in FOUND[mine, theirs] if kind.rule.default is Answer.FAIL}
    if not kinds or not all(Answer(answer) in kind.rule.allowed for kind in kinds):
        return
    here, there = two_tables(on_conflict=answer)
    alone, beside = two_tables(on_conflict=answer)
    tx = here.transaction(["a", "b"])
    VERBS[mine](tx.table("a"))  # type: ignore[arg-type]
    tx.append("b", rows("mo", 77))
    VERBS[theirs](there.table("a"))
    meanwhile(alone.table("a"), lambda: VERBS[theirs](beside.table("a")))
    try:
        VERBS[mine](alone.table("a"))
    except CommitConflict:
        with pytest.raises(CommitConflict):
            tx.commit()
        return
    tx.commit()
    assert shown(there.table("a")) == shown(beside.table("a"))
    assert there.table("b").scan().count() == 10
