"""Keyed tables in CAS mode: writers who touch the same keys are told which; all others pass each other."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Answer, Kind
from crdtcat.errors import CommitConflict
from crdtcat.maintenance.compact import CompactResult
from crdtcat.table import Table
from tests.cas.scenes import lake, meanwhile
from tests.cas.test_matrix import met
from tests.cost.places import asked

SCHEMA = pa.schema([("place", pa.string()), ("n", pa.int64()), ("x", pa.int32()), ("y", pa.int32())])


def row(n: int, x: int | None = 0, y: int | None = 0, place: str = "here") -> dict[str, Any]:
    return {"place": place, "n": n, "x": x, "y": y}


def two(**options: Any) -> tuple[Table, Table]:
    """Mine and theirs, on a table with keys 0 to 5."""
    catalog, url = lake(**options)
    mine = catalog.create_table("t", SCHEMA, mode="cas", key=["place", "n"])
    mine.upsert([row(n) for n in range(6)])
    return mine, Catalog(url, upkeep=False, **options).table("t")


def cells(table: Table) -> dict[int, tuple[int, int]]:
    return {item["n"]: (item["x"], item["y"]) for item in table.read().to_pylist()}


def some(*numbers: int, **columns: int) -> list[dict[str, Any]]:
    return [{"place": "here", "n": n, **columns} for n in numbers]


def keys(*numbers: int) -> list[tuple[str, int]]:
    return [("here", n) for n in numbers]


VERBS: dict[str, Any] = {
    "upsert": lambda table: table.upsert(some(1, 9, x=1)),
    "upsert another column": lambda table: table.upsert(some(1, 9, y=1)),
    "upsert other keys": lambda table: table.upsert(some(2, 8, x=1)),
    "delete": lambda table: table.delete(keys=keys(1, 7)),
    "update": lambda table: table.update("n = 1", {"x": 2}),
    "delete where": lambda table: table.delete("n = 1"),
    "overwrite": lambda table: table.overwrite([row(1)]),
    "write": lambda table: table.write([row(0), row(1, 5), *(row(n) for n in range(2, 6))]),
}
SETS = ("upsert", "update", "write")
UPSERTS = (*SETS, "upsert another column")
APPENDS = ("upsert", "upsert another column", "upsert other keys")
GONE = ("delete", "delete where")
ALONE: dict[tuple[str, str], str] = {
    **{(mine, theirs): "upsert-upsert" for mine in SETS for theirs in SETS},
    **{(verb, verb): "upsert-upsert" for verb in ("upsert another column", "upsert other keys")},
    **{(mine, theirs): "upsert-delete" for mine in UPSERTS for theirs in GONE},
    **{(mine, theirs): "delete-upsert" for mine in GONE for theirs in (*UPSERTS, "overwrite")},
    **{("overwrite", theirs): "overwrite-append" for theirs in (*UPSERTS, "upsert other keys")},
    ("overwrite", "overwrite"): "overwrite-overwrite",
    ("upsert other keys", "overwrite"): "append-overwrite",
    **{(mine, theirs): "delete-delete" for mine in GONE for theirs in GONE},
}
MATRIX: dict[tuple[str, str], list[str]] = {
    **{pair: [kind] for pair, kind in ALONE.items()},
    **{(mine, "overwrite"): ["update-overwrite", "upsert-upsert"] for mine in ("update", "write")},
    **{
        (mine, "overwrite"): ["append-overwrite", "upsert-upsert"]
        for mine in ("upsert", "upsert another column")
    },
}


@pytest.mark.parametrize("theirs", VERBS)
@pytest.mark.parametrize("mine", VERBS)
def test_every_pair_of_verbs(mine: str, theirs: str) -> None:
    here, there = two()
    meanwhile(here, lambda: VERBS[theirs](there))
    expected = [Kind(kind) for kind in MATRIX.get((mine, theirs), ())]
    told = [kind for kind in expected if kind.rule.default is not Answer.BOTH]
    if not told:
        done = VERBS[mine](here)
        assert done.number == 3
        assert met(here, done.id) == set(expected)
        return
    with pytest.raises(CommitConflict) as caught:
        VERBS[mine](here)
    assert [item.kind for item in caught.value.conflicts] == told
    assert len(here.history()) == 2, "nothing was committed"
    if set(told) <= {Kind.UPSERT_UPSERT, Kind.UPSERT_DELETE, Kind.DELETE_UPSERT}:
        assert {"'here', 1", "'here', 2"} & set(caught.value.conflicts[0].keys)
        assert caught.value.retry("ours").number == 3


def test_the_matrix_names_every_kind_about_keys() -> None:
    of_keys = {Kind.UPSERT_UPSERT, Kind.UPSERT_DELETE, Kind.DELETE_UPSERT}
    assert of_keys <= {Kind(kind) for kinds in MATRIX.values() for kind in kinds}


@pytest.mark.parametrize("inline_bytes", [64 * 1024, 0])
@pytest.mark.parametrize("others", [[1], [8, 9]])
@pytest.mark.parametrize(
    "verb",
    [lambda t: t.delete(keys=keys(1, 5)), lambda t: t.upsert(some(1, 5, x=3))],
    ids=["delete", "upsert"],
)
def test_keys_that_an_overwrite_of_theirs_has_are_compared_one_by_one(
    verb: Any, others: list[int], inline_bytes: int
) -> None:
    """Before, a delete took away a key that theirs had just written anew, and an upsert set its cells."""
    mine, theirs = two(inline_bytes=inline_bytes)
    meanwhile(mine, lambda: theirs.overwrite([row(n, 7, 7) for n in others]))
    if 1 not in others:
        assert verb(mine).number == 3
        return
    with pytest.raises(CommitConflict, match=r"(?m)keys 'here', 1$"):
        verb(mine)
    assert cells(mine) == {1: (7, 7)}


@pytest.mark.parametrize("answer", ["theirs", lambda _: "theirs", lambda _: [row(3, 3, 3)]])
@pytest.mark.parametrize("verb", ["update", "write"])
def test_cells_of_rows_that_theirs_overwrote_never_become_rows_by_halves(verb: str, answer: Any) -> None:
    """An update has only the cells that it sets: without the row below them they would be one with holes."""
    mine, theirs = two(on_conflict={"update-overwrite": answer})
    meanwhile(mine, lambda: theirs.overwrite([row(7)]))
    with pytest.raises(CommitConflict, match="update-overwrite"):
        VERBS[verb](mine)
    assert cells(mine) == {7: (0, 0)}


@pytest.mark.parametrize("answer", ["theirs", lambda _: "theirs"])
def test_an_overwrite_does_not_say_that_it_left_theirs_and_take_it_away(answer: Any) -> None:
    """It takes every cell that it saw: of a row that they updated meanwhile, what they had not written."""
    mine, theirs = two(on_conflict={"overwrite-append": answer})
    meanwhile(mine, lambda: theirs.upsert(some(3, x=9)))
    with pytest.raises(CommitConflict, match="overwrite-append") as caught:
        mine.overwrite([row(1)])
    assert cells(mine)[3] == (9, 0)
    assert caught.value.retry("ours").number == 3
    assert cells(mine) == {1: (0, 0)}


def test_different_columns_of_one_key_both_hold() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.upsert(some(1, y=7)))
    assert mine.upsert(some(1, x=5)).rebases == 1
    assert cells(theirs)[1] == (5, 7)


def test_the_error_names_the_keys_and_columns() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.upsert(some(1, 2, 3, x=1, y=1)))
    with pytest.raises(CommitConflict, match=r"columns x; keys 'here', 2, 'here', 3"):
        mine.upsert(some(2, 3, 4, x=5))


def test_long_keys_are_cut_where_they_are_shown() -> None:
    """A text that a person reads, and a log of errors keeps; `keys` has them whole."""
    mine, theirs = two()
    long = [{"place": "y" * 1_000_000, "n": n, "x": 1, "y": 1} for n in range(3)]
    meanwhile(mine, lambda: theirs.upsert(long))
    with pytest.raises(CommitConflict, match=r"keys 'yyy") as told:
        mine.upsert(long)
    assert len(str(told.value)) < 5_000
    assert len(repr(told.value.conflicts[0])) < 5_000
    assert [len(key) > 1_000_000 for key in told.value.conflicts[0].keys] == [True] * 3


def test_a_warm_upsert_is_one_put() -> None:
    catalog, _ = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas", key=["place", "n"])
    table.upsert(some(1, x=1, y=1))
    assert asked(catalog, lambda: table.upsert(some(2, x=1, y=1))) == {"put": 1}
    assert asked(catalog, lambda: table.delete(keys=keys(2))) == {"put": 1}
    assert cells(table) == {1: (1, 1)}


def test_a_keyed_table_is_switched_there_and_back() -> None:
    catalog, url = lake(max_commit_delay_seconds=0)
    table = catalog.create_table("t", SCHEMA, key=["place", "n"])
    table.upsert(some(1, x=1, y=1))
    stale = Catalog(url, upkeep=False).table("t")
    table.switch_mode("cas")
    stale.upsert(some(2, x=2, y=2))
    assert table.update("n = 2", {"x": 3}).number == 2
    assert cells(stale) == {1: (1, 1), 2: (3, 2)}
    assert stale.delete(keys=keys(1)).number == 3
    table.switch_mode("merge")
    table.upsert(some(3, x=0, y=0))
    assert sorted(cells(stale)) == [2, 3]


def test_transactions_over_keys() -> None:
    mine, theirs = two()
    catalog = Catalog(mine._session.store, upkeep=False)
    with catalog.transaction() as transaction:
        transaction.table("t").upsert(some(7, x=1, y=1))
        assert transaction.read("t", filter="n = 7").num_rows == 1
        theirs.upsert(some(8, x=1, y=1))
    assert sorted(cells(theirs)) == [*range(6), 7, 8]
    late = catalog.transaction()
    late.table("t").delete(keys=keys(7))
    theirs.upsert(some(7, x=2))
    with pytest.raises(CommitConflict, match="delete-upsert"):
        late.commit()


def test_threads_on_keys_of_their_own_all_commit() -> None:
    mine, _ = two()
    url, failures = mine._session.store.url, []

    def work(me: int) -> None:
        table = Catalog(url, upkeep=False).table("t")
        for turn in range(4):
            try:
                table.upsert(some(100 * me + turn, x=me, y=turn))
                table.update(f"n = {100 * me + turn}", {"x": turn})
            except CommitConflict as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = cells(mine)
    assert {n: found[n] for n in found if n >= 100} == {
        100 * me + turn: (turn, turn) for me in range(1, 7) for turn in range(4)
    }


def test_compaction_meets_nothing() -> None:
    mine, theirs = two()
    mine.upsert(some(2, x=3))
    done: list[CompactResult] = []
    meanwhile(mine, lambda: done.append(theirs.compact()))
    assert mine.upsert(some(1, x=5)).rebases == 0
    assert [result.versions for result in done] == [1]
    assert (cells(theirs)[1], cells(theirs)[2]) == ((5, 0), (3, 0))
