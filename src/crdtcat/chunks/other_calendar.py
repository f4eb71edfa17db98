"""Files whose old days are of another calendar, by their own word.

Spark, told so (`LEGACY`), writes days before 15 October 1582 as the Julian calendar counts them, and moments
before 1900 by what clocks of its session's zone showed then. It notes that in the file, and undoes it when it
reads the file again. Anybody else who reads such a file is off by days. Values since then are the same in
both, so files without older ones are as good as any.

Reads nothing by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.errors import InvalidArgument

_NOTES: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_FIRST_DAY: Final = date(1582, 10, 15)
_FIRST_MOMENT: Final = datetime(1900, 1, 1, tzinfo=UTC)


def is_noted(notes: Mapping[bytes, bytes] | None) -> bool:
    """Whether a file says so of itself."""
    return any(note in (notes or {}) for note in _NOTES)


def require_none_older(table: pa.Table, url: str) -> None:
    """Whether all days and moments of such a file are the same in both calendars. O(rows).

    Raises `InvalidArgument`, naming file and column."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks:
            for leaf in _days(chunk):
                first = pa.scalar(_FIRST_DAY if pt.is_date(leaf.type) else _FIRST_MOMENT, leaf.type)
                least = pc.min(leaf)
                if least.is_valid and pc.less(least, first).as_py():
                    raise InvalidArgument(
                        f"{url}: column {name!r} has values before {first}, which its writer, Spark in a "
                        "LEGACY mode, counted in another calendar: have Spark read the file, and save() it"
                    )


def _days(array: pa.Array) -> Iterator[pa.Array]:
    """Days and moments at any depth."""
    t = array.type
    if pt.is_struct(t):
        for i in range(t.num_fields):
            yield from _days(array.field(i))
    elif pt.is_map(t):
        yield from _days(array.keys)
        yield from _days(array.items)
    elif t.num_fields:
        yield from _days(array.values)
    elif pt.is_date(t) or (pt.is_timestamp(t) and t.tz is not None):
        yield array
