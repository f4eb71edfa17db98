"""Spark: tables as DataFrames, in batches and in streams. Needs `pip install 'crdtcat[spark]'` and Java.

`register(spark)`, then `spark.read.format("crdtcat")` and `df.write.format("crdtcat")`; or `load` and `save`,
which can do more than Spark lets a format do. See docs/spark.md.
"""

try:
    import pyspark as _pyspark  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "crdtcat.spark needs pyspark: pip install 'crdtcat[spark]'", name=error.name
    ) from error

from crdtcat.spark.importing import import_parquet
from crdtcat.spark.loading import load
from crdtcat.spark.log_upkeep import checkpoint, collect
from crdtcat.spark.registering import register
from crdtcat.spark.saving import foreach_batch, save
from crdtcat.spark.source import CrdtcatSource
from crdtcat.spark.upkeep import compact, verify

__all__ = [
    "CrdtcatSource",
    "checkpoint",
    "collect",
    "compact",
    "foreach_batch",
    "import_parquet",
    "load",
    "register",
    "save",
    "verify",
]
