"""`register`: the format made known to a session, its secrets to the session's redaction, and the session to
the thread."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from crdtcat.spark.saving import require_session
from crdtcat.spark.source import CrdtcatSource

HIDDEN: Final = "storage_options"
_REDACTED: Final = "spark.sql.redaction.options.regex"


def register(spark: Any) -> None:
    """Make `format("crdtcat")` known to a session, and have Spark keep `storage_options` to itself.

    Spark finds the format of an installed package by itself. But what its pages and event logs show of a
    statement such as `CREATE TEMPORARY VIEW ... OPTIONS (...)` are all options except those whose names it
    was told to hide: `storage_options` is one of them from here on. And what is written by a format is looked
    up in the session of the calling thread, of which a thread of Python's has none: call this in it, and it
    has this one. A second time changes nothing. No job.

    Raises `InvalidArgument` for what is no session."""
    require_session(spark)
    if SparkSession.getActiveSession() is None:
        spark.createDataFrame([], "id long")  # has Spark take this session for the thread's
    spark.dataSource.register(CrdtcatSource)
    hidden = spark.conf.get(_REDACTED)
    if HIDDEN not in hidden:
        spark.conf.set(_REDACTED, f"{hidden}|{HIDDEN}" if hidden else HIDDEN)
