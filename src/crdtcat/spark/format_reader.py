"""`spark.read.format("crdtcat").load()` in a registered session: our plan, and not that of a Python source.

It reads what the source reads, by the same reader, from the same options, pinned at the same moment. Only
how batches become Spark's rows differs (`crdtcat.spark.python_frame`): with a source, that alone takes as
long as all of a native scan. Spark offers no door for this, so `load` of its reader is wrapped: it looks at
readers of this format, and hands all others on. What the source does and a frame cannot is left to the
source: changes, an error about a schema that was given, several paths, and SQL, which never comes by here.

Sessions on a remote server (Spark Connect) are left alone: their client may not reach the catalog."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from crdtcat.spark.options import SourceOptions, parse_options
from crdtcat.spark.pinned import pin
from crdtcat.spark.python_frame import python_frame
from crdtcat.spark.reading import selected

FORMAT: Final = "crdtcat"
READ_BY: Final = "spark.crdtcat.read"
"""The session's setting: `function` after `register`, unless it was set; anything else, such as `source`,
leaves reading to the source."""
FUNCTION: Final = "function"
_MARK: Final = "reads_crdtcat"  # what a `load` that is wrapped already is known by


def read_by_function(spark: Any) -> None:
    """Have `spark.read.format("crdtcat").load()` of a session planned here. Again changes nothing."""
    if not hasattr(spark, "_jsparkSession"):
        return
    if spark.conf.get(READ_BY, None) is None:
        spark.conf.set(READ_BY, FUNCTION)
    reader = type(spark.read)
    if not hasattr(reader.load, _MARK):
        reader.load = _wrapped(reader.load)


def _wrapped(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def loaded(
        self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> Any:
        if format is not None:
            self.format(format)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        frame = _frame(self, path)
        return load(self, path) if frame is None else frame

    setattr(loaded, _MARK, True)
    return loaded


def _frame(reader: Any, path: Any) -> Any:
    """The frame that a reader of Spark's is asked for, or `None` if that is Spark's to make."""
    spark, asked = reader._spark, reader._jreader
    if asked.source().lower() != FORMAT or spark.conf.get(READ_BY, None) != FUNCTION:
        return None
    given = dict(spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(asked.extraOptions()))
    if asked.userSpecifiedSchema().isDefined() or not (path is None or isinstance(path, str)):
        return None
    if path is not None and "path" in given:
        return None
    options = parse_options(given if path is None else {**given, "path": path}, "batch")
    return None if options.changes else _pinned_frame(spark, options)


def _pinned_frame(spark: Any, options: SourceOptions) -> Any:
    """What the source's reader would read. Costs a head, on the driver."""
    catalog = options.open(upkeep=False)
    pinned = pin(catalog, catalog.table(options.table, options.branch), options.at)
    return python_frame(spark, selected(pinned, options), options.partition_bytes)
