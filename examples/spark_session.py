"""A small, quiet Spark session for the examples: two cores, tasks tried four times, workers that find
crdtcat."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_session(name: str) -> Iterator[Any]:
    """A session on this machine, stopped at the end; the one that runs already, if there is one."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SystemExit(
            "Spark needs Java 17: install one (a package such as openjdk-17-jre-headless), try again"
        )
    from pyspark.sql import SparkSession  # noqa: PLC0415 (takes seconds: first see whether there is a Java)

    running = SparkSession.getActiveSession()
    if running is not None:
        with _no_word_of_pandas():
            yield running
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers take whatever python3 is on the path
    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName(name)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.python.daemon.module", "crdtcat.spark.daemon")  # workers start with crdtcat loaded
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
    )
    with _silenced():
        spark = builder.getOrCreate()
    try:
        with _no_word_of_pandas():
            yield spark
    finally:
        spark.stop()


@contextmanager
def _no_word_of_pandas() -> Iterator[None]:
    """PySpark warns of a pandas that is newer than it is; nothing here goes through pandas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


@contextmanager
def _silenced() -> Iterator[None]:
    """What is started within has nowhere to print: the JVM's chatter would hide the story."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
