"""Streaming ingest: more rows than fit in memory, in one pass, visible all at once.

Run with `python -m examples.streaming_ingest`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crdtcat import Catalog

BATCHES, ROWS = 60, 20_000


def sensor() -> Iterator[pa.RecordBatch]:
    """Batches from somewhere, one at a time."""
    random = np.random.default_rng(1)
    for number in range(BATCHES):
        yield pa.record_batch({"batch": np.full(ROWS, number), "value": random.normal(size=ROWS)})


def main() -> None:
    """Write with a small window, read with a small window, copy a table without holding it."""
    # A stream holds about as much as a segment.
    with tempfile.TemporaryDirectory() as folder, Catalog(folder, segment_bytes=4 * 2**20) as cat:
        readings = cat.create_table("readings")

        with readings.stream(metadata={"source": "sensor 7"}) as stream:
            for batch in sensor():
                stream.write(batch)
                if stream.rows == BATCHES * ROWS // 2:
                    print(f"half way: {stream.rows:,} rows taken, {readings.scan().count()} visible")
        print(stream.version)

        # Leaving by an error leaves nothing behind that anybody can see.
        try:
            with readings.stream() as broken:
                broken.write(next(sensor()))
                raise RuntimeError("the sensor fell over")
        except RuntimeError as error:
            print(f"{error}: still {readings.scan().count():,} rows")

        # Reading is a stream too: batch by batch, a bounded window ahead.
        total = sum(float(np.asarray(batch["value"]).sum()) for batch in readings.scan(["value"]).to_reader())
        print(
            f"sum of all values: {total:.3f}, peak of Arrow memory: {pa.default_memory_pool().max_memory():,}"
        )

        # A scan is an input like any other.
        cat.commit("large", readings.scan(filter="value > 3"))
        print(f"{cat.table('large').scan().count():,} readings are above 3")


if __name__ == "__main__":
    main()
