"""What an error tells: all conflicts, of all tables and all commits that came between, grouped, in full."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas import telling
from crdtcat.cas.sides import Sides
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict, StoreUnavailable
from crdtcat.protocol import Reader
from tests.cas.scenes import meanwhile, rows, two
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def error_of(call: Callable[[], Any]) -> CommitConflict:
    with pytest.raises(CommitConflict) as caught:
        call()
    return caught.value


def three(mine: Table, theirs: Table) -> None:
    """Let three commits come between that are in the way, and one that is not."""
    meanwhile(
        mine,
        lambda: theirs.update("n = 0", {"x": 2}),
        lambda: theirs.update("n = 1", {"x": 4}),
        lambda: theirs.append(rows("mo", 50)),
        lambda: theirs.delete("n = 2"),
    )


def listed(error: CommitConflict) -> dict[str, list[tuple[Kind, int]]]:
    return {table: [(item.kind, item.number) for item in found] for table, found in error.by_table.items()}


def test_every_commit_that_came_between_is_told_with_its_rows() -> None:
    mine, theirs = two()
    three(mine, theirs)
    error = error_of(lambda: mine.update("n <= 2", {"x": 9}))
    assert listed(error) == {"t": [(Kind.UPDATE_UPDATE, 2), (Kind.UPDATE_UPDATE, 3), (Kind.UPDATE_DELETE, 5)]}
    assert error.complete
    assert [item.rows.total for item in error.conflicts] == [1, 1, 1]
    assert [sides.theirs and sides.theirs["x"].to_pylist() for sides in error.sides] == [[2], [4], None]
    assert [sides.mine["x"].to_pylist() for sides in error.sides] == [[9], [9], [9]]
    assert [sides.overlap for sides in error.sides] == list(error.conflicts)
    assert str(error).count("\n") == 3 + 2  # and what may be said of each kind
    done = error.retry({"update-update": "ours", "update-delete": "theirs"})
    assert (done.number, done.rebases) == (6, 1)


@pytest.mark.parametrize("is_known", [False, True], ids=["met", "read before"])
def test_every_version_of_a_transaction_is_in_the_way_under_its_number(*, is_known: bool) -> None:
    """The last of its versions has the number; the one before it was told as number 0."""
    mine, theirs = two()
    catalog = Catalog(theirs._session.store.url, upkeep=False)

    def both() -> None:
        with catalog.transaction() as transaction:
            transaction.update("t", "n = 1", {"x": 2})
            transaction.update("t", "n = 2", {"x": 4})
        if is_known:
            mine._session.refresh()

    meanwhile(mine, both)
    error = error_of(lambda: mine.update("n = 1", {"x": 9}))
    assert listed(error) == {"t": [(Kind.UPDATE_UPDATE, 2)]}
    assert "(number 2)" in str(error)
    assert [sides.theirs["x"].to_pylist() for sides in error.sides] == [[2]]


def test_what_was_read_and_a_version_of_a_transaction_changed_is_told_under_its_number() -> None:
    mine, theirs = two(isolation="serializable")
    catalog = Catalog(theirs._session.store.url, upkeep=False)
    mine.read(filter="n = 1")
    with catalog.transaction() as transaction:
        transaction.update("t", "n = 1", {"x": 2})
        transaction.update("t", "n = 2", {"x": 4})
    error = error_of(lambda: mine.append(rows("mo", 50)))
    assert listed(error) == {"t": [(Kind.READ_WRITE, 2)]}


def test_the_error_is_pickled_and_prints_what_it_holds() -> None:
    mine, theirs = two()
    three(mine, theirs)
    error = error_of(lambda: mine.update("n <= 2", {"x": 9}))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (listed(copy), copy.complete, copy.sides) == (listed(error), True, ())
    assert [list(item.rows) for item in copy.conflicts] == [list(item.rows) for item in error.conflicts]


def test_conflicts_of_several_tables_are_grouped() -> None:
    url = f"memory://told-{secrets.token_hex(6)}"
    catalog, other = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
    for name in ("a", "b", "c"):
        catalog.create_table(name, SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(3)])
    tx = catalog.transaction(["a", "b", "c"])
    for name in ("a", "b", "c"):
        tx.update(name, "n <= 1", {"x": 1})
    other.table("a").update("n = 0", {"x": 2})
    other.table("a").delete("n = 1")
    other.table("b").append([{"n": 9, "x": 9}])
    other.table("c").update("n = 1", {"x": 3})
    error = error_of(tx.commit)
    assert listed(error) == {
        "a": [(Kind.UPDATE_UPDATE, 2), (Kind.UPDATE_DELETE, 3)],
        "c": [(Kind.UPDATE_UPDATE, 2)],
    }
    assert error.complete
    assert [sides.base["x"].to_pylist() for sides in error.sides] == [[0], [0], [0]]
    assert [sides.overlap.table for sides in error.sides] == ["a", "a", "c"]
    assert "tables 'a', 'c': other commits touched the same" in str(error)
    assert "\n  table 'c':\n  update-update" in str(error)
    error.retry({"update-update": "ours", "update-delete": "theirs"})
    assert tx.committed


def test_what_a_serializable_transaction_had_read_of_several_tables_is_told() -> None:
    url = f"memory://told-{secrets.token_hex(6)}"
    catalog, other = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode="cas").append([{"n": 0, "x": 0}])
    for writes in (True, False):
        tx = catalog.transaction(["a", "b"], isolation="serializable")
        for name in ("a", "b"):
            tx.read(name)
        if writes:
            tx.append("b", [{"n": 1, "x": 1}])
        first = other.table("a").head().version + 1
        for _ in range(2):
            other.table("a").append([{"n": 2, "x": 2}])
        other.table("b").append([{"n": 2, "x": 2}])
        found = listed(error_of(tx.commit))
        assert found["a"] == [(Kind.READ_WRITE, first), (Kind.READ_WRITE, first + 1)]
        assert [kind for kind, _ in found["b"]] == [Kind.READ_WRITE]


def test_a_merge_tells_of_every_commit_of_its_target() -> None:
    mine, theirs = two()
    side = mine.branch("b")
    side.update("n <= 2", {"x": 9})
    theirs.update("n = 0", {"x": 2})
    theirs.update("n = 1", {"x": 4})
    error = error_of(lambda: mine.merge("b"))
    assert listed(error) == {"t": [(Kind.UPDATE_UPDATE, 2), (Kind.UPDATE_UPDATE, 3)]}
    error.retry("ours")
    assert sorted(mine.read(filter="n <= 2")["x"].to_pylist()) == [9, 9, 9]


def test_a_branch_is_named_with_its_table() -> None:
    mine, theirs = two()
    mine.branch("b")
    here, there = (Catalog(t._session.store.url, upkeep=False).table("t", "b") for t in (mine, theirs))
    three(here, there)
    assert list(error_of(lambda: here.update("n <= 2", {"x": 9})).by_table) == ["t@b"]


def test_partitions_are_told_by_their_values() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.overwrite(rows("tu", 30), where="day = 'tu'"))
    error = error_of(lambda: mine.overwrite(rows("mo", 40)))
    assert error.conflicts[0].partition_values == (("tu",),)
    assert "1 partitions: ('tu',)" in str(error)


def test_resolvers_are_asked_about_the_first_and_words_settle_the_rest() -> None:
    seen: list[str] = []

    def fail(sides: Sides) -> str:
        seen.append(sides.overlap.table)
        return "fail"

    mine, theirs = two(on_conflict=fail)
    three(mine, theirs)
    assert len(error_of(lambda: mine.update("n <= 2", {"x": 9})).conflicts) == 3
    assert seen == ["t"]
    mine, theirs = two(on_conflict={"update-delete": "theirs"})
    three(mine, theirs)
    error = error_of(lambda: mine.update("n <= 2", {"x": 9}))
    assert listed(error) == {"t": [(Kind.UPDATE_UPDATE, 2), (Kind.UPDATE_UPDATE, 3)]}


def test_more_than_the_limit_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "CONFLICTS_MAX", 2)
    mine, theirs = two()
    three(mine, theirs)
    error = error_of(lambda: mine.update("n <= 2", {"x": 9}))
    assert listed(error) == {"t": [(Kind.UPDATE_UPDATE, 2), (Kind.UPDATE_UPDATE, 3)]}
    assert not error.complete
    assert not pickle.loads(pickle.dumps(error)).complete


def test_long_lists_are_printed_in_part() -> None:
    mine, theirs = two()
    meanwhile(mine, *(lambda: theirs.update("n = 0", {"x": 2}) for _ in range(12)))
    error = error_of(lambda: mine.update("n <= 2", {"x": 9}))
    assert len(error.conflicts) == 12
    *_, more, words = str(error).split("\n")
    assert more.strip() == "... and 2 more"
    assert words.strip() == "update-update may be answered ours, theirs, or by a function"


def test_where_the_rest_cannot_be_read_the_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = two()
    three(mine, theirs)
    session, refresh = mine._session, mine._session.refresh

    def broken() -> Reader[Any]:
        raise StoreUnavailable("gone")

    commit = session.commit

    def later(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(session, "refresh", broken)
        return commit(*args, **options)

    monkeypatch.setattr(session, "commit", later)
    error = error_of(lambda: mine.update("n <= 2", {"x": 9}))
    monkeypatch.setattr(session, "refresh", refresh)
    assert listed(error) == {"t": [(Kind.UPDATE_UPDATE, 2)]}
    assert not error.complete


def test_it_costs_a_refresh() -> None:
    mine, theirs = two()
    three(mine, theirs)

    def refused() -> None:
        error_of(lambda: mine.update("n <= 2", {"x": 9}))

    requests = asked(Catalog(mine._session.store, upkeep=False), refused)
    # The head of the update is a list, after a look for the mark; then a try and a look; then a list, and
    # what came after that one.
    assert requests == {"list": 2, "put": 1, "get": 1 + 4}


def test_what_several_versions_of_mine_meet_is_told_once() -> None:
    url = f"memory://told-{secrets.token_hex(6)}"
    catalog, other = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
    catalog.create_table("a", SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(3)])
    tx = catalog.transaction(["a"])
    tx.update("a", "n = 2", {"x": 1})
    tx.update("a", "n <= 1", {"x": 1})
    tx.update("a", "n <= 1", {"x": 3})
    tx.update("a", "n = 1", {"x": 4})
    other.table("a").update("n <= 1", {"x": 2})
    other.table("a").update("n = 1", {"x": 5})
    error = error_of(tx.commit)
    # The first two of mine meet the first of theirs in both rows, the third in one of them.
    assert [(item.number, item.rows.total) for item in error.conflicts] == [(2, 2), (2, 1), (3, 1)]
    assert [sides.overlap for sides in error.sides] == list(error.conflicts)
    error.retry("ours")
    assert catalog.read("a")["x"].to_pylist() == [3, 4, 1]
