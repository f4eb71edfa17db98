"""Compaction of partitioned tables: a chunk holds rows of one partition, and rows stay where they stand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.chunks.partitions import encode_values
from crdtcat.maintenance import compact_plan
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, rows
from tests.rows.late import held_back

SCHEMA = pa.schema([("n", pa.int64()), ("p", pa.int32())])


def made(**options: Any) -> tuple[Catalog, Table]:
    catalog = lake(**options)
    return catalog, catalog.create_table("t", SCHEMA, partition_by=["p"])


def check(table: Table, expected: list[dict[str, Any]]) -> None:
    """The rows, in order; those of every chunk in its partition; each found by a filter."""
    assert rows(table.read()) == expected
    head = table.head()
    for entry in head.live.tolist():
        label = head.log.partitions[int(head.log.partition[entry])]
        assert {encode_values((row["p"],)) for row in held_by(table, entry)} == {label}
    for p in {row["p"] for row in expected}:
        assert rows(table.read(filter=f"p = {p}")) == [row for row in expected if row["p"] == p]


def held_by(table: Table, entry: int) -> list[dict[str, Any]]:
    """The rows that are read from one chunk."""
    head = table.head()
    everything = rows(table.read())
    strips = head.rows.strips if not head.rows.is_plain else None
    found, before = [], 0
    order = head.live.tolist() if strips is None else strips.entry.tolist()
    for at, owner in enumerate(order):
        if strips is None:
            length = int(head.log.rows[owner])
        else:
            length = len(head.rows.live_offsets(owner, int(strips.start[at]), int(strips.stop[at])))
        found += everything[before : before + length] if owner == entry else []
        before += length
    return found


@pytest.mark.parametrize("inline_bytes", [0, 64 * 1024])
def test_partitions_that_take_turns_are_compacted_each_by_itself(inline_bytes: int) -> None:
    """As many chunks as partitions are left of 60, where no two of a partition were neighbours."""
    _, table = made(inline_bytes=inline_bytes)
    for number in range(20):
        table.append([{"n": 6 * number + at, "p": at % 3} for at in range(6)])
    expected = rows(table.read())
    assert "60 chunks become about 3" in str(table.stats())
    result = table.compact()
    assert (result.chunks_before, result.chunks_after, result.rows) == (60, 3, 120)
    check(table, expected)
    assert table.compact().versions == 0
    assert "compact()" not in str(table.stats())
    table.append([{"n": 1000, "p": 1}])
    table.update("n = 7", {"p": 0})
    table.delete("n = 8")
    expected = rows(table.read())
    assert table.compact().chunks_after == 3  # the row that moved lies by itself
    assert table.compact().chunks_after == 1
    check(table, expected)
    assert table.compact().versions == 0
    assert table.verify("content").ok


def test_a_stretch_is_no_longer_than_what_a_scan_reads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads all rows in order holds a chunk of each partition: they may not reach from end to end."""
    monkeypatch.setattr(compact_plan, "UNIT_BYTES", 12 * 40)  # of rows of twelve bytes: so 32 rows
    _, table = made()
    for number in range(40):
        table.append([{"n": 4 * number + at, "p": at} for at in range(4)])
    expected = rows(table.read())
    assert table.compact(rows=64).chunks_after == 20
    head = table.head()
    for entry in head.live.tolist():
        numbers = [row["n"] for row in held_by(table, entry)]
        assert max(numbers) - min(numbers) < 32
    check(table, expected)
    assert table.compact(rows=64).versions == 0


def test_a_large_chunk_ends_the_group_of_its_partition_only() -> None:
    _, table = made()
    table.append([{"n": 0, "p": 0}, {"n": 1, "p": 1}])
    table.append([{"n": 100 + at, "p": 0} for at in range(8)])
    table.append([{"n": 2, "p": 0}, {"n": 3, "p": 1}])
    expected = rows(table.read())
    result = table.compact(rows=8)
    assert (result.chunks_before, result.chunks_after) == (2, 1)
    check(table, expected)


