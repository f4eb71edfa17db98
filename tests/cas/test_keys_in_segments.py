"""Keys of rows in segments: read where ranges meet, and only there, so that conflicts are exact."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas import key_reading
from crdtcat.conflicts.keys import KEYS_NAMED_MAX, KeyPart
from crdtcat.errors import CommitConflict, Corrupt, StoreUnavailable
from tests.cas.scenes import lake, meanwhile
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
TYPES = [
    pa.int32(), pa.string(), pa.large_binary(), pa.decimal128(30, 2), pa.timestamp("us", "UTC"), pa.bool_()
]  # fmt: skip


def two(schema: pa.Schema = SCHEMA, **options: Any) -> tuple[Table, Table]:
    catalog, url = lake(**options)
    mine = catalog.create_table("t", schema, mode="cas", key=["n"])
    theirs = Catalog(url, **{"upkeep": False, **options}).table("t")
    mine.add_column("z", pa.int64())
    theirs.head()
    return mine, theirs


def rows(*numbers: int, x: int = 0) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "x": pa.array([x] * len(numbers), pa.int64())})


def error_of(call: Callable[[], Any]) -> CommitConflict:
    with pytest.raises(CommitConflict) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(("here", "there"), [(0, 0), (0, 65536), (65536, 0)])
def test_keys_between_each_other_pass_and_common_ones_are_named(here: int, there: int) -> None:
    mine, _ = two(inline_bytes=here)
    theirs = Catalog(mine._session.store.url, upkeep=False, inline_bytes=there).table("t")
    meanwhile(mine, lambda: theirs.upsert(rows(1, 3, 5)))
    assert mine.upsert(rows(0, 2, 4)).rebases == 1
    theirs.head()
    meanwhile(mine, lambda: theirs.upsert(rows(1, 2, 5, 8, x=7)))
    error = error_of(lambda: mine.upsert(rows(0, 2, 4, 8, x=9)))
    (found,) = error.conflicts
    assert (found.keys, found.key_values) == (("2", "8"), ((2,), (8,)))
    (sides,) = error.sides
    assert [table["x"].to_pylist() for table in (sides.mine, sides.theirs)] == [[9, 9], [7, 7]]
    meanwhile(mine, lambda: theirs.delete(keys=[1, 5]))
    assert mine.upsert(rows(2, 4)).rebases == 1
    theirs.head()
    meanwhile(mine, lambda: theirs.delete(keys=[3, 5]))
    assert [item.keys for item in error_of(lambda: mine.upsert(rows(2, 5, 7))).conflicts] == [("5",)]


def test_many_keys_of_two_writers_pass_each_other() -> None:
    mine, theirs = two()
    chance = np.random.default_rng(0)
    even, odd = (
        pa.table({"n": np.arange(first, 100_000, 2), "x": chance.integers(0, 1 << 60, 50_000)})
        for first in (0, 1)
    )
    meanwhile(mine, lambda: theirs.upsert(odd))
    assert mine.upsert(even).rebases == 1
    assert mine.read().num_rows == 100_000


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_keys_of_every_kind(type: pa.DataType) -> None:
    def made(*numbers: int) -> pa.Table:
        keys = pa.array(numbers, pa.int64())
        keys = keys.cast(pa.string()) if type == pa.large_binary() else keys
        return pa.table({"n": keys.cast(type), "x": pa.array([0] * len(numbers))})

    mine, theirs = two(pa.schema([("n", type), ("x", pa.int64())]), inline_bytes=0)
    if type != pa.bool_():
        meanwhile(mine, lambda: theirs.upsert(made(1, 3)))
        assert mine.upsert(made(0, 2, 4)).rebases == 1
    meanwhile(mine, lambda: theirs.upsert(made(0, 1)))
    (found,) = error_of(lambda: mine.upsert(made(1))).conflicts
    assert len(found.key_values) == 1


def test_nothing_is_read_where_ranges_are_apart_or_both_delete() -> None:
    mine, theirs = two(inline_bytes=0)
    catalog = Catalog(mine._session.store, upkeep=False)
    meanwhile(mine, lambda: theirs.upsert(rows(1, 3, 5)))
    # A segment; a try, a look, a try.
    assert asked(catalog, lambda: mine.upsert(rows(6, 8))) == {"put": 3, "get": 1}
    meanwhile(mine, lambda: theirs.delete(keys=[1, 5]))
    # A look first, since somebody was about; a list, since somebody came.
    assert asked(catalog, lambda: mine.delete(keys=[0, 3])) == {"put": 2, "get": 1, "list": 1}


def test_where_they_meet_key_columns_are_read_of_both() -> None:
    mine, theirs = two(inline_bytes=0)
    catalog = Catalog(mine._session.store, upkeep=False)
    meanwhile(mine, lambda: theirs.upsert(rows(1, 3, 5)))
    # Beside a try, a look and a try: of either segment the footer and the keys.
    assert asked(catalog, lambda: mine.upsert(rows(2, 4))) == {"put": 3, "get": 5}
    meanwhile(mine, lambda: theirs.upsert(rows(11, 15)), lambda: theirs.upsert(rows(13, 17)))
    # Both claims, one by a look and one by a list; of mine once.
    assert asked(catalog, lambda: mine.upsert(rows(12, 14))) == {"put": 2, "get": 2 + 3 * 2, "list": 1}


def test_above_the_limit_ranges_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_reading, "KEY_ROWS_MAX", 4)
    mine, theirs = two(inline_bytes=0)
    meanwhile(mine, lambda: theirs.upsert(rows(1, 3)))
    assert mine.upsert(rows(2, 4)).rebases == 1
    meanwhile(mine, lambda: theirs.upsert(rows(11, 13, 15)))
    error = error_of(lambda: mine.upsert(rows(12, 14)))
    assert error.conflicts[0].keys == ("a range",)
    assert error.sides[0].theirs is None
    assert not error.exact
    assert "not exact, there may be none (5 keys to be compared, at most 4 are" in str(error)
    assert not pickle.loads(pickle.dumps(error)).exact


def lost(table: Table, keep: int = 0) -> list[str]:
    """Delete all segments but the first few that are there; their names."""
    store = table._session.store
    items = [item for folder in store.folders("data/") for item in store.list(f"data/{folder}/")]
    names = [item.name for item in sorted(items, key=lambda item: item.modified_ms)][keep:]
    store.delete(names)
    return names


def test_a_segment_that_is_not_there_leaves_its_range_and_is_named() -> None:
    mine, theirs = two(inline_bytes=0)
    gone: list[str] = []

    def lose() -> None:
        theirs.upsert(rows(1, 3))
        gone.extend(lost(theirs))

    meanwhile(mine, lose)
    error = error_of(lambda: mine.upsert(rows(0, 2)))
    assert [item.keys for item in error.conflicts] == [("2",)], "what of mine may be in its range"
    assert (len(gone), error.complete, error.exact) == (1, True, False)
    assert gone[0] in error.conflicts[0].doubt
    assert gone[0] in str(error)
    error.retry("ours")
    theirs.head()
    meanwhile(mine, lambda: theirs.upsert(rows(1, 3)))
    error = error_of(lambda: mine.upsert(rows(1, 2)))
    assert (error.exact, error.conflicts[0].doubt) == (True, "")


def test_segments_that_are_there_are_compared_exactly_beside_one_that_is_not() -> None:
    mine, theirs = two(inline_bytes=0)
    tx = Catalog(theirs._session.store, upkeep=False, inline_bytes=0).transaction(["t"])
    tx.upsert("t", rows(1, 3))
    tx.upsert("t", rows(11, 13))

    def lose() -> None:
        tx.commit()
        assert len(lost(theirs, keep=1)) == 1

    meanwhile(mine, lose)
    (found,) = error_of(lambda: mine.upsert(rows(0, 2, 12))).conflicts
    assert (found.keys, found.exact) == (("12",), False)


def test_a_segment_of_mine_that_is_not_there_is_an_error_and_nothing_is_committed() -> None:
    mine, theirs = two(inline_bytes=0)
    tx = Catalog(mine._session.store, upkeep=False, inline_bytes=0, on_conflict="ours").transaction(["t"])
    tx.upsert("t", rows(0, 2))
    (name,) = lost(mine)
    theirs.upsert(rows(1, 3))
    with pytest.raises(Corrupt) as caught:
        tx.commit()
    assert caught.value.name == name
    assert (tx.status, mine.read()["n"].to_pylist()) == ("aborted", [1, 3])


def test_keys_of_expired_commits_are_ranges_without_ends() -> None:
    here, there = (
        KeyPart(gone=False, columns=frozenset(), low=None, high=None, exact=exact)
        for exact in (None, (pa.array([1]),))
    )
    assert here.common(there) == ((1,),)
    assert here.doubt(there) == "only ranges of keys are known"
    other = replace(there, exact=(pa.array(["1"]),))
    assert (there.common(other), there.doubt(other)) == (None, "the keys are of different types")
    assert there.doubt(there) == ""


def test_a_store_that_gives_no_answer_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = two(inline_bytes=0)

    def away(*args: Any, **options: Any) -> Any:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(key_reading, "read_chunks", away)
    meanwhile(mine, lambda: theirs.upsert(rows(1, 3)))
    with pytest.raises(StoreUnavailable):
        mine.upsert(rows(0, 2))
    monkeypatch.undo()
    assert mine.upsert(rows(0, 2)).number == 3, "nothing was committed"


def test_more_keys_than_are_named() -> None:
    mine, theirs = two()
    many = range(KEYS_NAMED_MAX + 500)
    meanwhile(mine, lambda: theirs.upsert(rows(*many)))
    error = error_of(lambda: mine.upsert(rows(*many)))
    (found,) = error.conflicts
    assert len(found.keys) == KEYS_NAMED_MAX + 1
    assert found.keys[-1] == "..."
    assert found.key_values == ()
    assert error.sides[0].mine is None
    assert len(str(error)) < 1000
    meanwhile(mine, lambda: theirs.upsert(rows(*many[:KEYS_NAMED_MAX])))
    (sides,) = error_of(lambda: mine.upsert(rows(*many))).sides
    assert sides.theirs.num_rows == KEYS_NAMED_MAX


def test_transactions_and_merges_are_exact_too() -> None:
    mine, theirs = two(inline_bytes=0)
    side = mine.branch("b")
    side.upsert(rows(0, 2))
    with Catalog(mine._session.store, upkeep=False, inline_bytes=0).transaction(["t"]) as tx:
        tx.upsert("t", rows(10, 14))
        tx.upsert("t", rows(20, 24))
        theirs.upsert(rows(1, 11, 21))
    assert mine.merge("b").versions == 1
    assert mine.read().num_rows == 9
    side.upsert(rows(30, 32))
    theirs.upsert(rows(31, 32))
    assert error_of(lambda: mine.merge("b")).conflicts[0].keys == ("32",)


def test_what_a_checkpoint_has_moved_into_a_segment_is_read_there() -> None:
    mine, theirs = two()
    tx = Catalog(mine._session.store.url, upkeep=False).transaction(["t"])
    tx.upsert("t", rows(0, 2))
    theirs.upsert(rows(1, 3))
    theirs.checkpoint()
    tx.commit()
    assert mine.read().num_rows == 4
