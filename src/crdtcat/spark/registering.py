"""`register`: the format made known to a session, its secrets to the session's redaction, and the session to
the thread."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from crdtcat.spark.arrow_batches import write_by_rows
from crdtcat.spark.format_reader import read_by_function
from crdtcat.spark.saving import require_session
from crdtcat.spark.source import CrdtcatSource

HIDDEN: Final = "storage_options"
_OPTIONS: Final = "spark.sql.redaction.options.regex"
_TEXTS: Final = "spark.sql.redaction.string.regex"
_ALL_TEXTS: Final = "spark.redaction.string.regex"  # what counts where the one before is not set
_WITHIN: Final = r"\{[^{}]*+(?:\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}[^{}]*+)*+\}"
HIDDEN_TEXT: Final = rf"{HIDDEN}(?:\W{{1,4}}{_WITHIN})?[^\n]*"
"""The option and its value in a plan: JSON, perhaps of several lines, and in any case the rest of the line.
Of some statements, such as `CREATE TABLE`, plans show options without regard to their names."""


def register(spark: Any) -> None:
    """Make `format("crdtcat")` known to a session, have `spark.read` plan it as `load` does, and have Spark
    keep `storage_options` to itself.

    Spark finds the format of an installed package by itself. But what its pages and event logs show of a
    statement such as `CREATE TEMPORARY VIEW ... OPTIONS (...)` are all options except those that it was told
    to hide: `storage_options` is one of them from here on, by name and in the text of plans. And what is
    written by a format is looked up in the session of the calling thread, of which a thread of Python's has
    none: call this in it, and it has this one. A second time changes nothing. No job.

    `spark.read.format("crdtcat").load()` then reads by an Arrow function instead of a Python source, which
    takes three quarters of the time. `DataFrameReader.load` is wrapped for it, once in a process, and looks
    at readers of this format in sessions whose setting `spark.crdtcat.read` is `function`, as it is from here
    on; say `source` there to have the source back.

    `DataFrameWriter.save` is wrapped as well: in jobs that write rows of numbers, times and texts by this
    format, Spark bounds the batches it hands to Python by their rows alone (`crdtcat.spark.arrow_batches`),
    unless `spark.sql.execution.arrow.maxBytesPerBatch` was set. To count the bytes takes it longer than the
    rest.

    Raises `InvalidArgument` for what is no session."""
    require_session(spark)
    if SparkSession.getActiveSession() is None:
        spark.createDataFrame([], "id long")  # has Spark take this session for the thread's
    spark.dataSource.register(CrdtcatSource)
    read_by_function(spark)
    write_by_rows(spark)
    _hide(spark, _OPTIONS, spark.conf.get(_OPTIONS), HIDDEN)
    _hide(spark, _TEXTS, spark.conf.get(_TEXTS, "") or spark.conf.get(_ALL_TEXTS, ""), HIDDEN_TEXT)


def _hide(spark: Any, setting: str, hidden: str, more: str) -> None:
    """Have a pattern of the session's match more."""
    if more not in hidden:
        spark.conf.set(setting, f"{hidden}|{more}" if hidden else more)
