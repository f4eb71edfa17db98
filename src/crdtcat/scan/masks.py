"""Which rows a filter keeps, for columns of any type.

Arrow compares few of its types and filters not all: it has no kernels for views (what polars hands over) or
run ends. So a filter is bound to, and evaluated on, what those columns hold, in the units they hold it in,
which are those of their statistics; the mask is applied to stored arrays, which Arrow can always filter.
Types that Arrow compares are left as they are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.type_parts import around, is_encoded, parts
from crdtcat.chunks.types import cast_lossless
from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters import RowFilter


def filter_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that filters over these columns are bound to."""
    return pa.schema([pa.field(item.name, _comparable(item.type), item.nullable) for item in schema])


def mask(filter: RowFilter, table: pa.Table) -> pa.ChunkedArray:
    """Per row whether the filter keeps it; null where it cannot tell, which drops the row.

    `table` has at least the filter's columns, in the types of the table it was bound for. Raises
    `InvalidFilter` where the filter fails on a value: a division by zero, a text that is no number.
    """
    # Brings in pyarrow.dataset and, where it is installed, pandas: only for those who filter.
    from pyarrow import acero  # noqa: PLC0415

    arrays = [_evaluated(table.column(name)) for name in filter.columns]
    if not arrays:
        arrays = [pa.chunked_array([pa.nulls(table.num_rows)])]
    looked_at = pa.Table.from_arrays(arrays, names=list(filter.columns) or [""])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(looked_at))
    project = acero.Declaration("project", acero.ProjectNodeOptions([filter.expression], ["kept"]))
    try:
        return acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)["kept"]
    except pa.ArrowException as error:
        raise InvalidFilter(f"the filter {filter} fails on a row: {error}") from error


def with_kernels(table: pa.Table) -> pa.Table:
    """The same rows in types that Arrow computes with."""
    return pa.Table.from_arrays([_evaluated(column) for column in table.columns], names=table.column_names)


def _evaluated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type = _comparable(column.type)
    return column if type == column.type else cast_lossless(column, type)


def _comparable(type: pa.DataType) -> pa.DataType:
    """The type without what Arrow has no kernels for, else as it is: in another unit are other values."""
    if not _has_no_kernels(type):
        return type
    if pt.is_string_view(type) or pt.is_binary_view(type):
        return pa.string() if pt.is_string_view(type) else pa.binary()
    if is_encoded(type) or isinstance(type, pa.BaseExtensionType):
        return _comparable(parts(type)[0])
    return around(type, [_comparable(part) for part in parts(type)])


def _has_no_kernels(type: pa.DataType) -> bool:
    if pt.is_string_view(type) or pt.is_binary_view(type) or pt.is_run_end_encoded(type):
        return True
    return any(_has_no_kernels(part) for part in parts(type))
