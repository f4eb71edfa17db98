"""Rows staged by many processes and committed by one: the same table as one append or overwrite makes."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch
from crdtcat.verbs.parts import commit_parts, plan_new, plan_parts
from crdtcat.writing.part import Part, Staging
from tests.apart import processes_apart
from tests.bounds import bounded

SCHEMA = pa.schema([("n", pa.int64()), ("shop", pa.string()), ("at", pa.timestamp("us"))])


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        {
            "n": pa.array(numbers, pa.int64()),
            "shop": [f"s{n % 3}" if n % 5 else None for n in numbers],
            "at": pa.array(numbers, pa.timestamp("us")),
        },
        schema=SCHEMA,
    )


def table_at(path: Path, **options: Any) -> Table:
    return Catalog(path, upkeep=False, **options).create_table("t", SCHEMA)


def test_parts_pickle_and_only_the_commit_shows_them(tmp_path: Path) -> None:
    table = table_at(tmp_path, inline_bytes=0)
    table.append(rows(0, 3))
    staging = pickle.loads(pickle.dumps(plan_parts(table._session, SCHEMA)))
    parts = [pickle.loads(pickle.dumps(staging.stage([rows(10 * n, 10)]))) for n in range(1, 4)]
    assert [part.rows for part in parts] == [10, 10, 10]
    assert "10 rows" in repr(parts[0])
    assert table.head().row_count == 3
    before = table._session.store.requests.snapshot()
    version = commit_parts(table._session, staging, parts, metadata={"job": 1}, key="job-1")
    assert table._session.store.requests.since(before).put == 1  # the version; segments were there
    assert version.rows == 30
    assert table.read().column("n").to_pylist() == [0, 1, 2, *range(10, 40)]
    assert table.history()[-1].metadata == {"job": 1}
    commit_parts(table._session, staging, parts, key="job-1")
    assert table.head().row_count == 33  # a repeated commit counts once
    assert table.head().void[0].key == "job-1"


@settings(max_examples=bounded(25, 2), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 400), max_size=6),
    inline=st.sampled_from([0, 2_000, 64 * 1024]),
    partitioned=st.booleans(),
    overwrite=st.booleans(),
)
def test_parts_are_as_good_as_one_write(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    inline: int,
    partitioned: bool,
    overwrite: bool,
) -> None:
    lake = Catalog(tmp_path_factory.mktemp("lake"), inline_bytes=inline, chunk_rows=100, upkeep=False)
    by = ["shop"] if partitioned else []
    table, model = (lake.create_table(name, SCHEMA, partition_by=by) for name in ("t", "model"))
    for each in (table, model):
        each.append(rows(0, 7))
    shares = [[rows(1000 * at, size)] for at, size in enumerate(sizes)]
    staging = plan_parts(table._session, SCHEMA, overwrite=overwrite)
    version = commit_parts(table._session, staging, [staging.stage(share) for share in shares])
    everything = pa.Table.from_batches([batch for share in shares for batch in share], SCHEMA)
    plain = (model.overwrite if overwrite else model.append)(everything)
    assert (version.rows, version.operation, version.time_range) == (
        plain.rows,
        plain.operation,
        plain.time_range,
    )
    for filter in (None, "n >= 1000 and n < 1100", "shop is null", "shop = 's1'", "at < '1970-01-01'"):
        found, wanted = (each.read(filter=filter).sort_by("n") for each in (table, model))
        assert found.equals(wanted)
    found = Catalog(lake.url).table("t").scan(verify=True).to_table()  # another handle, from the files
    assert found.num_rows == model.head().row_count


def test_few_rows_ride_along_and_many_move_into_one_segment(tmp_path: Path) -> None:
    table = table_at(tmp_path, inline_bytes=4_000)
    staging = plan_parts(table._session, SCHEMA)
    few = [staging.stage([rows(n, 1)]) for n in range(2)]
    commit_parts(table._session, staging, few)
    assert len(table.head().log.inline) == 2
    many = [staging.stage([rows(100 * n, 20)]) for n in range(1, 41)]
    assert all(part.staged.inline for part in many)
    commit_parts(table._session, staging, many)
    log = table.head().log
    assert len(log.inline) == 2
    assert len(log.segment_name) == 1  # forty chunks moved together
    assert table.head().row_count == 2 + 800


def test_an_overwrite_replaces_what_was_there_when_it_was_planned(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    table.append(rows(0, 5))
    staging = plan_parts(table._session, SCHEMA, overwrite=True)
    table.append(rows(100, 2))  # while workers stage
    commit_parts(table._session, staging, [staging.stage([rows(10, 1)])])
    assert table.read().column("n").to_pylist() == [100, 101, 10]


def test_columns_are_added_with_evolve_and_refused_without(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    wider = SCHEMA.append(pa.field("extra", pa.int32()))
    with pytest.raises(SchemaMismatch, match="extra"):
        plan_parts(table._session, wider)
    staging = pickle.loads(pickle.dumps(plan_parts(table._session, wider, evolve=True)))
    batch = rows(0, 2).append_column("extra", pa.array([1, 2], pa.int32()))
    commit_parts(table._session, staging, [staging.stage([batch])])
    assert table.read(["extra"]).column(0).to_pylist() == [1, 2]
    assert table.append([{"n": 9, "extra": 3}]).rows == 1  # the handle knows the column it added


def test_a_table_that_comes_with_its_first_rows(tmp_path: Path) -> None:
    lake = Catalog(tmp_path)
    staging = plan_new(lake.store, lake.options, SCHEMA, ["shop"])
    part = staging.stage([rows(0, 4)])
    assert lake.tables() == []
    table = lake.create_table("t", SCHEMA, partition_by=["shop"])
    commit_parts(table._session, staging, [part])
    assert table.read(filter="shop = 's1'").num_rows == 1
    with pytest.raises(SchemaMismatch, match="partitioned"):
        plan_new(lake.store, lake.options, SCHEMA, ["nowhere"])


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    one, other = (plan_parts(table._session, SCHEMA) for _ in range(2))
    with pytest.raises(InvalidArgument, match="another commit"):
        commit_parts(table._session, one, [other.stage([rows(0, 1)])])
    strange = plan_new(table._session.store, table._session.options, SCHEMA, ["shop"])
    with pytest.raises(InvalidArgument, match="partitioned by"):
        commit_parts(table._session, strange, [])
    assert len(table.history()) == 0


def test_too_many_partitions_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Catalog(tmp_path).create_table("t", SCHEMA, partition_by=["n"])
    staging = plan_parts(table._session, SCHEMA)
    parts = [staging.stage([rows(10 * n, 10)]) for n in range(3)]
    monkeypatch.setattr("crdtcat.writing.part.PARTITION_VALUES_PER_COMMIT_MAX", 25)
    with pytest.raises(LimitExceeded, match="25 partitions"):
        commit_parts(table._session, staging, parts)


def _staged(given: tuple[Staging, int]) -> Part:
    staging, number = given
    return staging.stage([rows(1000 * number, 1000)])


def test_staged_in_other_processes(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    staging = plan_parts(table._session, SCHEMA)
    with ProcessPoolExecutor(2, mp_context=processes_apart()) as workers:
        parts = list(workers.map(_staged, [(staging, number) for number in range(4)]))
    commit_parts(table._session, staging, parts)
    assert table.read().column("n").to_pylist() == list(range(4000))
