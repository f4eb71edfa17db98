"""Append and overwrite: what survives what (rule 2), keys, history, reading one's own writes."""

from __future__ import annotations

import datetime as dt
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.clock import HybridClock
from crdtcat.errors import NoSnapshots, NotFound
from crdtcat.verbs import rows as row_verbs
from crdtcat.writing.incoming import Incoming
from tests.catalog.lakes import another, lake, refused, rows

N = pa.schema([("n", pa.int64())])


def numbers(table: Table, **options: Any) -> list[int]:
    found: list[int] = table.read(["n"], **options)["n"].to_pylist()
    return found


def two_handles() -> tuple[Table, Table]:
    catalog = lake()
    return catalog.create_table("t", N), another(catalog).table("t")


class Interrupted(Incoming):
    """Rows that let something else happen after the overwrite has looked at the head."""

    def __init__(self, data: Any, meanwhile: Any) -> None:
        super().__init__(data)
        self._meanwhile = meanwhile

    def reader(self, known: Any) -> pa.RecordBatchReader:
        self._meanwhile()
        return super().reader(known)


def test_appends_come_in_the_order_of_their_versions() -> None:
    table, other = two_handles()
    for n in range(6):
        (table if n % 2 else other).append([{"n": n}])
    assert numbers(table) == numbers(other) == list(range(6))
    assert [version.operation for version in table.history()] == ["append"] * 6


def test_overwrite_replaces_everything_it_saw() -> None:
    table, other = two_handles()
    table.append([{"n": 1}])
    other.append([{"n": 2}])
    version = table.overwrite([{"n": 3}])
    assert (version.operation, version.rows) == ("overwrite", 1)
    assert numbers(other) == [3]
    other.append([{"n": 4}])
    assert numbers(table) == [3, 4]
    table.overwrite(N.empty_table())
    assert numbers(other) == []
    assert table.conflicts() == ()


def test_an_append_concurrent_with_an_overwrite_survives() -> None:
    table, other = two_handles()
    table.append([{"n": 1}])
    row_verbs.overwrite(table._session, Interrupted([{"n": 2}], lambda: other.append([{"n": 3}])))
    assert sorted(numbers(table)) == sorted(numbers(other)) == [2, 3]
    assert table.conflicts() == ()


def test_of_two_concurrent_overwrites_the_greater_wins_and_the_other_is_listed() -> None:
    table, other = two_handles()
    table.append([{"n": 1}])
    losers = []
    winner = row_verbs.overwrite(
        table._session, Interrupted([{"n": 2}], lambda: losers.append(other.overwrite([{"n": 3}])))
    )
    assert numbers(table) == numbers(other) == [2]
    (conflict,) = other.conflicts()
    assert (conflict.kind, conflict.winner, conflict.loser) == ("overwrite", winner.id, losers[0].id)
    assert rows(other.read(at=losers[0].id)) == [{"n": 3}]  # what lost can still be had


def test_a_handle_reads_its_own_writes_and_never_goes_back() -> None:
    table, other = two_handles()
    seen = 0
    for n in range(20):
        (table if n % 3 else other).append([{"n": n}])
        head = table.head()
        assert head.row_count == n + 1
        assert head.version >= seen
        seen = head.version