@pytest.mark.parametrize("seen_first", [True, False])
def test_rows_that_one_of_two_compactions_moved_are_where_they_belong(seen_first: bool) -> None:
    """Of two at once one had seen that a row went to another partition; a third takes both in."""
    catalog, table = made()
    for number in range(3):
        table.append([{"n": 4 * number + at, "p": 0} for at in range(4)])
    unaware = another(catalog).table("t")
    if not seen_first:
        held = held_back(unaware, unaware.compact)
        table.update("n = 1", {"p": 1})
        table.compact()
    else:
        assert unaware.schema is not None
        table.update("n = 1", {"p": 1})
        table.compact()
        held = held_back(unaware, lambda: compacted_as_of(unaware, table))
    held()
    expected = rows(table.read())
    assert len(compact_plan.crowds(table.head())) == 1
    table.compact()
    check(table, expected)
    assert table.compact().versions == 0, "a row of another partition stands between, and stays there"
    table.overwrite([], where="p = 0")
    assert rows(table.read()) == [{"n": 1, "p": 1}]


def compacted_as_of(unaware: Table, table: Table) -> None:
    """Compact what was there before the last two versions: by a handle that read then."""
    session = unaware._session
    real = session.head
    old = table.head(at=table.history()[2])
    session.head = lambda **_: old  # type: ignore[method-assign]
    try:
        unaware.compact()
    finally:
        session.head = real  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ["~number", "~n~number~", "~p~"])
def test_columns_of_any_name(name: str) -> None:
    """The rows of a partition are numbered while they are sorted out, in a column that is none of theirs."""
    table = lake().create_table("t", pa.schema([("p", pa.int64()), (name, pa.int64())]), partition_by=["p"])
    table.append([{"p": at % 2, name: at} for at in range(6)])
    table.update(None, {"p": 1})
    table.compact()
    assert [row[name] for row in rows(table.read(filter="p = 1"))] == [0, 2, 4, 1, 3, 5]
    other = lake().create_table("t", pa.schema([(name, pa.int64()), ("n", pa.int64())]), partition_by=[name])
    other.append([{name: at % 2, "n": at} for at in range(4)])
    other.update("n = 0", {name: 1})
    other.overwrite([], where=[(name, "=", 1)])
    assert [row["n"] for row in rows(other.read())] == [2]


steps = st.lists(
    st.tuples(st.sampled_from(("append", "append", "move", "delete", "compact", "late")), st.integers(0, 7)),
    max_size=12,
)


@settings(max_examples=bounded(300, 20), deadline=None)
@given(steps, st.sampled_from((2, 8, 64)))
@example([("append", 1), ("append", 3), ("move", 4)], 2)  # one chunk between the rows of another, both full
def test_with_and_without_compaction_the_same(todo: list[tuple[str, int]], size: int) -> None:
    """And once compacted, nothing is left to do."""
    catalog, table = made()
    table.append([{"n": -1, "p": 0}])
    count, held = 0, list[Any]()
    for verb, number in todo:
        there = [row["n"] for row in rows(table.read())]
        if verb == "append":
            table.append([{"n": count + at, "p": (at + number) % 3} for at in range(1 + number)])
            count += 8
        elif verb == "move" and there:
            table.update(f"n = {there[number % len(there)]}", {"p": number % 3})
        elif verb == "delete" and there:
            table.delete(f"n = {there[number % len(there)]}")
        elif verb == "late":
            late = another(catalog).table("t")
            held.append(held_back(late, lambda late=late: late.compact(rows=size + 1)))  # type: ignore[misc]
        elif verb == "compact":
            table.compact(rows=size)
    expected = rows(table.read())
    for arrives in held:
        arrives()
    assert rows(table.read()) == expected
    for _ in range(4):
        if not table.compact(rows=size).versions:
            break
        assert rows(table.read()) == expected
    assert table.compact(rows=size).versions == 0
    check(table, expected)
