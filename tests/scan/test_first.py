"""A look at the first rows reads no more than it must, and gives those that reading all gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.errors import InvalidArgument
from tests.catalog.lakes import lake


def made(**settings: Any) -> Table:
    table = lake(inline_bytes=0, chunk_rows=2).create_table(
        "t", pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]), **settings
    )
    for start in range(0, 30, 10):
        table.append([{"id": start + at, "v": f"{at % 3}"} for at in range(10)])
    table.update("id = 1", {"v": "new"})
    table.delete("id = 0")
    return table


@pytest.mark.parametrize("settings", [{}, {"key": ["id"]}, {"partition_by": ["v"]}])
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 28, 29, 30, 1000])
def test_they_are_those_that_reading_all_gives(settings: dict[str, Any], rows: int) -> None:
    table = made(**settings)
    for filter in (None, "id > 20", "v = '1'", "id > 1000"):
        scan = table.scan(["v", "id"], filter)
        assert scan.first(rows).equals(scan.to_table().slice(0, rows))
        assert scan.first(rows).schema == scan.schema
    assert table.scan().first().num_rows == 10


def test_a_table_without_rows() -> None:
    table = lake().create_table("t", pa.schema([("id", pa.int64())]))
    assert table.scan().first(3).equals(table.read())
    assert lake().create_table("t").scan().first(3).num_rows == 0


def test_the_rest_is_not_read() -> None:
    table = lake(inline_bytes=0, chunk_rows=1000).create_table("t", pa.schema([("id", pa.int64())]))
    for start in range(100):
        table.append({"id": range(1000 * start, 1000 * start + 1000)})
    table.head()
    requests = table._session.store.requests
    before = requests.snapshot()
    assert table.scan().first(3)["id"].to_pylist() == [0, 1, 2]
    some = requests.since(before).get
    before = requests.snapshot()
    assert table.read().num_rows == 100_000
    assert some < requests.since(before).get


@pytest.mark.parametrize("rows", [-1, "a", 1.5, None, True])
def test_what_is_no_number(rows: Any) -> None:
    with pytest.raises(InvalidArgument, match="how many"):
        made().scan().first(rows)
