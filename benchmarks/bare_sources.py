"""What any Python source of Spark's costs, whoever wrote it: a file for each task, its batches passed on.

One decodes Parquet with pyarrow and does nothing else. The others find batches that are ready, in files
mapped into memory: what is left is Spark's own work, and no source is quicker than the last, which says of
every column that it holds no null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa


def bare_sources(spark: Any, files: list[str], schema: Any, folder: Path) -> dict[str, Any]:
    """Frames over the segments `files`, by what they are called in results; files are made in `folder`."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 (slow)

    paths = [path.removeprefix("file://") for path in files]
    ready = _made_ready(paths, folder)
    tight = StructType([StructField(field.name, field.dataType, nullable=False) for field in schema])
    return {
        "a bare Python source, our segments": _source(spark, "bare", paths, schema, _decoded),
        "a Python source, batches that are ready": _source(spark, "ready", ready, schema, _ready),
        "the same, columns without nulls": _source(spark, "ready_not_null", ready, tight, _not_null),
    }


def _decoded(path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 (runs in a worker)

    yield from pq.ParquetFile(path).iter_batches(65_536, use_threads=False)


def _made_ready(paths: list[str], folder: Path) -> list[str]:
    """The same rows as files of Arrow's own, which need no decoding."""
    folder.mkdir()
    made: list[str] = []
    for path in paths:
        target = folder / f"{len(made)}.arrow"
        batches = list(_decoded(path))
        with pa.ipc.new_file(target, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        made.append(str(target))
    return made


def _ready(path: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as mapped, pa.ipc.open_file(mapped) as reader:
        for at in range(reader.num_record_batches):
            yield reader.get_batch(at)


def _not_null(path: str) -> Iterator[pa.RecordBatch]:
    for batch in _ready(path):
        schema = pa.schema([field.with_nullable(False) for field in batch.schema])
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _source(
    spark: Any, called: str, paths: list[str], schema: Any, rows: Callable[[str], Iterator[pa.RecordBatch]]
) -> Any:
    """A Python source with a task for each path."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: PLC0415 (slow)

    class BareReader(DataSourceReader):  # type: ignore[misc]
        def partitions(self) -> list[Any]:
            return [InputPartition(path) for path in paths]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            return rows(partition.value)

    class BareSource(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return called

        def schema(self) -> Any:
            return schema

        def reader(self, schema: Any) -> BareReader:
            return BareReader()

    spark.dataSource.register(BareSource)
    return spark.read.format(called).load()
