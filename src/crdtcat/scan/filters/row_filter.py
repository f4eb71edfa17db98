"""Row filters: one value for every way users write them.

`parse_filter` takes SQL text, DNF tuples or a `pyarrow.compute.Expression` and gives a `RowFilter`: the
expression that is applied to rows, the columns it needs, and the predicate that prunes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks.types import no_rows
from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.lower import to_expression
from crdtcat.scan.filters.parse_arrow import parse_arrow, require_few
from crdtcat.scan.filters.parse_dnf import parse_dnf
from crdtcat.scan.filters.predicate import Predicate, size
from crdtcat.support.showing import shown


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter bound to a schema. Rows for which it is false or unknown are dropped. Picklable.

    Attributes:
        expression: the `pyarrow.compute.Expression` to apply, for tables with the schema's types.
        columns: the top-level columns it needs, in order of first use.
        predicate: what is known about it, for pruning.
        text: how it prints.
    """

    expression: Any = field(compare=False, repr=False)
    columns: tuple[str, ...]
    predicate: Predicate
    text: str

    def __str__(self) -> str:
        return self.text


def parse_filter(filter: Any, schema: pa.Schema) -> RowFilter:
    """Parse and bind a filter. No request; linear in the size of the filter.

    Args:
        filter: SQL text (see `parse_sql`), tuples (see `parse_dnf`), or a `pyarrow.compute.Expression`.
        schema: the schema of the rows it will be applied to.

    Raises:
        InvalidFilter: bad syntax, an unknown column, a literal of the wrong kind, or not a filter at all.
        LimitExceeded: more than `limits.CONDITIONS_MAX` conditions.
    """
    if isinstance(filter, RowFilter):
        filter = filter.expression  # bound to another schema, perhaps
    if isinstance(filter, pc.Expression):
        predicate = parse_arrow(filter, schema)
        return RowFilter(filter, predicate.columns, predicate, str(filter))
    if isinstance(filter, str):
        # Brings in a parser of SQL: only for those who write some.
        from crdtcat.scan.filters.parse_sql import parse_sql  # noqa: PLC0415

        predicate = parse_sql(filter, schema)
    elif isinstance(filter, list | tuple):
        predicate = parse_dnf([filter] if _is_condition(filter) else list(filter), schema)
    else:
        raise InvalidFilter(
            f"{shown(filter, 200)} is not a filter; pass SQL text, tuples such as [('amount', '>', 10)], "
            "or a pyarrow.compute.Expression"
        )
    require_few(size(predicate))
    expression = to_expression(predicate)
    try:
        _apply(expression, no_rows(schema))
    except (pa.ArrowException, TypeError) as error:
        raise InvalidFilter(f"{shown(filter, 300)} cannot be applied to the schema: {error}") from error
    return RowFilter(expression, predicate.columns, predicate, str(predicate))


def _apply(expression: pc.Expression, table: pa.Table) -> None:
    """In this thread: waking Arrow's own takes longer than the rest."""
    # Brings in pyarrow.dataset: only for those who filter, as `pyarrow.Table.filter` does.
    from pyarrow import acero  # noqa: PLC0415

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    kept = acero.Declaration("filter", acero.FilterNodeOptions(expression))
    acero.Declaration.from_sequence([source, kept]).to_table(use_threads=False)


def _is_condition(filters: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a single bare tuple was passed, `('amount', '>', 10)`."""
    return isinstance(filters, tuple) and len(filters) > 1 and isinstance(filters[1], str)
