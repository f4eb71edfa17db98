"""Batch reads and writes through the format, and through load and save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.spark import load, save


def collected(df: Any, by: str = "id") -> list[Any]:
    return sorted((row.asDict(recursive=True) for row in df.collect()), key=lambda row: row[by])


@pytest.mark.parametrize("commit", ["job", "task"])
def test_what_is_written_is_read_back(spark: Any, tmp_path: Path, commit: str) -> None:
    url = str(tmp_path / "lake")
    df = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 as shop", "cast(id as string) as name")
    df.write.format("crdtcat").option("catalog", url).option("table", "t").option("commit", commit).mode(
        "append"
    ).save()
    table = Catalog(url).table("t")
    assert table.read().sort_by("id").column("name").to_pylist() == [str(n) for n in range(1000)]
    assert table.head().version == (1 if commit == "job" else 4)
    back = spark.read.format("crdtcat").load(f"{url}/t")
    assert back.schema.simpleString() == "struct<id:bigint,shop:bigint,name:string>"
    assert collected(back) == collected(df)
    assert collected(load(spark, url, "t")) == collected(df)
    assert load(spark, url, "t").filter("shop = 3").count() == df.filter("shop = 3").count()
