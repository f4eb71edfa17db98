"""Floats that Spark's Parquet reader may not be asked about, and how it is kept from it.

Spark hands conditions on columns to its Parquet reader, which skips row groups that cannot match. For Spark,
NaN equals itself and is above every number, and both zeros are equal. For Parquet, NaN is in no bounds, and
in a dictionary the zeros are two values. So rows would be missing: those with NaN under `x > 1`, those with
-0.0 under `x = 0`. Spark's own tables of such values have the same fault.

A column whose statistics leave no room for either is handed over as it is. Others are wrapped into an
expression that changes no value, and that no reader looks through. Within structs there are no statistics,
and nothing to wrap: there the reader is told to skip nothing.

Pure: no request, no session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)
from pyspark.sql import types as st

from crdtcat.chunks.statistics import value_type
from crdtcat.chunks.types import decode_type
from crdtcat.scan.plan import Plan
from crdtcat.scan.source import HeadStatistics
from crdtcat.scan.units import Sources

_SKIP_NOTHING: Final = {
    "parquet.filter.stats.enabled": "false",
    "parquet.filter.dictionary.enabled": "false",
    "parquet.filter.columnindex.enabled": "false",
    "parquet.filter.record-level.enabled": "false",
}


def doubtful(plan: Plan, chunks: Sequence[int], sources: Sources) -> frozenset[str]:
    """The columns of floats that may hold NaN or a zero in some of the chunks. No request; O(chunks)."""
    floats = [
        column.name
        for column, field in sources
        if field is not None and pt.is_floating(value_type(decode_type(field.type)))
    ]
    if not floats:
        return frozenset()
    statistics = HeadStatistics(plan.head, np.array(chunks, np.int64))
    rows = statistics.rows

    def sure(name: str) -> bool:
        bounds = statistics.bounds(name)
        if bounds is None:
            return False
        apart = bounds.known_min & bounds.known_max & ((bounds.minimum > 0) | (bounds.maximum < 0))
        return bool((apart | (bounds.nulls == rows)).all())

    return frozenset(name for name in floats if not sure(name))


def reader_options(sources: Sources) -> Mapping[str, str]:
    """What Spark's Parquet reader is told where floats lie within structs."""
    types = (decode_type(field.type) for _, field in sources if field is not None)
    return _SKIP_NOTHING if any(_float_within(t) for t in types) else {}


def _float_within(t: pa.DataType) -> bool:
    """Whether a struct has a field of floats, at any depth: Spark hands over no conditions on lists."""
    inner = [value_type(t.field(i).type) for i in range(t.num_fields)] if pt.is_struct(t) else []
    return any(pt.is_floating(part) or _float_within(part) for part in inner)


def kept_back(column: Any, type: st.DataType) -> Any:
    """The same values, of which Spark's Parquet reader is asked nothing."""
    return F.nanvl(column, F.lit(float("nan")).cast(type))
