"""Columns without a null: what statistics say of a pinned snapshot, and what is done should they be wrong.

Spark looks at every cell of a column that may hold nulls before it takes its value, which is a good part of
what it does with Arrow batches. Where no row of a snapshot is null it need not, and a snapshot never changes:
a frame of one may declare such columns not null, whatever the table allows. A stream may not, since it shows
rows that are still to come.

Spark would show anything at all for a null where it was told that there is none, so tasks look once more, at
the count that every batch has of them anyway."""

from __future__ import annotations

import pyarrow as pa

from crdtcat.errors import Corrupt
from crdtcat.scan.plan import Plan
from crdtcat.scan.source import HeadStatistics


def without_nulls(plan: Plan) -> frozenset[str]:
    """The columns that hold a value in every row that a plan may return, as far as statistics tell.

    Rows merged by key are left out of account: their cells come from several chunks, and any may be missing.
    No request; O(columns x (chunks + patches)) in arrays."""
    if not len(plan.chunks) or (plan.merge is not None and plan.merge.groups):
        return frozenset()
    statistics = HeadStatistics(plan.head, plan.chunks)
    found = {column.name: statistics.bounds(column.name) for column in plan.columns}
    return frozenset(
        name for name, bounds in found.items() if bounds is not None and bool((bounds.nulls == 0).all())
    )


def declared(schema: pa.Schema, not_null: frozenset[str]) -> pa.Schema:
    """A schema whose columns `not_null` are declared so."""
    return pa.schema([field.with_nullable(field.nullable and field.name not in not_null) for field in schema])


def require_none(table: pa.Table, not_null: frozenset[str], name: str) -> pa.Table:
    """The rows of the table `name`, if their columns `not_null` hold no null. Raises `Corrupt`, naming one
    that does."""
    for column in table.schema.names if not_null else ():
        if column in not_null and table.column(column).null_count:
            raise Corrupt(
                f"statistics of table {name!r}",
                f"column {column!r} has nulls, and they count none; without not_null the rows can be read",
            )
    return table
