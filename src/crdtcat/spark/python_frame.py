"""A frame that our own reader reads in tasks: an Arrow function over one row for each share.

Spark makes rows of an Arrow function's batches once; of a Python source's twice, and counts them for its
metrics besides. What it does not know of a function is how much comes out. It takes the size of what goes in,
here a few numbers, and would send a table of any size to every worker to join it. So as many numbers go in as
say whether the table is small enough for that; all but one for each share are left out before the function
is called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)

from crdtcat.spark.reading import Selection

NUMBER_BYTES: Final = 8  # what Spark counts for each number of a range
STATED_MIN: Final = 64 * 2**20
"""A table of this size is said to be at least so large, though its session sends none to all workers: the
setting may be changed before the frame is joined. 8,000,000 numbers take 0.04 s of a core, once an action."""
_BROADCAST: Final = "spark.sql.autoBroadcastJoinThreshold"


def python_frame(spark: Any, selection: Selection, partition_bytes: int | None = None) -> Any:
    """What our reader reads of a selection: one task for each share. No request."""
    shares = selection.shares(partition_bytes) or [()]
    each = numbers_each(selection.nbytes(), len(shares), _sent_to_all(spark))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from selection.batches(shares[number // each])

    numbers = spark.range(0, len(shares) * each, 1, len(shares))
    first = numbers if each == 1 else numbers.where(F.col("id").bitwiseAND(each - 1) == 0)
    return first.mapInArrow(read, selection.schema())


def numbers_each(nbytes: int, shares: int, sent_to_all: int) -> int:
    """How many numbers stand for one share, a power of two: by them Spark takes a table for one to two times
    as large as it is, or only for larger than what it sends to all workers."""
    stated = min(nbytes, max(2 * sent_to_all, STATED_MIN))
    return 1 << (stated // (NUMBER_BYTES * shares)).bit_length()


def _sent_to_all(spark: Any) -> int:
    """Up to which size the session sends a table to all workers to join it; 0 if never."""
    found = re.fullmatch(r"(\d+)([kmgtp]?)b?", spark.conf.get(_BROADCAST).strip().lower())
    return 0 if found is None else int(found[1]) << (10 * " kmgtp".index(found[2] or " "))