def test_threads_of_one_handle() -> None:
    table, other = two_handles()

    def work(start: int) -> None:
        for n in range(start, start + 25):
            table.append([{"n": n}])
            assert n in numbers(table)

    threads = [threading.Thread(target=work, args=(25 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(other)) == list(range(100))


def test_of_the_commits_with_one_key_one_counts() -> None:
    table, other = two_handles()
    first = table.append([{"n": 1}], key="task-1")
    second = other.append([{"n": 1}], key="task-1")
    table.append([{"n": 2}], key="task-2")
    assert numbers(table) == numbers(other) == [1, 2]
    assert other.history()[0].id == first.id
    head = table.head()
    assert (head.version, len(head.void)) == (2, 1)
    assert (head.void[0].id, head.void[0].stands) == (second.id, False)
    assert "void" in str(head.void[0])


def test_a_repeated_overwrite_with_a_key_does_nothing() -> None:
    table, other = two_handles()
    table.append([{"n": 1}])
    table.overwrite([{"n": 2}], key="nightly")
    table.append([{"n": 3}])
    other.overwrite([{"n": 2}], key="nightly")
    assert numbers(table) == [2, 3]


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_of_two_overwrites_with_a_key_the_one_that_counts_removes_what_it_had_seen(mode: str) -> None:
    """The smaller id stands, with its own view: in merge mode that may be one which arrives later, of a slow
    clock. What only the other one had removed is there again. In CAS mode ids rise with numbers: the first
    one stands for good."""
    catalog = lake()
    behind = another(catalog)
    behind._clock = HybridClock(lambda: 1_000)
    table, slow, done = catalog.create_table("t", N, mode=mode), behind.table("t"), []
    table.append([{"n": 1}])
    time.sleep(0.002)  # so that what follows is not within the millisecond that the slow one has seen

    def meanwhile() -> None:
        table.append([{"n": 3}])
        done.append(table.overwrite([{"n": 2}], key="nightly").id)
        assert numbers(table) == [2]

    done.append(row_verbs.overwrite(slow._session, Interrupted([{"n": 2}], meanwhile), key="nightly").id)
    (void,) = table.head().void
    assert (void.id, sorted(numbers(table))) == ((done[0], [2, 3]) if mode == "merge" else (done[1], [2]))


def test_an_overwrite_removes_both_copies_of_a_retried_commit() -> None:
    table, other = two_handles()
    table.append([{"n": 1}], key="k")
    table.overwrite([{"n": 2}])
    other.append([{"n": 1}], key="k")  # the retry arrives late
    assert numbers(other) == [2]


def test_history_says_what_was_done() -> None:
    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("date", pa.date32())])
    table = lake().create_table("t", schema)
    early, late = dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2021, 6, 1, tzinfo=dt.UTC)
    first = table.append([{"n": 1, "at": late}, {"n": 2, "at": early}], metadata=None)
    second = table.append([{"n": 3}], metadata={"source": "here", "list": (1, 2), "nested": {"x": None}})
    assert list(table.history()) == [first, second]
    assert first.metadata == {}
    assert second.metadata == {"source": "here", "list": [1, 2], "nested": {"x": None}}
    assert first.time_range == (early, late)
    assert second.time_range is None
    assert (first.rows, first.chunks, first.rebases) == (2, 1, 0)
    assert first.bytes > 0
    assert abs(first.time - dt.datetime.now(dt.UTC)) < dt.timedelta(hours=1)
    assert table.history()[-1] == second
    assert [version.rows for version in table.history()[:1]] == [2]


def test_the_time_column_can_be_chosen_and_keeps_its_meaning_when_renamed() -> None:
    schema = pa.schema([("n", pa.int64()), ("made", pa.timestamp("us")), ("seen", pa.date32())])
    table = lake().create_table("t", schema, time_column="seen")
    day = dt.date(2022, 2, 2)
    midnight = dt.datetime(2022, 2, 2, tzinfo=dt.UTC)
    table.append([{"n": 1, "seen": day}])
    table.rename_column("seen", "looked_at")
    version = table.append([{"n": 1, "looked_at": day}])
    assert [table.history()[0].time_range, version.time_range] == [(midnight, midnight)] * 2


@pytest.mark.parametrize("inline_bytes", [0, 2**16])
@pytest.mark.parametrize("partition_by", [[], ["n"]])
@pytest.mark.parametrize("t", [pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.date32()])
def test_the_time_range_of_many_chunks_is_that_of_all_rows(
    t: pa.DataType, partition_by: list[str], inline_bytes: int
) -> None:
    """It is put together from what is known of each chunk; some have no moment at all."""
    moments = [None, 7, None, 3, None, None, 12, 5, 9, None]
    at = pa.array(moments, pa.int32()).cast(pa.date32()).cast(t)
    given = pa.table({"n": [0, 0, 1, 1, 2, 2, 3, 3, 4, 5], "at": at})
    catalog = lake(chunk_rows=2, inline_bytes=inline_bytes, upkeep=False)
    table = catalog.create_table("t", given.schema, time_column="at", partition_by=partition_by)
    version = table.append(given)
    assert version.chunks >= 5
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert version.time_range == (epoch + dt.timedelta(days=3), epoch + dt.timedelta(days=12))
    assert catalog.table("t").history()[0].time_range == version.time_range


