"""The columns of a change feed, beside the table's own."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as st

from crdtcat.errors import InvalidArgument

CHANGE_FIELDS: Final = (
    st.StructField("_change_type", st.StringType(), nullable=False),
    st.StructField("_version", st.StringType(), nullable=False),
    st.StructField("_committed_at", st.TimestampType(), nullable=False),
)
"""What kind of change, by which version, and when that was."""


def change_schema(schema: st.StructType) -> st.StructType:
    """The columns of a change feed. Raises `InvalidArgument` if the table has one of those names, which Spark
    takes for the same in any case.

    The table's own may hold nulls, whatever the table says: rows from before a column was there have none."""
    ours = {field.name.casefold() for field in CHANGE_FIELDS}
    taken = [name for name in schema.fieldNames() if name.casefold() in ours]
    if taken:
        raise InvalidArgument(f"the table has a column {taken[0]!r}, as the change feed does: rename it")
    own = [st.StructField(field.name, field.dataType, nullable=True) for field in schema.fields]
    return st.StructType([*own, *CHANGE_FIELDS])
