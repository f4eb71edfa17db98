"""Import of Parquet folders in tasks: what the local import gives, chunk by chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.maintenance.progress import Progress
from crdtcat.spark import import_parquet, load
from crdtcat.testing.s3_server import S3Server
from tests.spark.rows import values
from tests.spark.test_errors import no_job


def lake(path: Path, **options: Any) -> Catalog:
    return Catalog(path / "lake", chunk_rows_min=50, chunk_rows_target=200, chunk_rows_max=400, **options)


def folder(path: Path, count: int = 6) -> Path:
    source = path / "in"
    source.mkdir()
    for number in range(count):
        size = 30 if number % 3 == 2 else 250
        table = pa.table({"id": range(1000 * number, 1000 * number + size), "s": [f"v{number}"] * size})
        pq.write_table(table, source / f"{number:03}.parquet", row_group_size=100)
    return source


@pytest.mark.parametrize("commit", ["job", "file"])
def test_the_same_as_the_local_one(spark: Any, tmp_path: Path, commit: str) -> None:
    catalog, source = lake(tmp_path), folder(tmp_path)
    told: list[Progress] = []
    there = import_parquet(spark, catalog, "there", source, commit=commit, progress=told.append)
    here = catalog.import_parquet("here", source, commit=commit)
    assert (there.files, there.rows, there.rows_as_they_were, len(there.versions)) == (
        here.files, here.rows, here.rows_as_they_were, len(here.versions),
    )  # fmt: skip
    assert there.rows_as_they_were == 1000
    heads = [catalog.table(name).head() for name in ("here", "there")]
    if commit == "job":
        assert [chunk.hash for chunk in heads[0].chunks] == [chunk.hash for chunk in heads[1].chunks]
        assert catalog.read("there").equals(pq.read_table(source))
    assert sorted(chunk.hash for chunk in heads[0].chunks) == sorted(chunk.hash for chunk in heads[1].chunks)
    assert values(load(spark, catalog, "there")) == values(spark.read.parquet(str(source)))
    assert told[-1].done == told[-1].total > 1
    again = import_parquet(spark, catalog, "there", f"{source}/", commit=commit)
    assert (again.rows, again.skipped) == (0, 6)
    pq.write_table(pa.table({"id": [-1], "s": ["new"]}), source / "zz.parquet")
    grown = import_parquet(spark, catalog, "there", source, commit=commit)
    assert (grown.rows, grown.skipped) == (1, 6)
    assert import_parquet(spark, catalog, "there", source, commit="file").rows == 0
    assert catalog.import_parquet("there", source).rows == 0


def test_what_spark_writes(spark: Any, tmp_path: Path) -> None:
    """Files by Spark's own writer, with page indexes, lists and partition folders, read by both readers."""
    df = spark.range(0, 600, 1, 2).selectExpr(
        "id", "cast(id as decimal(10,2)) as d", "array(id, null) as l",
        "if(id < 0, null, struct(nullif(id, 1) as a, nullif('x', 'y') as b)) as s",
        "timestamp_micros(id) as at", "cast(id % 2 as int) as p",
    )  # fmt: skip
    flat, parted = tmp_path / "flat", tmp_path / "parted"
    df.drop("at").write.parquet(str(flat))
    df.write.partitionBy("p").parquet(str(parted))
    catalog = lake(tmp_path)
    for name, source, taken in (("flat", flat, 600), ("parted", parted, 0)):
        done = import_parquet(spark, catalog, name, source)
        assert (done.rows, done.rows_as_they_were) == (600, taken)
        columns = [column for column in df.columns if name == "parted" or column != "at"]
        assert values(load(spark, catalog, name).select(*columns)) == values(df.select(*columns))
        assert catalog.table(name).verify("content").ok
    assert values(catalog.read("flat")) == values(df.drop("at"))


def test_errors_come_before_tasks(spark: Any, tmp_path: Path) -> None:
    catalog, source = lake(tmp_path), folder(tmp_path, 2)
    with no_job(spark):
        with pytest.raises(InvalidArgument, match="no such folder or file"):
            import_parquet(spark, catalog, "t", tmp_path / "nowhere")
        with pytest.raises(InvalidArgument, match="key='id': pass a list"):
            import_parquet(spark, catalog, "t", source, key="id")
        pq.write_table(pa.table({"id": ["text"]}), source / "zz.parquet")
        with pytest.raises(SchemaMismatch, match=r"zz\.parquet: column 'id'"):
            import_parquet(spark, catalog, "t", source)
        (source / "zz.parquet").write_bytes(b"nothing at all")
        with pytest.raises(InvalidArgument, match=r"zz\.parquet is not a Parquet file"):
            import_parquet(spark, catalog, "t", source)
    assert catalog.tables() == []


def test_what_progress_raises_cancels_the_tasks(spark: Any, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.what == "importing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_parquet(spark, lake(tmp_path), "t", folder(tmp_path, 3), progress=stop)
    assert lake(tmp_path).tables() == []


@pytest.mark.s3
def test_from_s3_to_s3(spark: Any, s3_server: S3Server, s3_url: str, tmp_path: Path) -> None:
    storage = s3_server.storage_options
    catalog = Catalog(f"{s3_url}/lake", storage)
    store = Catalog(f"{s3_url}/in", storage).store
    for file in folder(tmp_path, 3).iterdir():
        store.put(f"a=1/{file.name}", file.read_bytes())
    done = import_parquet(spark, catalog, "t", f"{s3_url}/in", storage_options=storage)
    assert done.rows == 530
    assert catalog.read("t", ["a"]).column("a").unique().to_pylist() == [1]
