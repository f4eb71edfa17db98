"""Answers to conflicts of transactions: they are committed as they are, in all tables, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Answer, Kind
from crdtcat.conflicts.resolve import stands_as_it_is
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.sides import Sides
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


@pytest.mark.parametrize(
    "answer",
    [
        {"update-update": "theirs"},
        {"update-update": lambda sides: sides.theirs},
        {"update-update": lambda _: "fail"},
        None,
    ],
)
def test_answers_that_would_make_it_another_one_fail_as_a_whole(answer: Any) -> None:
    mine, theirs = two_tables(on_conflict=answer)
    tx = mine.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    theirs.table("b").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert [item.kind for item in caught.value.conflicts] == [Kind.UPDATE_UPDATE]
    assert (values(theirs.table("a"))[1], values(theirs.table("b"))[1]) == ((1, 0), (1, 1))


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
def test_what_stands_as_it_is_is_what_a_single_commit_would_be(mine: str, theirs: str, answer: str) -> None:
    kinds = {kind for kind in FOUND[mine, theirs] if kind.rule.default is Answer.FAIL}
    if not kinds or not all(Answer(answer) in kind.rule.allowed for kind in kinds):
        return
    here, there = two_tables(on_conflict=answer)
    tx = here.transaction(["a", "b"])
    VERBS[mine](tx.table("a"))  # type: ignore[arg-type]
    tx.append("b", rows("mo", 77))
    VERBS[theirs](there.table("a"))
    if not all(stands_as_it_is(kind, Answer(answer)) for kind in kinds):
        before = shown(there.table("a"))
        with pytest.raises(CommitConflict):
            tx.commit()
        assert shown(there.table("a")) == before
        assert there.table("b").scan().count() == 9
        return
    tx.commit()
    alone, beside = two_tables(on_conflict=answer)
    meanwhile(alone.table("a"), lambda: VERBS[theirs](beside.table("a")))
    VERBS[mine](alone.table("a"))
    assert shown(there.table("a")) == shown(beside.table("a"))
    assert there.table("b").scan().count() == 10
