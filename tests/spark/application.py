"""A Spark application of its own, whose driver dies at the instruction before its second commit.

It says on its output what it has done, since whoever started it cannot ask afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from crdtcat import Catalog
from crdtcat.chunks.segment import segment_name
from crdtcat.spark import save
from crdtcat.spark.writing import Report, WritePlan
from tests.spark.conftest import new_session

TASKS = 4
QUERY = "both-run-this"


def shared_rows(spark: Any) -> Any:
    """What both applications write under one query name."""
    return spark.range(1000, 1400, 1, TASKS)


def main(url: str, ready: str) -> None:
    """Run a query that another application runs too; then stage everything of a write, and die."""
    spark = new_session("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    Path(ready).touch()
    save(shared_rows(spark), Catalog(url), "t", commit="task", query=QUERY)

    def killed(_: WritePlan, reports: Sequence[Report | None], *, tidy: bool = True) -> NoReturn:
        parts = [report.part for report in reports if report is not None and report.part is not None]
        names = [name for part in parts for name, *_ in part.staged.segments]
        there = [name for name in names if Path(url, segment_name(name[:16], name[16:])).exists()]
        print(f"staged {len(there)} of {len(names)}", flush=True)  # noqa: T201 (for the test)
        os._exit(9)

    WritePlan.finish = killed  # type: ignore[method-assign, assignment]
    save(spark.range(5000, 5100, 1, 2), Catalog(url, inline_bytes=0), "u")


if __name__ == "__main__":
    main(*sys.argv[1:])
