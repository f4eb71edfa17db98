"""New values for rows, in the forms users write them.

A mapping from columns to constants, to Arrow expressions over the row's old values, or to functions of them;
or a table with a row for each row that is updated. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks import ingest
from crdtcat.chunks.misfits import cast_rows, refusal
from crdtcat.chunks.types import no_rows, restored, roomy, storage_type, to_storage, widen
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch
from crdtcat.limits import CONDITIONS_MAX
from crdtcat.scan.filters.arrow_tree import conditions
from crdtcat.scan.masks import with_kernels
from crdtcat.support.showing import shown
from crdtcat.writing.fit import Known, may_hold
from crdtcat.writing.incoming import Incoming


@dataclass(frozen=True)
class NewValues:
    """What rows are given.

    Attributes:
        by_column: constants, expressions and functions; empty where `table` is given.
        table: the values themselves, a row for each row.
        schema: of the table that is updated.
        needs: columns that have to be read to work them out; `None`: all.
    """

    by_column: Mapping[str, Any]
    table: pa.Table | None
    schema: pa.Schema
    needs: list[str] | None

    @property
    def looks_at(self) -> tuple[str, ...] | None:
        """The columns that the values depend on; `None`: perhaps all."""
        return None if self.needs is None else ()

    def computed(self, rows: pa.Table) -> pa.Table:
        """The new values of some rows. Raises `InvalidArgument` where one cannot be worked out."""
        if self.table is not None:
            return rows.slice(0, 0)
        columns = {name: _column(name, value, rows, self.schema) for name, value in self.by_column.items()}
        return pa.table(columns)

    def gathered(self, parts: list[pa.Table], count: int) -> pa.Table:
        """All new values, for `count` rows. Raises `InvalidArgument` where a table has another number."""
        if self.table is None:
            fields = [self.schema.field(name) for name in self.by_column]
            return _together(parts, fields) if parts else no_rows(pa.schema(fields))
        if self.table.num_rows != count:
            raise InvalidArgument(
                f"{self.table.num_rows:,} rows of new values for {count:,} rows that match; "
                "pass one for each, in their order"
            )
        return self.table


def given_values(values: Any, schema: pa.Schema, known: Known | None) -> NewValues:
    """What a user passed as new values for rows of `schema`; `known`: its columns, which rows without types
    of their own take theirs from.

    Raises:
        InvalidArgument: nothing, or something that holds no values.
        SchemaMismatch: a column that the table does not have, or a value that does not fit it.
    """
    if isinstance(values, Mapping) and not any(_is_column(value) for value in values.values()):
        _check_names(values, schema)
        worked_out = {
            name for name, value in values.items() if isinstance(value, pc.Expression) or callable(value)
        }
        for name, value in values.items():  # one that does not fit is wrong even where no row matches
            if name not in worked_out and not isinstance(value, pa.Scalar):
                _single(name, value, schema.field(name).type)
        looks = bool(worked_out)
        return NewValues(dict(values), None, schema, None if looks else schema.names[:1])
    if values is None or isinstance(values, str | bytes | Number):
        raise InvalidArgument(
            f"values={shown(values)}: pass a dict from columns to new values, as {{'amount': 0}}, or rows"
        )
    rows = Incoming.of(values)
    table = rows.reader(None if rows.name_no_columns else known).read_all()
    _check_names(table.column_names, schema)
    return NewValues({}, table, schema, schema.names[:1])


def _is_column(value: Any) -> bool:
    return isinstance(value, pa.Array | pa.ChunkedArray)


def _check_names(names: Any, schema: pa.Schema) -> None:
    if not len(names):
        raise InvalidArgument("no new values: pass a dict from columns to values, or a table")
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise SchemaMismatch(
            f"column {missing[0]!r} is not in the table, which has {', '.join(schema.names) or 'none yet'}"
        )


def _column(name: str, value: Any, rows: pa.Table, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    held = schema.field(name).type
    if isinstance(value, pc.Expression):
        return _evaluated(name, value, rows)
    if callable(value):
        return _returned(name, value, rows, held)
    single = _single(name, value, held)
    stored = to_storage(single, name).take(pa.array(np.zeros(rows.num_rows, np.int64)))
    return restored([stored], single.type, name)  # by way of storage: Arrow repeats values of few types


def _single(name: str, value: Any, held: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """One row. A Python value in the column's type: taken exactly, as those of appended rows are, or not."""
    if not isinstance(value, pa.Scalar):
        return _taken(name, value, held)
    if value.is_valid:
        return pa.repeat(value, 1)
    return restored([pa.nulls(1, storage_type(value.type, name))], value.type, name)


