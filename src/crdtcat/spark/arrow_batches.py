"""The batches in which Spark hands rows to Python, bounded by rows where that is enough.

Spark ends a batch at 10,000 rows or at 64 MiB. To know how large a batch is it adds up all its buffers again
for every row, which takes two thirds of the time in which a task makes rows into batches: as much as Python
takes to cut, hash, encode and store them. Where a row can be said not to be large, the number of rows says
enough, and Spark is told to count nothing else while rows are written.

A row of numbers and times is as large as its columns. A text may have any size: a row with texts is taken for
one of 32 KiB, so that some 2,000 come at a time; of greater texts a batch is greater than Spark would have
it. Bytes, lists and maps, which often are large, are counted by Spark as before; so are writes whose plan
hands such rows to a Python function, or does not tell what it hands to one (`crdtcat.spark.handed_rows`), and
everything in sessions that set the limit in bytes themselves, to whatever value.

Tasks look for both limits among the properties of their job, where Spark puts what the session has set. What
it has not set is put there here: properties are the thread's own, so no setting is changed, and nothing that
other threads run, streams that they start or sessions that are made meanwhile are any different."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from py4j.clientserver import ClientServer
from pyspark import SparkContext
from pyspark.sql import types as spark_types

from crdtcat.spark.handed_rows import handed_rows

FORMAT: Final = "crdtcat"
BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
NOT_COUNTED: Final = str(2**31 - 1)  # what Spark takes for no limit
BYTES_WANTED: Final = 64 * 2**20  # Spark's own limit
TEXTS_BYTES: Final = 2**15  # what all texts of a row are taken for together
VALUE_BYTES: Final = 16  # of what has a fixed size, at most: a decimal
_MARK: Final = "writes_crdtcat"  # what a `save` that is wrapped already is known by
_FIXED: Final = (
    spark_types.NumericType,
    spark_types.DatetimeType,
    spark_types.BooleanType,
    spark_types.NullType,
    spark_types.DayTimeIntervalType,
    spark_types.YearMonthIntervalType,
)
_TEXTS: Final = (spark_types.StringType, spark_types.CharType, spark_types.VarcharType)


def rows_enough(schema: Any) -> int | None:
    """How many rows of a Spark schema are not too much at a time; `None` if nobody can say. No request."""
    found = _fixed_bytes(schema)
    if found is None:
        return None
    nbytes, texts = found
    return max(1, BYTES_WANTED // max(1, nbytes + (TEXTS_BYTES if texts else 0)))


def _fixed_bytes(of: Any) -> tuple[int, bool] | None:
    """The bytes of all that has a fixed size, at most, and whether there are texts besides."""
    if isinstance(of, spark_types.StructType):
        within = [_fixed_bytes(field.dataType) for field in of.fields]
        known = [found for found in within if found is not None]
        if len(known) < len(within):
            return None
        return sum(nbytes for nbytes, _ in known) + 1, any(texts for _, texts in known)
    if isinstance(of, _TEXTS):
        return VALUE_BYTES, True
    return (VALUE_BYTES, False) if isinstance(of, _FIXED) else None


@contextmanager
def bounded_by_rows(df: Any) -> Iterator[None]:
    """What this thread has Spark run within hands rows to Python without counting bytes, if the rows of this
    DataFrame, and those that functions within it take, are known not to be large.

    Does nothing on Spark Connect, nor where threads of Python are none of the JVM's.
    """
    limits = _limits(df)
    if not limits:
        yield
        return
    context = df.sparkSession.sparkContext
    before = {name: context.getLocalProperty(name) for name in limits}
    _put(context, limits)
    try:
        yield
    finally:
        _put(context, before)


def _limits(df: Any) -> dict[str, str | None]:
    """The properties of a job that bound its batches by rows; none if it is not to be told."""
    spark = df.sparkSession
    if not hasattr(spark, "_jsparkSession") or not isinstance(SparkContext._gateway, ClientServer):
        return {}
    if spark.conf.get(BATCH_BYTES, None) is not None:
        return {}
    rows = _rows_within(df)
    if rows is None:
        return {}
    limit = int(spark.conf.get(BATCH_ROWS))
    if spark.conf.get(BATCH_ROWS, None) is None:
        return {BATCH_BYTES: NOT_COUNTED, BATCH_ROWS: str(min(rows, limit))}
    # What the session has set takes the place of the property.
    return {BATCH_BYTES: NOT_COUNTED} if 0 < limit <= rows else {}


def _rows_within(df: Any) -> int | None:
    """How many rows are not too much at a time, of any that a plan hands to Python; `None` if unknown."""
    most = rows_enough(df.schema)
    within = None if most is None else handed_rows(df)
    if most is None or within is None:
        return None
    each = [rows_enough(schema) for schema in within]
    known = [rows for rows in each if rows is not None]
    return min([most, *known]) if len(known) == len(each) else None


def _put(context: Any, properties: Mapping[str, str | None]) -> None:
    for name, value in properties.items():
        context.setLocalProperty(name, value)


def write_by_rows(spark: Any) -> None:
    """Have `df.write.format("crdtcat").save()` hand rows on so. Again changes nothing; nor on Spark Connect.

    `save` of Spark's writer is wrapped: it looks at writers of this format, and hands all others on.
    """
    if not hasattr(spark, "_jsparkSession"):
        return
    from pyspark.sql import DataFrameWriter  # noqa: PLC0415 (beside its use)

    if not hasattr(DataFrameWriter.save, _MARK):
        DataFrameWriter.save = _wrapped(DataFrameWriter.save)


def _wrapped(save: Callable[..., None]) -> Callable[..., None]:
    @wraps(save)
    def saved(self: Any, path: Any = None, format: str | None = None, *more: Any, **options: Any) -> None:
        if format is not None:
            self.format(format)
        if self._jwrite.source().lower() != FORMAT:
            save(self, path, None, *more, **options)
            return
        with bounded_by_rows(self._df):
            save(self, path, None, *more, **options)

    setattr(saved, _MARK, True)
    return saved
