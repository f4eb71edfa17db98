"""A scan: what to read, and the ways to have it.

Nothing is read until rows are asked for. A scan is pinned to one snapshot and can be run any number of
times; it returns the same rows each time, whatever is committed meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import combinable, restored, storage_type
from crdtcat.errors import InvalidArgument
from crdtcat.head import Head, Snapshot
from crdtcat.scan.execute import Execution
from crdtcat.scan.explained import explained, fetches, roughly
from crdtcat.scan.frames import as_duckdb, as_pandas, as_polars
from crdtcat.scan.merge_execute import MergedExecution
from crdtcat.scan.plan import Plan, make_plan
from crdtcat.store import Store
from crdtcat.support.showing import shown


class Scan:
    """Rows of one snapshot: some columns, some rows, in order.

    Made by `Table.scan`. Requests: none to make it; to read it, one ranged GET per segment for its
    footer (kept by the handle) and one per run of neighbouring column chunks that survive pruning. Rows still
    inside version files cost none: they came with the head.
    """

    def __init__(
        self,
        head: Head,
        store: Store,
        *,
        columns: Sequence[str] | None,
        filter: Any,
        verify: bool,
        footers: FooterCache,
    ) -> None:
        self._store, self._footers, self._verify = store, footers, verify
        self.plan: Plan = make_plan(head, columns, filter)

    @property
    def snapshot(self) -> Snapshot:
        """What is read."""
        return self.plan.head.snapshot

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.plan.schema

    def tables(self) -> Iterator[pa.Table]:
        """The rows in order, in bounded memory: a table per chunk, or for several small ones.

        Raises `Corrupt` on damage, `InvalidArgument` in a child that was forked while they were read.
        """
        self._check_columns()
        return self._run(self.plan)

    def _run(self, plan: Plan) -> Iterator[pa.Table]:
        return _here(self._execution(plan).tables())

    def _execution(self, plan: Plan) -> Execution | MergedExecution:
        execution = Execution(plan, self._store, self._footers, verify=self._verify)
        return execution if plan.merge is None else MergedExecution(plan, execution)

    def to_table(self) -> pa.Table:
        """All rows as one Arrow table.

        A dictionary column with more different values in all than its indices can number has wider ones here.
        """
        tables = list(self.tables())
        return combinable(pa.concat_tables(tables)) if tables else _no_rows(self.plan)

    def first(self, rows: int = 10) -> pa.Table:
        """The first rows, at most so many, as an Arrow table: for a look at them.

        Reads chunks in order until there are enough, and what is fetched ahead meanwhile. Raises
        `InvalidArgument` for what is no number.
        """
        if type(rows) is not int or rows < 0:
            raise InvalidArgument(f"rows={shown(rows)}: pass how many, from 0 on")
        tables, found, missing = self.tables(), [_no_rows(self.plan)], rows
        while missing and (table := next(tables, None)) is not None:
            found.append(table.slice(0, missing))
            missing -= found[-1].num_rows
        return combinable(pa.concat_tables(found))

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, in bounded memory."""
        tables = self.tables()
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_reader())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, **options: Any) -> Any:
        """A pandas DataFrame; `options` go to `pyarrow.Table.to_pandas`. Needs `crdtcat[pandas]`.

        Without options whole numbers are floats there in a column with nulls, and rounded above 2**53, as
        Arrow gives them; `types_mapper=pandas.ArrowDtype` keeps every value and type.
        """
        return as_pandas(self.to_table(), **options)

    def to_polars(self) -> Any:
        """A polars DataFrame. Needs `crdtcat[polars]`."""
        return as_polars(self.to_table())

    def to_duckdb(self, connection: Any = None) -> Any:
        """A DuckDB relation over the rows. Needs `crdtcat[sql]`.

        They are read when DuckDB wants them, as a stream: only the columns that a query over the relation
        uses, and only chunks that can meet the conditions it hands over. What goes wrong then, Ctrl-C too, is
        raised by DuckDB as an error of its own, with ours in its text.
        """
        return as_duckdb(self, connection)

    def narrowed(self, columns: Sequence[str] | None, filter: Any) -> Scan:
        """Some columns of this scan's rows that meet an Arrow expression besides. No request.

        Raises `InvalidFilter` where the expression cannot be planned with.
        """
        plan = self.plan
        if plan.filter is not None:
            filter = plan.filter.expression if filter is None else plan.filter.expression & filter
        names = [column.name for column in plan.columns] if columns is None else columns
        return Scan(
            plan.head, self._store, columns=names, filter=filter, verify=self._verify, footers=self._footers
        )

    def count(self) -> int:
        """How many rows. Chunks that statistics decide are not read, of others only the filter's columns.

        In a keyed table chunks whose keys overlap are merged, and read for their key too.
        """
        plan = self.plan
        certain = int(plan.head.rows.live_rows(plan.chunks[plan.whole]).sum())
        if plan.whole.all():
            return certain
        return certain + sum(int(table.num_rows) for table in self._run(plan.undecided()))

    def explain(self) -> str:
        """What is pruned and what will be fetched, in words, to the byte.

        Requests: one ranged GET for each footer of a segment concerned that the handle does not keep yet;
        reading the scan afterwards does not make them again. Raises `Corrupt` where reading would.
        """
        found = fetches(self.plan, self._execution(self.plan).wanted(), self._store, self._footers)
        return explained(self.plan, found)

    def __repr__(self) -> str:
        return explained(self.plan, roughly(self.plan))  # no request

    def _check_columns(self) -> None:
        if not self.plan.head.columns.all and len(self.plan.chunks):
            raise InvalidArgument(f"table {self.plan.head.table!r} shows no columns: all were dropped")


def _no_rows(plan: Plan) -> pa.Table:
    """A table without rows; by way of storage types, since pyarrow cannot make every type from nothing."""
    empty = [
        restored([pa.nulls(0, storage_type(item.type))], item.type, item.name, item.order)
        for item in plan.columns
    ]
    return pa.Table.from_arrays(empty, schema=plan.schema)


def _here(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same tables, for the process that began to read them: forks have none of the threads that read."""
    process = os.getpid()
    for table in tables:
        yield table
        if process != os.getpid():
            raise InvalidArgument("these rows were being read before a fork: scan again in this process")
