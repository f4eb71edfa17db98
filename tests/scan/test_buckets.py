"""A filter that fixes a bucketed column's value reads only that bucket, and never loses a row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table


@pytest.fixture
def table() -> Table:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.int64())])
    table = Catalog("memory://buckets").create_table(
        "t", schema, partition_by=["bucket(8, id)"], exist_ok=True
    )
    ids = list(range(200))
    table.overwrite({"id": ids, "name": [f"n{i}" for i in ids], "value": [i * i for i in ids]})
    return table


@pytest.mark.parametrize("wanted", [[0], [7], [13, 14], [199], [5000]])
def test_equality_reads_one_bucket_per_value(table: Table, wanted: list[int]) -> None:
    scan = table.scan(filter=[("id", "in", wanted)])
    assert len(scan.plan.chunks) <= len(wanted)
    assert scan.plan.pruned >= 8 - len(wanted)
    assert sorted(scan.to_table()["id"].to_pylist()) == [i for i in wanted if i < 200]


def test_every_value_is_found_through_its_bucket(table: Table) -> None:
    for value in range(200):
        assert table.scan(["value"], f"id = {value}").to_table().to_pylist() == [{"value": value * value}]


def test_null_has_a_place_of_its_own() -> None:
    schema = pa.schema([("id", pa.int64())])
    table = Catalog("memory://null-buckets").create_table("t", schema, partition_by=["bucket(4, id)"])
    table.append({"id": [1, None, 2]})
    assert table.scan(filter="id is null").count() == 1
    assert table.scan(filter="id = 1 or id is null").count() == 2
