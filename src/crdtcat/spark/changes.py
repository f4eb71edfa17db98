"""What changed between two snapshots: rows that came, rows that went, rows that were rewritten, and by whom.

Which rows those are is worked out from the two heads (`crdtcat.spark.changed_rows`); no row is read for it.
What came and went in between is in neither snapshot: a batch holds net changes. A row that a late write
touched and lost is listed as updated to what it was.

Rows are then read by the units any scan reads changed entries with; one unit holds changes of one version.
Whatever snapshot they are read from, they are shown in the columns of the query: found by what a column is,
not by its name, which may have been another column's then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st

from crdtcat import Catalog
from crdtcat.chunks.types import is_lossless
from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt, InvalidArgument, SchemaMismatch
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.scan.filters import RowFilter
from crdtcat.scan.masks import mask
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown, brought, matching
from crdtcat.scan.units import Unit
from crdtcat.spark.change_columns import CHANGE_FIELDS, change_schema
from crdtcat.spark.changed_rows import Difference, require_order
from crdtcat.spark.keyed_changes import KeyedFeed, keyed_changes, require_labels
from crdtcat.spark.pinned import Pinned, pinned_head
from crdtcat.spark.reading import deal, gathered
from crdtcat.spark.types import arrow_schema, spark_schema
from crdtcat.spark.worker import task_begins

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"


@dataclass(frozen=True, eq=False)
class Shape:
    """The columns a feed shows, whatever snapshot its rows are from. Pickles.

    Attributes:
        columns: what is shown.
        needed: those and the ones the filter looks at.
        filter: which rows.
        labelled: whether rows say what kind of change they are.
    """

    columns: tuple[Column, ...]
    needed: tuple[Column, ...]
    filter: RowFilter | None
    labelled: bool

    @property
    def schema(self) -> pa.Schema:
        """The table's own columns."""
        return _schema(self.columns)

    @property
    def spark(self) -> st.StructType:
        """All columns, as Spark has them."""
        shown = spark_schema(self.schema)
        return change_schema(shown) if self.labelled else shown

    def shown(self, rows: pa.Table, held: Sequence[Column | None]) -> pa.Table:
        """Rows of some head, as storage arrays of the columns it has of these; filtered."""
        found = brought(rows, held, self.needed)
        if self.filter is not None:
            looked_at = [column for column in self.needed if column.name in self.filter.columns]
            found = found.filter(mask(self.filter, as_shown(looked_at, found, _schema(looked_at))))
        return as_shown(self.columns, found, self.schema)


def _schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])


@dataclass(frozen=True, eq=False)
class Side:
    """Changed rows of one snapshot.

    Attributes:
        kind: insert, delete, update_before or update_after.
        pinned: the snapshot.
        units: what holds them.
        authors: per unit, who changed its rows.
    """

    kind: str
    pinned: Pinned
    units: tuple[Unit, ...]
    authors: tuple[VersionId, ...]


@dataclass(frozen=True, eq=False)
class Changes:
    """Net changes between two snapshots. Pickles.

    Attributes:
        sides: rows that went, were rewritten, came.
        shape: how they are shown.
    """

    sides: tuple[Side, ...]
    shape: Shape

    def shares(self, partition_bytes: int | None) -> list[tuple[int, tuple[int, ...]]]:
        """(side, units) for each task, of about equal size."""
        return [
            (at, share)
            for at, side in enumerate(self.sides)
            for share in deal([unit.nbytes for unit in side.units], partition_bytes)
        ]

    def batches(self, share: tuple[int, tuple[int, ...]]) -> Iterator[pa.RecordBatch]:
        """The changed rows of one share.

        Raises `Corrupt`, naming what is damaged; `Expired`, if files were collected since it was planned."""
        task_begins()
        at, numbers = share
        side = self.sides[at]
        try:
            yield from gathered(self._tables(side, numbers), arrow_schema(self.shape.spark))
        except Corrupt as error:
            raise side.pinned.outlived(error, of_feed=True) from error

    def _tables(self, side: Side, numbers: Sequence[int]) -> Iterator[pa.Table]:
        head = side.pinned.head()
        held = matching(head.columns.all, self.shape.needed)
        names = [column.name for column in held if column is not None]
        plan = make_plan(head, names or None, None)  # rows are counted by a column, whichever it is
        execution = side.pinned.execution(plan)
        for number in numbers:
            rows, _ = execution.changed_rows(side.units[number])
            shown = self.shape.shown(rows, held)
            yield _labelled(shown, side.kind, side.authors[number]) if self.shape.labelled else shown


