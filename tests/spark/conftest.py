"""One Spark session for all tests here: real tasks in real Python workers, quick settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

ROOT = Path(__file__).parents[2]


def new_session(master: str, **more: str) -> Any:
    """A session with settings for tests: no user interface, few shuffle partitions, loopback only."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 (a second or two, and only these tests need it)

    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    builder = (
        SparkSession.builder.master(master)
        .appName("crdtcat tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")  # whatever it is, rows come back equal
        .config("spark.driver.memory", "1g")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(paths))
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    )
    for name, value in more.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with two cores, whose tasks are tried four times."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    session = new_session("local[2,4]")
    session.sparkContext.setLogLevel("OFF")
    from crdtcat.spark import register  # noqa: PLC0415 (needs pyspark)

    register(session)
    yield session
    session.stop()
