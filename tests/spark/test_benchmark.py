"""The benchmark of Spark runs, at a tiny size, on the session that is there."""

from __future__ import annotations

from typing import Any

from benchmarks.job import Job
from benchmarks.suites.spark import run
from crdtcat.spark.format_reader import READ_BY


def test_what_was_written_is_counted_once(spark: Any) -> None:
    try:
        tables = {table.title: table for table in run(Job("tiny", ("raw", "crdtcat"))).tables}
    finally:
        spark.conf.unset(READ_BY)  # it registers the session, which other tests share
    died = next(table for title, table in tables.items() if title.startswith("Tasks that die"))
    rows = [dict(zip(died.header, row, strict=True)) for row in died.rows]
    assert [row["readable"] for row in rows] == [row["rows"] for row in rows] == [8_000] * 4
    assert not any(row["twice"] for row in rows)
    assert [bool(row["tasks that died"]) for row in rows] == [False, True] * 2
    assert all(row for table in tables.values() for row in table.rows)