def _taken(name: str, value: Any, held: pa.DataType) -> pa.ChunkedArray:
    try:
        return ingest.reader([{name: value}], pa.schema([(name, held)])).read_all()[name]
    except SchemaMismatch as error:
        if not isinstance(value, str):
            raise
        raise SchemaMismatch(
            f"{error.args[0]}; a text is a value: what is worked out from columns is an expression, such as "
            f"{{{name!r}: pc.field({name!r}) + 1}} with pyarrow.compute"
        ) from error


def _evaluated(name: str, expression: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    from pyarrow import acero  # noqa: PLC0415 (brings in pyarrow.dataset: only for those who need it)

    count = conditions(expression)
    if count > CONDITIONS_MAX:  # Arrow would exhaust its stack, and end the process
        raise LimitExceeded(
            f"column {name!r}: the expression has {count:,} conditions, or calls inside each other, more "
            f"than {CONDITIONS_MAX:,}; work it out in steps, or pass a function or a table of values"
        )
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(with_kernels(rows)))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], [name]))
    try:
        return acero.Declaration.from_sequence([source, project]).to_table(use_threads=False)[name]
    except (pa.ArrowException, KeyError) as error:
        raise InvalidArgument(f"column {name!r}: {expression} cannot be worked out: {error}") from error


def _returned(
    name: str, function: Callable[[pa.Table], Any], rows: pa.Table, held: pa.DataType
) -> pa.Array | pa.ChunkedArray:
    """What a function gives. Python values are taken as those of appended rows are."""
    found = function(rows)
    if not _is_column(found):
        if isinstance(found, str | bytes | Mapping) or not hasattr(found, "__len__"):
            raise InvalidArgument(
                f"column {name!r}: the function returned {shown(found)}; return an array or a list, of one "
                "value for each row"
            )
        schema = None if pa.types.is_null(held) else pa.schema([(name, roomy(held))])
        found = ingest.reader({name: found}, schema).read_all()[name]
    if len(found) != rows.num_rows:
        raise InvalidArgument(
            f"column {name!r}: the function returned {len(found):,} values for {rows.num_rows:,} rows"
        )
    return found


def _together(parts: Sequence[pa.Table], fields: Sequence[pa.Field]) -> pa.Table:
    """New values of runs of rows as one table. A function may return another type for each run: then they are
    cast to the column's, or, where it has none yet, to one that holds all of them."""
    columns = {}
    for field in fields:
        given = [part.column(field.name) for part in parts]
        types = list(dict.fromkeys(column.type for column in given))
        if len(types) > 1:
            wanted = _common(types, field)
            given = [cast_rows(column, wanted, field.name) for column in given]
        arrays = [chunk for column in given for chunk in column.chunks]
        columns[field.name] = pa.chunked_array(arrays, given[0].type)
    return pa.table(columns)


def _common(types: Sequence[pa.DataType], field: pa.Field) -> pa.DataType:
    """The type of a column that is given values of several. Raises `SchemaMismatch`."""
    if not pa.types.is_null(field.type):
        wrong = [given for given in types if not may_hold(given, field.type)]
        if wrong:
            raise refusal(field.name, field.type, wrong[0])
        return field.type
    wanted = reduce(lambda wide, given: None if wide is None else widen(wide, given), types)
    if wanted is None:
        raise SchemaMismatch(
            f"column {field.name!r}: the function returned {' and '.join(map(str, types))}, and no type "
            "holds both: return arrays of one type"
        )
    return wanted
