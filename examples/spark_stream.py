"""Spark streams: a sink that counts every batch once, and a table's changes as a source.

Run with `python -m examples.spark_stream`; it needs Java 17. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from crdtcat import Catalog
from crdtcat.spark import foreach_batch
from examples.spark_session import quiet_session


def finish(writer: Any, checkpoint: Path) -> None:
    """Take what is there, and stop."""
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Files to a table; the table's changes to another table, and to a function."""
    with (
        tempfile.TemporaryDirectory() as name,
        Catalog(Path(name) / "lake") as lake,
        quiet_session("stream") as spark,
    ):
        folder = Path(name)
        rows = spark.range(0, 3_000, 1, 3).selectExpr("id", "id % 2 = 0 as even")
        rows.write.parquet(str(folder / "in"))
        files = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1)

        # The sink: the idempotency key is (query, batch), so a restart adds nothing twice.
        for _ in range(2):
            stream = files.parquet(str(folder / "in"))
            sink = stream.writeStream.format("crdtcat").options(catalog=lake.url, table="numbers")
            finish(sink, folder / "one")
        table = lake.table("numbers")
        print(f"{table.head().row_count:,} rows in {table.head().version} batches")

        # The source: an offset names a snapshot, so late versions are neither lost nor read twice.
        table.update("id = 7", {"even": True})
        table.delete("id >= 2990")
        found: list[Any] = []
        feed = spark.readStream.format("crdtcat").options(catalog=lake.url, table="numbers", changes="true")
        watch = feed.option("start", str(table.history()[2].id)).load().writeStream
        finish(watch.foreachBatch(lambda df, _: found.extend(df.collect())), folder / "two")
        kinds = sorted(
            {(row._change_type, sum(r._change_type == row._change_type for r in found)) for row in found}
        )
        print(f"changes: {kinds}")

        # foreachBatch with everything `save` can do: here, upserts into a table with a key.
        stream = files.parquet(str(folder / "in"))
        upserts = stream.writeStream.foreachBatch(foreach_batch(lake, "halves", key=["even"], commit="task"))
        finish(upserts, folder / "three")
        print(f"the last of each: {sorted(row['even'] for row in lake.read('halves').to_pylist())}")


if __name__ == "__main__":
    main()
