"""Tables in CAS mode through Spark: a job claims one number, what overlaps is reported, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from crdtcat import Catalog
from crdtcat.errors import CommitConflict
from crdtcat.spark import load, save
from tests.spark.rows import values


def test_jobs_claim_one_number_and_report_conflicts(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    table = lake.create_table("t", pa.schema([("id", pa.int64())]), mode="cas")
    (first,) = save(spark.range(0, 4, 1, 2), lake, "t")
    assert (first.rows, first.rebases) == (4, 0)

    def meddle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lake.commit("t", [{"id": 100}])  # somebody else commits after the job was planned, before it commits
        yield from batches

    meddled = spark.range(10, 14, 1, 1).mapInArrow(meddle, "id long")
    (rebased,) = save(meddled, lake, "t")
    assert rebased.rebases == 1  # appends do not overlap: it took the next number
    with pytest.raises(CommitConflict):
        save(meddled, lake, "t", mode="overwrite")
    with pytest.raises(PySparkException, match="CommitConflict"):
        meddled.write.format("crdtcat").mode("overwrite").save(f"{lake.url}/t")
    wanted = [0, 1, 2, 3, 10, 11, 12, 13, 100, 100, 100]
    assert sorted(table.read().column("id").to_pylist()) == wanted
    assert len(save(spark.range(20, 24, 1, 4), lake, "t", commit="task")) == 4
    assert table.head().version == 9  # history is serial: every commit has a number of its own
    for frame in (load(spark, lake, "t"), spark.read.format("crdtcat").load(f"{lake.url}/t")):
        assert values(frame) == values(table.read())
    (replaced,) = save(spark.range(2), lake, "t", mode="overwrite")
    assert replaced.operation == "overwrite"
    assert sorted(table.read().column("id").to_pylist()) == [0, 1]