def _labelled(table: pa.Table, kind: str, author: VersionId) -> pa.Table:
    moment = pa.scalar(author.time.astimezone(UTC), pa.timestamp("us", "UTC"))
    for field, value in zip(CHANGE_FIELDS, (kind, str(author), moment), strict=True):
        table = table.append_column(field.name, pa.repeat(value, table.num_rows))
    return table


def changes_between(
    catalog: Catalog,
    before: Head,
    after: Head,
    *,
    branch: str,
    columns: tuple[str, ...] | None,
    filter: Any,
    with_columns: bool,
    ignore_deletes: bool = False,
    query: Head | None = None,
) -> Changes | KeyedFeed:
    """The net changes from one snapshot to a later one. No request.

    `query` has the columns that are shown, and that `columns` and `filter` name; `after` by default.

    Raises:
        InvalidArgument: rows were removed or rewritten and the reader has no column to say so, unless it is
            told to ignore that; or the first snapshot is not before the second.
        SchemaMismatch: a column has changed so since the query began that it cannot be shown as it was.
    """
    require_order(before, after)
    query = query or after
    if after.settings.key:
        require_labels(after.table, with_columns=with_columns, filter=filter)
    plan = make_plan(query, columns, filter)
    shape = Shape(plan.columns, plan.needed, plan.filter, with_columns)
    _require_shown(query, after, shape)
    if after.settings.key:
        shown = pa.schema([field.with_nullable(True) for field in shape.schema])
        return keyed_changes(catalog, before, after, branch=branch, query=query.columns.all, shown=shown)
    found = Difference(before, after, shape.needed)
    kinds = [(DELETE, before, found.removed), (BEFORE, before, found.updated), (AFTER, after, found.updated)]
    if not with_columns:
        changed = [*found.removed, *found.updated]
        if changed and not ignore_deletes:
            raise InvalidArgument(
                f"version {changed[0][0]} removed or rewrote rows that this stream has shown before: read it "
                "with the option changes=true, which tells inserts from others, or with deletes=ignore"
            )
        kinds = []
    sides = []
    for kind, head, groups in (*kinds, (INSERT, after, found.inserted)):
        pairs = [(author, unit) for author, rows in groups for unit in found.units(head, rows)]
        if pairs:
            authors, units = zip(*pairs, strict=True)
            sides.append(Side(kind, pinned_head(catalog, head, branch), units, authors))
    return Changes(tuple(sides), shape)


def _require_shown(query: Head, after: Head, shape: Shape) -> None:
    """Whether what was written since a query began can be shown in its columns. A column that was dropped
    reads as null; values that do not fit, and nulls where Spark was told that there are none, do not."""
    if not (query.log.find(after.log.ids) < 0).any():
        return
    for column, held in zip(shape.needed, matching(after.columns.all, shape.needed), strict=True):
        if held is None and (column.nullable or shape.labelled):
            continue
        if held is None or not is_lossless(held.type, column.type):
            now = "is no longer there" if held is None else f"is {held.type} now"
            raise SchemaMismatch(
                f"column {column.name!r} of {after.table!r} was {column.type} as the query began, and {now}; "
                "start the query again, from its checkpoint"
            )
