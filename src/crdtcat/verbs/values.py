"""New values for rows, in the forms users write them.

A mapping from columns to constants, to Arrow expressions over the row's old values, or to functions of them;
or a table with a row for each row that is updated. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks import ingest
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch
from crdtcat.limits import CONDITIONS_MAX
from crdtcat.scan.filters.arrow_tree import conditions
from crdtcat.scan.masks import with_kernels


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
            return pa.concat_tables(parts) if parts else pa.schema(fields).empty_table()
        if self.table.num_rows != count:
            raise InvalidArgument(
                f"{self.table.num_rows:,} rows of new values for {count:,} rows that match; "
                "pass one for each, in their order"
            )
        return self.table


def given_values(values: Any, schema: pa.Schema) -> NewValues:
    """What a user passed as new values for rows of `schema`.

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
                _scalar(name, value, schema.field(name).type)
        looks = bool(worked_out)
        return NewValues(dict(values), None, schema, None if looks else schema.names[:1])
    if values is None or isinstance(values, str | bytes | Number):
        raise InvalidArgument(
            f"values={values!r:.80}: pass a dict from columns to new values, as {{'amount': 0}}, or rows"
        )
    table = ingest.reader(values).read_all()
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
        return _returned(name, value, rows)
    scalar = value if isinstance(value, pa.Scalar) else _scalar(name, value, held)
    return pa.repeat(scalar, max(1, rows.num_rows)).slice(0, rows.num_rows)  # Arrow repeats no list no times


def _scalar(name: str, value: Any, held: pa.DataType) -> pa.Scalar:
    """A Python value as the column's type: taken exactly, as those of appended rows are, or refused."""
    try:
        return ingest.reader([{name: value}], pa.schema([(name, held)])).read_all()[name][0]
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


def _returned(name: str, function: Callable[[pa.Table], Any], rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    found = function(rows)
    try:
        found = found if isinstance(found, pa.Array | pa.ChunkedArray) else pa.array(found)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"column {name!r}: the function returned {found!r:.80}; return an array or a list, of one value "
            "for each row"
        ) from error
    if len(found) != rows.num_rows:
        raise InvalidArgument(
            f"column {name!r}: the function returned {len(found):,} values for {rows.num_rows:,} rows"
        )
    return found
