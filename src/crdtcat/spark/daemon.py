"""Python workers of Spark that start with crdtcat loaded: for sessions whose setting
`spark.python.daemon.module` is `crdtcat.spark.daemon`. Nothing imports this.

Spark forks the workers that run tasks from a daemon, and what the daemon has imported is there in every fork.
Spark's own imports next to nothing, so each new worker imports pyarrow, pandas and crdtcat anew, about a
second of a core. (Planners, which Spark asks for a source's columns, partitions and commits, have daemons of
their own, which no setting changes.)

Spark imports nothing before a fork because libraries may start threads, which do not live on in the child.
Two are started here, by OpenBLAS (numpy) and by jemalloc (pyarrow). Both libraries know of forks and start
theirs again; crdtcat's own threads start with what is first read or written, never on import. Tests hold it.
"""

from __future__ import annotations

import gc
import importlib
import warnings
from typing import Final

from pyspark.daemon import manager

LOADED: Final = ("crdtcat.spark", "pandas", "pyspark.sql.pandas.serializers", "pyspark.worker")


def load() -> None:
    """Import what tasks will, and set it apart: no fork's collector walks through it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns of a pandas newer than itself
        for module in LOADED:
            importlib.import_module(module)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    manager()
