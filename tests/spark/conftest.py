"""One Spark session for all tests here: real tasks in real Python workers, quick settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jvm import QUICK

ROOT = Path(__file__).parents[2]


def new_session(master: str, settings: dict[str, str] | None = None) -> Any:
    """A session with settings for tests: no user interface, few shuffle partitions, loopback only."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (slow, and only these tests need it)

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # for workers
    builder = SparkSession.builder.master(master).appName("crdtcat tests")
    quick = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.network.timeout": "1200s",  # a machine that stands still for minutes has failed nobody
        # Where a stage's files are lost, Spark strikes out the process that had them. In local mode that is
        # its own, which can never register again: every heartbeat fails, and at the 60th the JVM would exit.
        "spark.executor.heartbeat.maxFailures": str(2**31 - 1),
        "spark.python.daemon.module": "crdtcat.spark.daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.session.timeZone": "America/New_York",  # whatever it is, rows come back equal
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    for name, value in {**quick, **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two cores, whose tasks are tried four times. Nothing is registered: Spark finds it.

    It keeps the log of events from which Spark's own pages are made, and its files where tests find them."""
    own = {
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{tmp_path_factory.mktemp('events')}",
        "spark.eventLog.compress": "false",
    }
    session = new_session("local[2,4]", own)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def registered(spark: Any) -> Any:
    """A second session of the same application, in which the format is read by our own plan."""
    from crdtcat.spark import register  # noqa: PLC0415 (slow, and only these tests need it)

    session = spark.newSession()
    register(session)
    return session