def test_the_time_range_is_that_of_all_rows_that_were_added() -> None:
    def day(n: int) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=n)

    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    catalog = lake(upkeep=False)
    table = catalog.create_table("t", schema)
    rows = [{"n": n, "at": day(n)} for n in range(10)]
    table.append(rows)
    made = table.write([*rows[:3], {"n": 50, "at": day(-50)}, *rows[3:], {"n": 99, "at": day(99)}])
    assert made.time_range == table.history()[-1].time_range == (day(-50), day(99))
    assert table.write([{"n": 51, "at": day(7)}, *table.read().to_pylist()]).time_range == (day(7), day(7))
    assert table.write(table.read().to_pylist()[1:]).time_range is None
    keyed = catalog.create_table("keyed", schema, key=["at"])
    keyed.upsert(rows)
    assert keyed.delete(keys=[day(0)]).time_range is None
    assert keyed.write([*rows[2:], {"n": 77, "at": day(77)}]).time_range == (day(77), day(77))


def test_a_table_without_commits() -> None:
    catalog = lake()
    table = catalog.create_table("t", N)
    with refused(catalog, NoSnapshots, "'t'"):
        table.head()
    assert len(table.history()) == 0
    assert table.conflicts() == ()
    assert table.properties == {}
    assert table.schema == N
    assert table.read() == N.empty_table()
    assert table.scan(filter="n > 1").count() == 0
    with refused(catalog, NotFound, "no version"):
        table.read(at=lake().commit("x", [{"a": 1}]).id)
    with refused(catalog, NotFound, "no tag"):
        table.read(at="nothing")


def test_a_table_without_commits_or_columns_reads_as_nothing() -> None:
    table = lake().create_table("t")
    assert (table.read().num_rows, table.read().num_columns, table.scan().count()) == (0, 0, 0)
    assert table.scan().to_pandas().empty
    assert table.scan().to_polars().is_empty()
    assert table.scan().to_reader().read_all().num_rows == 0
    assert "(none)" in table.scan().explain()
    wrongs: list[Any] = [
        lambda: table.read(["a"]),
        lambda: table.read(filter="a = 1"),
        table.scan().to_duckdb,
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="yet"):
            wrong()


def test_zero_rows_make_a_version_and_a_schema() -> None:
    catalog = lake()
    version = catalog.commit("t", pa.table({"x": pa.array([], pa.float32())}))
    assert (version.rows, version.chunks) == (0, 0)
    assert catalog.read("t") == pa.table({"x": pa.array([], pa.float32())})
    assert catalog.table("t").head().version == 1


def test_columns_that_may_not_be_null() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())])
    catalog = lake()
    table = catalog.create_table("t", schema)
    table.append([{"id": 1}])
    assert table.read().schema == another(catalog).read("t").schema == schema
    table.rename_column("id", "key")
    table.append([{"key": 2, "x": 1}])
    assert not table.schema.field("key").nullable


def test_a_column_may_be_null_once_somebody_stored_rows_without_it() -> None:
    catalog = lake()
    strict = pa.table({"x": [1]}, schema=pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    catalog.commit("t", strict)
    assert not catalog.table("t").schema.field("x").nullable
    another(catalog).commit("t", {"y": [1]})  # could not know
    assert catalog.table("t").schema.field("x").nullable
    assert rows(catalog.read("t")) == [{"x": 1, "y": None}, {"x": None, "y": 1}]
    later = lake()
    later.commit("t", strict)
    writer = another(later)
    writer.table("t")
    later.table("t").rename_column("x", "z")  # now defined, and not null
    writer.commit("t", pa.table({"x": pa.array([None], pa.int64())}))
    assert rows(later.read("t")) == [{"z": 1}, {"z": None}]


def test_everything_returned_prints_well() -> None:
    table, other = two_handles()
    assert repr(table.history()) == "(no commits yet)"
    version = table.append([{"n": 1}], metadata={"why": "test"})
    assert "append" in str(version)
    assert "1 rows" in str(version)
    assert "why" in str(version)
    for n in range(25):
        other.append([{"n": n}])
    assert "and 6 more" in repr(table.history())
    head = table.head()
    assert "26 rows" in repr(head)
    assert head.snapshot.id[:12] in repr(head)
    assert "26 versions" in repr(head.snapshot)
    for thing in (head.history, head.chunks, head.columns, head.snapshot, table.scan(), version, version.id):
        assert "object at 0x" not in repr(thing)
        assert "object at 0x" not in str(thing)
