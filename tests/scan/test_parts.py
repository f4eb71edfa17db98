"""Chunks over which more lies than is read at once: rows that came empty, and were filled by updates.

Arrow has at most 2 GiB in one array of texts, and memory an end, too; a chunk has up to 131,072 rows.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.maintenance import rewrite
from crdtcat.scan import units
from crdtcat.scan.changed import ChangedEntries
from tests.catalog.lakes import lake, rows

ROWS = 200
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("x", pa.int32())])


class Reads:
    """What is held at most of an entry with all that lies over it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real, self.most = ChangedEntries._read, 0

        def read(itself: ChangedEntries, *asked: Any, **more: Any) -> Any:
            tables, ages = real(itself, *asked, **more)
            self.most = max(self.most, sum(table.nbytes for table in tables))
            return tables, ages

        monkeypatch.setattr(ChangedEntries, "_read", read)


@pytest.fixture(autouse=True)
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    monkeypatch.setattr(units, "UNIT_BYTES", 512)  # sixteen times as much may be in one
    monkeypatch.setattr(rewrite, "COMMIT_BYTES", 8 * 1024)
    return Reads(monkeypatch)


def filled(**options: Any) -> tuple[Table, list[dict[str, Any]]]:
    """One chunk of a few KiB, over which 120 lie; and its rows."""
    table = lake(inline_bytes=0).create_table("t", SCHEMA, **options)
    expected = [{"n": n, "text": f"{n:03} " * 150, "x": 0} for n in range(ROWS)]
    table.append([{**row, "text": None} for row in expected])
    for start in range(0, ROWS, 20):
        table.update_rows(start, start + 20, [{"text": row["text"]} for row in expected[start : start + 20]])
    return table, expected


def test_it_is_read_part_by_part(reads: Reads) -> None:
    table, expected = filled()
    assert rows(table.read()) == expected
    assert rows(table.read(["text"], "n >= 150 and n < 160")) == [
        {"text": f"{n:03} " * 150} for n in range(150, 160)
    ]
    assert rows(table.scan().first(30)) == expected[:30]
    assert table.scan(filter="text > '1'").count() == 100
    assert reads.most < 16 * 1024


def test_and_changed_so(reads: Reads) -> None:
    table, expected = filled()
    began = table.history()[-1]
    assert table.write(pa.Table.from_pylist(expected, SCHEMA)).rows_updated == 0
    table.update("text like '%7 %'", {"x": 1})
    table.delete("n % 10 = 3")
    expected = [{**row, "x": int(row["n"] % 10 == 7)} for row in expected if row["n"] % 10 != 3]
    inserted = {"n": -1, "text": "new", "x": 2}
    expected.insert(100, inserted)
    version = table.write(pa.Table.from_pylist(expected, SCHEMA))
    assert (version.rows, version.rows_updated, version.rows_deleted) == (1, 0, 0)
    assert rows(table.read()) == expected
    feed = table.changes(began)
    found = rows(feed.to_table())
    assert len(found) == 1 + 20 + 20 * 2
    assert reads.most < 16 * 1024


@pytest.mark.parametrize("by", [None, ["n"], ["text"]])
def test_and_compacted_so(by: list[str] | None, reads: Reads) -> None:
    table, expected = filled()
    table.delete("n = 11")
    table.append([{"n": ROWS + at, "text": "appended", "x": 0} for at in range(3)])
    expected = rows(table.read())
    result = table.compact(cluster_by=by)
    assert result.rows_left_out == 1
    assert reads.most < 16 * 1024
    assert rows(table.read()) == expected
    table.update("n = 12", {"x": 5})
    assert [row["x"] for row in rows(table.read(filter="n = 12"))] == [5]
    assert table.verify("content").ok


def test_copies_whose_columns_went_and_came_back(reads: Reads) -> None:
    """Cells of several ages, some of them ended."""
    table, expected = filled()
    table.compact()
    for start in range(0, ROWS, 40):
        values = [{"text": row["text"][::-1]} for row in expected[start : start + 20]]
        table.update_rows(start, start + 20, values)
        expected[start : start + 20] = [
            {**row, "text": row["text"][::-1]} for row in expected[start : start + 20]
        ]
    assert rows(table.read()) == expected
    assert reads.most < 16 * 1024
    table.compact()
    assert rows(table.read()) == expected
