"""History tells how many rows each version added, updated and deleted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table, Version
from tests.catalog.lakes import lake

SCHEMA = pa.schema([("n", pa.int64()), ("v", pa.string())])


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"n": number, "v": str(number)} for number in range(start, stop)]


def counts(version: Version) -> tuple[int, int, int]:
    return version.rows_added, version.rows_updated, version.rows_deleted


def check(table: Table, version: Version, expected: tuple[int, int, int]) -> None:
    """What the commit said, and what history says."""
    assert counts(version) == expected
    assert table.history()[-1] == version


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_every_verb(mode: Any) -> None:
    table = lake(chunk_rows=10).create_table("t", SCHEMA, mode=mode)
    check(table, table.append(rows(0, 40)), (40, 0, 0))
    check(table, table.update("n in (3, 14, 15)", {"v": "new"}), (0, 3, 0))
    check(table, table.update_rows(0, 2, {"v": ["a", "b"]}), (0, 2, 0))
    check(table, table.delete("n in (3, 4)"), (0, 0, 2))
    check(table, table.delete("n >= 20 and n < 31"), (0, 0, 11))  # a chunk whole, and one row of the next
    wanted = table.read().to_pylist()[2:]
    wanted[0]["v"], wanted[5:5] = "changed", rows(100, 103)
    check(table, table.write(wanted), (3, 1, 2))
    table.compact(cluster_by=["v"], rows=7)
    assert (table.history()[-1].operation, counts(table.history()[-1])) == ("cluster", (0, 0, 0))
    check(table, table.delete("n < 10"), (0, 0, 6))
    check(table, table.overwrite(rows(0, 3)), (3, 0, 0))
    check(table, table.delete("true"), (0, 0, 3))
    check(table, table.set_properties(owner="me"), (0, 0, 0))


def test_under_an_idempotency_key() -> None:
    table = lake(chunk_rows=10).create_table("t", SCHEMA)
    table.append(rows(0, 20), key="once")
    table.append(rows(0, 20), key="once")
    check(table, table.delete("n < 12"), (0, 0, 12))


def test_keys() -> None:
    table = lake().create_table("t", SCHEMA, key=["n"])
    check(table, table.upsert(rows(0, 5)), (5, 0, 0))
    check(table, table.delete(keys=[1, 2, 77]), (0, 0, 3))
    check(table, table.delete("n > 3"), (0, 0, 1))


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_in_a_transaction(mode: Any) -> None:
    catalog = lake(chunk_rows=10)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    table.append(rows(0, 20))
    with catalog.transaction() as transaction:
        transaction.append("t", rows(20, 30))
        transaction.delete("t", "n >= 5 and n < 25")
        transaction.update("t", "n = 2", {"v": "new"})
    found = [counts(version) for version in table.history()[1:]]
    assert found == [(10, 0, 0), (0, 0, 20), (0, 1, 0)]


def test_how_it_prints() -> None:
    table = Catalog(lake().store).create_table("t", SCHEMA)
    table.append(rows(0, 5))
    table.delete("n < 2")
    table.write([*rows(3, 5), {"n": 9, "v": "more"}])
    lines = repr(table.history()).splitlines()
    assert "delete              2 rows  " in lines[1]
    assert "write               1 rows (1 deleted)  " in lines[2]
