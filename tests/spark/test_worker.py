"""Workers that run many tasks: what Spark's collection after each of them has to walk through."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.spark import load
from crdtcat.spark.worker import task_begins


def test_imported_modules_are_set_apart_once(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path)
    lake.commit("t", {"id": [1, 2, 3]})
    for _ in range(4):  # two workers: one of them has had two tasks after three
        load(spark, lake, "t").collect()

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert sum(batch.num_rows for batch in batches) == 1
        frozen = gc.get_freeze_count()
        for _ in range(3):
            task_begins()
        kept: list[object] = []
        kept.append(kept)  # what a task makes is collected as ever
        del kept
        yield pa.record_batch({"frozen": [frozen], "later": [gc.get_freeze_count()], "found": [gc.collect()]})

    rows = spark.range(0, 4, 1, 4).mapInArrow(look, "frozen long, later long, found long").collect()
    assert max(row.frozen for row in rows) > 10_000
    assert all(row.later <= row.frozen for row in rows if row.frozen)  # nothing is added afterwards
    assert all(row.found >= 1 for row in rows)


def test_the_driver_is_left_alone() -> None:
    before = gc.get_freeze_count()
    for _ in range(3):
        task_begins()
    assert gc.get_freeze_count() == before
