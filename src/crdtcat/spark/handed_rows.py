"""Which rows a plan hands to Python before its own: those that functions within it take.

How large Spark's batches are is said for a whole job, not for one of its functions. Features of pictures are
a few numbers, and the function that makes them takes pictures: what is enough for its results is not for
what it is given. So whoever bounds the batches of a write asks here what else that bound would be for.

Only plans are looked at. What lies behind an RDD, such as a batch of a stream, does not show what runs in
it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.types import StructType

NODES_MAX: Final = 200  # of a plan; Spark is asked some questions about each, which takes about 1 ms
_FUNCTIONS: Final = ("MapInArrow", "MapInPandas")  # take the rows of what is below them, as they are
_OPAQUE: Final = ("LogicalRDD", "ExternalRDD")
_TABLE_FUNCTION: Final = "PythonUDTF"


def handed_rows(df: Any) -> list[StructType] | None:
    """The schemas of the rows that functions within a DataFrame's plan take; `None` if the plan does not say,
    which is so for what takes values made for it (`pandas_udf`, groups). No job."""
    python_udf = df.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    waiting: list[Any] = [df._jdf.queryExecution().analyzed()]
    found: list[StructType] = []
    for _ in range(NODES_MAX):
        if not waiting:
            return found
        node = waiting.pop()
        below = list(_items(node.children()))
        kind = node.getClass().getSimpleName()
        if kind in _FUNCTIONS:
            found += [StructType.fromJson(json.loads(child.schema().json())) for child in below]
        elif kind in _OPAQUE or _has_values_made(node, kind, python_udf):
            return None
        waiting += [*below, *_items(node.subqueries())]
    return None


def _has_values_made(node: Any, kind: str, python_udf: Any) -> bool:
    """Whether a node itself has Python work out values, or a table, from values made for it."""
    if kind == "Generate":
        return bool(node.generator().getClass().getSimpleName() == _TABLE_FUNCTION)
    if not node.containsPattern(python_udf):  # neither here nor below
        return False
    return any(each.containsPattern(python_udf) for each in _items(node.expressions()))


def _items(sequence: Any) -> Iterator[Any]:
    """What is in a sequence of Scala's."""
    return (sequence.apply(at) for at in range(sequence.size()))
