"""S3 from workers, through the real server on loopback: written, streamed and read after forks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.spark import load, save
from crdtcat.testing.s3_server import S3Server
from tests.spark.rows import values

pytestmark = pytest.mark.s3


def test_tasks_reach_s3(spark: Any, s3_server: S3Server, s3_url: str, tmp_path: Path) -> None:
    storage = s3_server.storage_options
    options = {"storage_options": json.dumps(storage), "catalog": s3_url, "table": "t"}
    df = spark.range(0, 400, 1, 4).selectExpr("id", "repeat('x', 500) as text")
    for commit in ("job", "task"):
        df.write.format("crdtcat").options(**options, commit=commit).mode("append").save()
    lake = Catalog(s3_url, storage)
    assert lake.table("t").head().version == 5
    back = spark.read.format("crdtcat").options(**options).load()
    assert values(back) == values(df.union(df)) == values(load(spark, lake, "t"))
    save(spark.range(3), lake, "u", commit="task")
    stream = spark.readStream.format("crdtcat").options(**{**options, "table": "u"}).load()
    writer = stream.writeStream.format("crdtcat").options(**{**options, "table": "copy"})
    writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert values(lake.read("copy")) == values(spark.range(3))
