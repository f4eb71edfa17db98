"""Offsets: below the horizon they say so, above it they go on; batches of changes are pinned at both ends;
every limit counts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import Corrupt, Expired, InvalidArgument, NotFound
from crdtcat.spark import CrdtcatSource
from tests.spark.streaming import Query

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])


def table_of(tmp_path: Path, inline_bytes: int = 64 * 1024, key: tuple[str, ...] = ()) -> Table:
    lake = Catalog(
        tmp_path, upkeep=False, grace_seconds=0.0, max_commit_delay_seconds=0.0, inline_bytes=inline_bytes
    )
    return lake.create_table("t", SCHEMA, key=list(key))


def rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": id, "k": 0} for id in ids]


def query(tmp_path: Path, **options: str) -> Query:
    return Query(catalog=str(tmp_path), table="t", changes="true", **options)


def kinds(found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((row["_change_type"], row["id"]) for row in found)


@pytest.mark.parametrize("inline_bytes", [0, 64 * 1024])
@pytest.mark.parametrize("key", [(), ("id",)])
def test_an_offset_below_the_horizon_is_expired(
    tmp_path: Path, inline_bytes: int, key: tuple[str, ...]
) -> None:
    table = table_of(tmp_path, inline_bytes, key)
    add = table.upsert if key else table.append
    add(rows(0, 1, 2))
    stream = query(tmp_path)
    stream.run()
    table.delete("id = 1")
    add(rows(9))
    table.expire(keep_last=1)
    for options in ({}, {"max_versions": "1"}):
        stream.options.update(options)
        with pytest.raises(Expired, match="below the horizon"):
            stream.run()


@pytest.mark.parametrize("limit", ["max_versions", "max_rows", "max_bytes"])
def test_a_new_stream_begins_with_what_was_folded(tmp_path: Path, limit: str) -> None:
    table = table_of(tmp_path)
    table.append(rows(0, 1, 2, 3))
    table.delete("id = 1")
    table.overwrite(rows(5, 6))
    table.append(rows(9))
    table.append(rows(10))
    table.expire(keep_last=2)
    stream = query(tmp_path, **{limit: "1"})
    stream.run()
    assert [kinds(batch) for batch in stream.batches][:1] == [[("insert", 5), ("insert", 6)]]
    assert kinds(stream.run()) == []
    assert sorted(id for batch in stream.batches for _, id in kinds(batch)) == [5, 6, 9, 10]
    assert len(stream.batches) == 3


@pytest.mark.parametrize("inline_bytes", [0, 64 * 1024])
@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_new_stream_of_a_table_that_was_compacted_and_expired(
    tmp_path: Path, inline_bytes: int, key: tuple[str, ...]
) -> None:
    table = table_of(tmp_path, inline_bytes, key)
    add = table.upsert if key else table.append
    made = [add(rows(id)) for id in range(3)]
    table.compact()
    made.append(add(rows(9)))
    table.expire(keep_last=1)
    found = {row["id"]: row["_version"] for row in query(tmp_path).run()}
    own = [str(version.id) for version in made]
    who = [own[2]] * 3 if key else own[:3]  # rows by key are nobody's once their chunks were let go
    assert found == dict(zip((0, 1, 2, 9), [*who, own[3]], strict=True))


@pytest.mark.parametrize("key", [(), ("id",)])
def test_changes_whose_files_were_collected_say_what_to_do(tmp_path: Path, key: tuple[str, ...]) -> None:
    table = table_of(tmp_path, 0, key)
    lake = Catalog(tmp_path, upkeep=False, grace_seconds=0, max_commit_delay_seconds=0)
    add = table.upsert if key else table.append
    versions = [add(rows(id)) for id in range(3)]

    def planned(**options: str) -> Callable[[], object]:
        """A batch of changes, and its tasks."""
        source = CrdtcatSource({"catalog": str(tmp_path), "table": "t", "changes": "true", **options})
        reader = source.reader(source.schema())
        return lambda: [batch for part in reader.partitions() for batch in reader.read(part)]

    stream = query(tmp_path)
    stream.start()
    assert stream.offset is not None
    end = stream.stream.latestOffset(stream.offset, stream.stream.getDefaultReadLimit())
    parts = stream.stream.partitions(stream.offset, end)
    late = [planned(), lambda: [batch for part in parts for batch in stream.stream.read(part)]]
    since = planned(start=str(versions[1].id))
    table.compact()
    add(rows(9))
    table.expire(keep_last=1)
    for _ in range(2):  # condemned, then deleted
        lake.collect(grace=0)
    for read in (*late, since):
        with pytest.raises(Expired, match=r"table 't' was loaded: load it again, or start the query again"):
            read()
    assert len(stream.run()) == 4  # what it says helps
    now = planned()
    shutil.rmtree(tmp_path / "data")  # no collection did that
    with pytest.raises(Corrupt, match="missing"):
        now()


def test_an_offset_above_the_horizon_goes_on(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.append(rows(0, 1))
    table.overwrite(rows(2, 3))
    stream = query(tmp_path)
    assert kinds(stream.run()) == [("insert", 2), ("insert", 3)]
    table.append(rows(4))
    table.expire(keep_last=1)
    table.delete("id = 2")
    assert kinds(stream.run()) == [("delete", 2), ("insert", 4)]


def test_upkeep_takes_no_place_in_a_batch(tmp_path: Path) -> None:
    table = table_of(tmp_path, 0)
    for id in range(4):
        table.append(rows(id))
    stream = query(tmp_path, max_versions="1")
    stream.run()
    for _ in range(2):
        table.compact(rows=10)
        table.update("id = 0", {"k": 1})
        table.compact(rows=10)
    table.append(rows(9))
    stream.run()
    assert [len(batch) for batch in stream.batches] == [1, 1, 1, 1, 2, 2, 1]


def test_all_limits_count(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    for number in range(4):
        table.append(rows(*range(10 * number, 10 * number + 5)))
    assert sizes(query(tmp_path, max_versions="3", max_rows="10")) == [10, 10]
    assert sizes(query(tmp_path, max_versions="1", max_rows="100")) == [5, 5, 5, 5]
    assert sizes(query(tmp_path, max_versions="3", max_rows="100", max_bytes="1")) == [5, 5, 5, 5]
    assert sizes(query(tmp_path)) == [20]


def sizes(stream: Query) -> list[int]:
    stream.run()
    return [len(batch) for batch in stream.batches]


def test_a_batch_of_changes_is_pinned_at_both_ends(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    versions = [table.append(rows(id)) for id in range(4)]
    place = {"catalog": str(tmp_path), "table": "t", "changes": "true"}
    source = CrdtcatSource({**place, "start": "latest"})
    middle = CrdtcatSource({**place, "start": str(versions[1].id)})
    schemas = [source.schema(), middle.schema()]
    table.append(rows(99))
    table.compact()
    assert read(source, schemas[0]) == []
    assert read(middle, schemas[1]) == [("insert", 2), ("insert", 3)]
    assert schemas[0].fieldNames()[:2] == ["id", "k"]


def read(source: CrdtcatSource, schema: Any) -> list[tuple[str, int]]:
    reader = source.reader(schema)
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    return kinds(found)


def test_a_batch_of_changes_leads_forward(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    versions = [table.append(rows(id)) for id in range(4)]
    place = {"catalog": str(tmp_path), "table": "t", "changes": "true"}
    backward = CrdtcatSource({**place, "start": str(versions[2].id), "at": str(versions[0].id)})
    with pytest.raises(InvalidArgument, match="start is not before at"):
        backward.reader(backward.schema())
    nowhere = CrdtcatSource({**place, "start": "nonsense"})
    schema = nowhere.schema()  # a stream that goes on from its checkpoint does not need its start
    with pytest.raises(NotFound, match="nonsense"):
        nowhere.reader(schema)
    same = CrdtcatSource({**place, "start": str(versions[1].id), "at": str(versions[1].id)})
    assert read(same, same.schema()) == []
