"""Clustering changes the order of rows and nothing else, beside whatever else is going on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument
from crdtcat.head import Head
from crdtcat.head.places import Placed, Places
from crdtcat.intervals.runs import expand
from crdtcat.maintenance import Progress, rewrite
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, refused
from tests.rows.identity import cells_by_row, without_rewriting
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def content(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.read().to_pylist()
    return found


def ids(table: Table) -> list[int]:
    found: list[int] = table.read()["id"].to_pylist()
    return found


def shuffled(catalog: Catalog | None = None, **settings: Any) -> Table:
    """40 numbers in no order, a chunk for every eight, and some of them twice."""
    table = (catalog or lake()).create_table("t", SCHEMA, **settings)
    for part in np.split(np.random.default_rng(1).permutation(40), 5):
        table.append([{"id": number - (number % 7 == 1), "v": str(number)} for number in part.tolist()])
    return table


def test_rows_are_in_order_and_the_same_rows() -> None:
    table = shuffled()
    table.update("id in (3, 11)", {"v": "new"})
    table.delete("id in (5, 20)")
    before, was, snapshot = cells_by_row(table.head(), table), content(table), str(table.head().snapshot)
    result = table.compact(cluster_by=["id"], rows=10)
    assert ids(table) == sorted(row["id"] for row in was)
    assert cells_by_row(table.head(), table) == before
    assert (result.cells_folded, result.rows_left_out, result.cluster_by) == (2, 2, ("id",))
    assert "by id" in str(result)
    assert [version.operation for version in table.history()][-1] == "cluster"
    assert len(table.head().chunks) == 4
    assert table.read(at=snapshot).to_pylist() == was
    assert list(table.changes(snapshot).tables()) == []
    assert table.verify("content").ok
    assert table.conflicts() == ()
    assert table.stats().rows == len(was)


def test_a_second_call_does_nothing() -> None:
    table = shuffled()
    table.compact(cluster_by=["id"], rows=10)
    head = table.head()
    again = table.compact(cluster_by=["id"], rows=10)
    assert again.versions == 0
    assert "nothing to cluster by id" in str(again)
    assert table.head().root_hash == head.root_hash
    assert table.compact(rows=10).versions == 0


def test_rows_that_were_appended_in_order_stay_where_they_are() -> None:
    table = lake().create_table("t", SCHEMA)
    for number in range(5):
        table.append([{"id": 10 * number + at, "v": ""} for at in range(10)])
    assert table.compact(cluster_by=["id"], rows=10).versions == 0
    assert "cluster" not in [version.operation for version in table.history()]


def test_what_is_in_order_at_the_beginning_is_not_written_again() -> None:
    table = shuffled()
    table.compact(cluster_by=["id"], rows=10)
    first = [chunk.hash for chunk in table.head().chunks]
    table.append([{"id": 25, "v": "late"}, {"id": 90, "v": "end"}])
    assert ids(table)[-2:] == [25, 90]  # later rows come behind
    result = table.compact(cluster_by=["id"], rows=10)
    assert ids(table) == sorted(ids(table))
    assert [chunk.hash for chunk in table.head().chunks][:2] == first[:2]
    assert result.rows < len(ids(table)) - 19


def test_by_several_columns_and_then_by_others() -> None:
    table = lake().create_table("t", pa.schema([("a", pa.int64()), ("b", pa.string()), ("n", pa.int64())]))
    for at in range(6):
        table.append([{"a": (at * n) % 3, "b": "xyz"[(n + at) % 3] * 70, "n": 10 * at + n} for n in range(9)])
    for by in (["a", "b", "n"], ["b", "n"], ["n"]):
        result = table.compact(cluster_by=by, rows=7)
        rows = content(table)
        keys = [[row[name] for name in by] for row in rows]
        assert keys == sorted(keys)
        assert result.versions
        assert table.compact(cluster_by=by, rows=7).versions == 0


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2.5, None, float("nan"), -1.0, float("-inf"), float("nan"), 0.0] * 5),
        pa.array([b"b", b"", None, b"a" * 70 + b"2", b"a" * 70 + b"1", b"\xff"] * 5),
        pa.array(["é", "z", None, "a" * 100, "a" * 99 + "b"] * 5).dictionary_encode(),
        pa.array([True, None, False] * 9),
        pa.array([1, 300, None, 2**63, 5] * 5, pa.uint64()),
        pa.array([5, None, 1] * 9, pa.timestamp("s", "Europe/Paris")),
        pa.array([5, None, 1] * 9, pa.decimal128(20, 3)),
        pa.array(np.array([2.0, -1.0, 7.5, 0.0] * 6, np.float16)),
        pa.array(["b", None, "a"] * 8, pa.string_view()),
        pa.nulls(12, pa.int32()),
    ],
    ids=lambda values: str(values.type),
)
def test_every_type_that_has_an_order(values: pa.Array) -> None:
    table = lake().create_table("t", pa.schema([("k", values.type), ("n", pa.int64())]))
    rows = pa.table({"k": values, "n": range(len(values))})
    for at in range(0, len(values), 4):
        table.append(rows.slice(at, 4))
    table.compact(cluster_by=["k"], rows=5)
    expected = sorted(rows.to_pylist(), key=lambda row: _rank(row["k"]))
    shown = table.read().to_pylist()
    assert [_rank(row["k"]) for row in shown] == [_rank(row["k"]) for row in expected]
    assert sorted(row["n"] for row in shown) == list(range(len(values)))
    assert table.compact(cluster_by=["k"], rows=5).versions == 0


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return 2, 0
    if isinstance(value, float) and value != value:
        return 1, 0
    return 0, value.encode() if isinstance(value, str) else value


def test_partition_by_partition() -> None:
    schema = pa.schema([("shop", pa.string()), ("n", pa.int64())])
    table = lake().create_table("t", schema, partition_by=["shop"])
    for at in range(4):
        table.append([{"shop": "ab"[n % 2], "n": (7 * n + at) % 29} for n in range(12)])
    table.update("n = 8", {"shop": "c"})
    before = sorted(map(str, content(table)))
    table.compact(cluster_by=["n"], rows=8)
    rows = content(table)
    assert sorted(map(str, rows)) == before
    assert [(row["shop"], row["n"]) for row in rows] == sorted((row["shop"], row["n"]) for row in rows)
    assert table.compact(cluster_by=["n"], rows=8).versions == 0
    moved = table.read(["n"], "shop = 'c'")["n"].to_pylist()
    assert moved == [8] * len(moved) != []


@pytest.mark.parametrize("by", ["id", [], ["id", "id"], ["nothing"], [1], 5, ["l"]])
def test_columns_that_are_none(by: Any) -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int64()))]))
    table.append([{"id": 1, "l": [1]}])
    with refused(catalog, InvalidArgument, "cluster_by"):
        table.compact(cluster_by=by)


def test_a_keyed_table_is_in_the_order_of_its_key() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, key=["id"])
    table.upsert([{"id": 1, "v": "a"}])
    with refused(catalog, InvalidArgument, "key id", "order of keys", "compact()"):
        table.compact(cluster_by=["v"])


def two_handles(**settings: Any) -> tuple[Table, Table]:
    catalog = lake()
    return shuffled(catalog, **settings), another(catalog).table("t")


def test_late_changes_meet_what_was_folded_as_if_nothing_had_been_clustered() -> None:
    table, other = two_handles()
    arrivals = [
        held_back(other, lambda: other.update("id in (3, 9)", {"v": "older"})),
        held_back(other, lambda: other.delete("id in (10, 11)")),
    ]
    table.update("id = 3", {"v": "newer"})
    table.compact(cluster_by=["id"], rows=10)
    for arrive in arrivals:
        arrive()
    shown = {row["id"]: row["v"] for row in content(table)}
    assert (shown[3], shown[9]) == ("newer", "older")
    assert not {10, 11} & shown.keys()
    assert ids(table) == sorted(ids(table))
    assert cells_by_row(table.head(), table) == cells_by_row(without_rewriting(table.head()), table)
    (lost,) = table.conflicts()
    assert table.lost_values(lost)["v"].to_pylist() == ["older"]
    table.compact(cluster_by=["id"], rows=10)
    assert {row["id"]: row["v"] for row in content(table)} == shown
    assert table.lost_values(lost)["v"].to_pylist() == ["older"]


def test_what_was_inserted_behind_a_row_goes_where_that_row_goes() -> None:
    table, other = two_handles()
    rows = content(other)
    place = next(at for at, row in enumerate(rows) if row["id"] == 30)
    late = [*rows[: place + 1], {"id": 100, "v": "late"}, {"id": 101, "v": "late"}, *rows[place + 1 :]]
    arrive = held_back(other, lambda: other.write(late))
    table.compact(cluster_by=["id"], rows=10)
    arrive()
    shown = ids(table)
    assert shown[shown.index(30) + 1 :][:2] == [100, 101]
    assert [number for number in shown if number < 100] == sorted(number for number in shown if number < 100)
    table.compact(cluster_by=["id"], rows=10)
    assert ids(table) == sorted(shown)


def test_writing_into_the_middle_afterwards() -> None:
    table = shuffled()
    table.compact(cluster_by=["id"], rows=10)
    wanted = content(table)
    wanted[7:7] = [{"id": 1000, "v": "in the middle"}]
    wanted[0]["v"] = "changed"
    wanted = [{"id": -1, "v": "first"}, *wanted, {"id": 2000, "v": "last"}]
    del wanted[20]
    version = table.write(wanted)
    assert version.rows <= 5
    assert content(table) == wanted
    table.update_rows(8, 9, {"v": ["by number"]})
    assert content(table)[8]["v"] == "by number"
    table.compact(rows=10)
    assert [row["id"] for row in content(table)] == [row["id"] for row in wanted]
    assert content(table)[8]["v"] == "by number"


def test_the_change_feed_tells_what_was_done_before_and_after_and_nothing_of_the_order() -> None:
    table = shuffled()
    start = table.head().snapshot
    table.update("id = 3", {"v": "new"})
    table.compact(cluster_by=["id"], rows=10)
    table.delete("id = 4")
    table.append([{"id": 50, "v": "more"}])
    feed = table.changes(start).to_table()
    assert list(zip(feed["_change"].to_pylist(), feed["id"].to_pylist(), strict=True)) == [
        ("delete", 4),
        ("update_before", 3),
        ("update_after", 3),
        ("insert", 50),
    ]


def test_restore_brings_the_order_back() -> None:
    table = shuffled()
    was = content(table)
    table.tag("before")
    table.compact(cluster_by=["id"], rows=10)
    table.tag("after")
    table.restore("before")
    assert content(table) == was
    table.restore("after")
    assert ids(table) == sorted(row["id"] for row in was)


@pytest.mark.parametrize("clustering_is_late", [False, True])
def test_a_clustering_and_a_compaction_at_once(clustering_is_late: bool) -> None:
    table, other = two_handles()
    before = cells_by_row(table.head(), table)

    def cluster(handle: Table) -> Callable[[], object]:
        return lambda: handle.compact(cluster_by=["id"], rows=10)

    def plain(handle: Table) -> Callable[[], object]:
        return lambda: handle.compact(rows=20)

    late, now = (cluster, plain) if clustering_is_late else (plain, cluster)
    arrive = held_back(other, late(other))
    now(table)()
    table.update("id = 3", {"v": "new"})
    arrive()
    expected = {id: {**row, "v": "new"} if row["id"] == 3 else row for id, row in before.items()}
    assert cells_by_row(table.head(), table) == expected
    assert ids(table) == sorted(ids(table))
    assert ids(other) == ids(table)
    table.compact(rows=10)
    assert cells_by_row(table.head(), table) == expected
    assert ids(table) == sorted(ids(table))
    assert not table.head().rows.shared


def test_of_two_clusterings_at_once_the_greater_one_orders_the_rows() -> None:
    table, other = two_handles()
    before = cells_by_row(table.head(), table)
    arrive = held_back(other, lambda: other.compact(cluster_by=["v"], rows=10))
    table.compact(cluster_by=["id"], rows=10)
    arrive()
    assert ids(table) == ids(other) == sorted(ids(table))
    assert cells_by_row(table.head(), table) == before
    table.compact(cluster_by=["id"], rows=10)
    assert cells_by_row(table.head(), table) == before
    assert table.compact(cluster_by=["id"], rows=10).versions == 0


def test_in_cas_mode_it_takes_a_number_and_fails_nobody() -> None:
    table, other = two_handles(mode="cas")
    other.head()
    table.compact(cluster_by=["id"], rows=10)
    assert table.history()[-1].number == len(table.history())
    other.update("id = 3", {"v": "new"})
    other.head()
    table.append([{"id": 5, "v": "more"}])
    other.compact(cluster_by=["v"], rows=10)
    assert [row["v"] for row in content(table)] == sorted(row["v"] for row in content(table))


def test_a_column_dropped_meanwhile_stays_dropped() -> None:
    table, other = two_handles()
    arrive = held_back(other, lambda: other.compact(cluster_by=["id"], rows=10))
    table.drop_column("v")
    arrive()
    assert table.head().schema.names == ["id"]
    assert table.conflicts() == ()
    assert ids(table) == sorted(ids(table))


def test_on_a_branch_and_merged() -> None:
    table = shuffled()
    branch = table.branch("ordered")
    branch.compact(cluster_by=["id"], rows=10)
    table.update("id = 3", {"v": "new"})
    before = cells_by_row(table.head(), table)
    assert ids(table) != sorted(ids(table)) == ids(branch)
    table.merge("ordered")
    assert ids(table) == sorted(ids(table))
    assert cells_by_row(table.head(), table) == before
    assert table.conflicts() == ()


def test_expired_and_collected_it_stays_in_order() -> None:
    quick = {"grace_seconds": 0.0, "max_commit_delay_seconds": 0.0, "inline_bytes": 0}
    catalog = lake(**quick)
    table = shuffled(catalog)
    table.update("id = 3", {"v": "new"})
    table.compact(cluster_by=["id"], rows=10)
    table.append([{"id": 1, "v": "more"}])
    shown = content(table)
    table.expire(keep_last=1)
    table.checkpoint()
    table.collect()
    cold = another(catalog, **quick).table("t")
    assert content(cold) == shown
    cold.update("id = 3", {"v": "newer"})
    cold.compact(cluster_by=["id"], rows=10)
    assert ids(cold) == sorted(row["id"] for row in shown)
    assert cold.verify("content").ok


def test_more_than_a_commit_holds_is_spread_and_then_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "COMMIT_BYTES", 200)
    told: list[Progress] = []
    table = shuffled()
    table.update("id = 3", {"v": "new"})
    before = cells_by_row(table.head(), table)
    table.compact(cluster_by=["v", "id"], rows=4, progress=told.append)
    rows = [(row["v"], row["id"]) for row in content(table)]
    assert rows == sorted(rows)
    assert cells_by_row(table.head(), table) == before
    assert {item.what for item in told} == {"spreading", "sorting"}
    assert all(0 < item.done <= item.total for item in told)
    assert table.compact(cluster_by=["v", "id"], rows=4).versions == 0
    assert table.verify("content").ok


def test_killed_between_two_commits_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "COMMIT_BYTES", 200)
    table = shuffled()
    before = cells_by_row(table.head(), table)
    for after in (1, 3, 9):

        def stop(item: Progress, after: int = after) -> None:
            if item.done >= after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            table.compact(cluster_by=["id"], rows=4, progress=stop)
        assert cells_by_row(table.head(), table) == before
    table.compact(cluster_by=["id"], rows=4)
    assert ids(table) == sorted(ids(table))
    assert cells_by_row(table.head(), table) == before


verbs = st.lists(
    st.tuples(
        st.sampled_from(
            ("append", "update", "delete", "compact", "cluster", "cluster", "overwrite", "write")
        ),
        st.integers(0, 1),
        st.integers(0, 12),
        st.booleans(),
    ),
    max_size=12,
)


@given(verbs)
@settings(max_examples=bounded(240, 8), deadline=None)
def test_with_and_without_clustering_the_same_rows(steps: list[tuple[str, int, int, bool]]) -> None:
    """Two handles, some of whose commits arrive late. Rows, by id, are what they would be had nobody ever
    compacted or clustered, and all readers agree on the order."""
    catalog = lake()
    first = catalog.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    first.append([{"id": 7, "v": 5}, {"id": 3, "v": 6}])
    tables, waiting = [first, another(catalog).table("t")], []
    for count, (verb, who, what, late) in enumerate(steps):
        table = tables[who]

        def act(table: Table = table, verb: str = verb, what: int = what, count: int = count) -> None:
            _act(table, verb, what, count)

        if late:
            waiting.append(held_back(table, act))
        else:
            act()
        if len(waiting) > 2:
            waiting.pop(0)()
    for arrive in waiting:
        arrive()
    head = first.head()
    assert cells_by_row(head, first) == cells_by_row(without_rewriting(head), first)
    check_places(head)
    assert content(tables[1]) == content(first) == content(another(catalog).table("t"))
    first.compact(cluster_by=["v", "id"], rows=3)
    assert cells_by_row(first.head(), first) == cells_by_row(without_rewriting(first.head()), first)
    rows = [(row["v"], row["id"]) for row in content(tables[1])]
    assert rows == sorted(rows)
    check_places(first.head())


def check_places(head: Head) -> None:
    """What is known of places without looking at rows is what the rows say."""
    rows = head.rows
    exact = Places(head.log, rows._changes, rows.tags)
    found, expected = (places.of_pieces(rows._by_birth[0]) for places in (rows._places, exact))
    assert not exact.is_settled
    for one, other in zip(_by_row(found), _by_row(expected), strict=True):
        assert one.tolist() == other.tolist()


def _by_row(placed: Placed) -> tuple[Any, ...]:
    """Row by row, by birth: birth, offset, the chunk it stands in, where in it."""
    owner, along = expand(placed.pieces.stop - placed.pieces.start)
    birth, offset = placed.pieces.birth[owner], placed.pieces.start[owner] + along
    order = np.lexsort((offset, birth))
    return tuple(column[order] for column in (birth, offset, placed.chunk[owner], placed.at[owner] + along))


def test_places_of_a_clustered_table_are_known_without_looking_at_rows() -> None:
    table = shuffled()
    table.compact(cluster_by=["v"], rows=10)
    table.compact(cluster_by=["id"], rows=10)
    table.append([{"id": 5, "v": "more"}])
    table.delete("id = 4")
    assert table.head().rows._places.is_settled
    check_places(table.head())
    table.compact(rows=30)  # rows of clustered chunks are elsewhere now
    assert not table.head().rows._places.is_settled
    check_places(table.head())


def _act(table: Table, verb: str, what: int, count: int) -> None:
    if verb == "append":
        table.append([{"id": 100 * what + at, "v": count} for at in range(1 + what % 4)])
    elif verb == "update":
        table.update(f"id % 7 = {what % 7}", {"v": what})
    elif verb == "delete":
        table.delete(f"id % 11 = {what % 11}")
    elif verb == "overwrite" and what == 3:
        table.overwrite([{"id": 10 * count, "v": 0}])
    elif verb == "write":
        rows = content(table)
        rows.insert(what % (len(rows) + 1), {"id": 10 * what, "v": count})
        table.write(rows[: len(rows) - what // 6])
    elif verb == "cluster":
        table.compact(cluster_by=["id"] if what % 2 else ["v", "id"], rows=3 + what % 4)
    elif verb == "compact":
        table.compact(rows=3 + what % 4)
