"""Lets Spark find the `crdtcat` format by itself.

Spark imports every top-level module whose name begins with `pyspark_` and takes its `DefaultSource`, so
`spark.read.format("crdtcat")` works without `crdtcat.spark.register`. Nothing else belongs here.
"""

from crdtcat.spark.source import CrdtcatSource as DefaultSource

__all__ = ["DefaultSource"]
