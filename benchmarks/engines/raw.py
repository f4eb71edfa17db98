"""The limit: the same bytes with no catalog. One Parquet file and one small file per commit, equally durable.

Nobody could read such a folder consistently, or know what was committed. It shows what the store and
Parquet cost. Changed rows are a file of their own, laid over the others by whoever reads, in the order of
the writers' clocks.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.engines.base import Engine, Place, Range, Unsupported
from benchmarks.engines.forcing import force
from crdtcat.store import Store, open_store

ROWS, CHANGE = ".parquet", ".change"
"""Endings of files: rows, and what became of rows."""


class Raw(Engine):
    """Files beside each other."""

    fixed = "as durable as crdtcat (fsync on local disk); no table, no consistency"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        force(variant)
        self._store: Store | None = None

    def create(self, sample: pa.Table, rows_max: int) -> None:
        self.open()

    def open(self) -> None:
        self._store = open_store(self.place.url, self.place.storage_options)
        self._store.list_page("raw/", limit=1)  # connect now, as those do who have something to open

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    def append(self, rows: pa.Table) -> int | None:
        self._put(secrets.token_hex(16), rows, ROWS)
        return 0

    def _put(self, name: str, rows: pa.Table, ending: str) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        self.store.put(f"raw/{name}{ending}", memoryview(sink.getvalue()))
        self.store.put(f"raw/{name}.json", b'{"file": "%s", "rows": %d}' % (name.encode(), rows.num_rows))

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        listed = [item.name for item in self.store.list("raw/")]
        names = [name for name in listed if name.endswith(ROWS)]
        if changes := sorted(name for name in listed if name.endswith(CHANGE)):
            assert where is None, "no suite filters what it changed"
            wanted = columns and [*dict.fromkeys(["id", *columns])]
            found = self._changed(self._rows(names, wanted, None), changes)
            return found.select(columns) if columns else found
        return self._rows(names, columns, where)

    def _rows(self, names: list[str], columns: list[str] | None, where: Range | None) -> pa.Table:
        filters = None
        if where:
            filters = (pc.field(where[0]) >= where[1]) & (pc.field(where[0]) < where[2])
        if not self.place.is_s3:
            return pq.ParquetDataset([f"{self.place.path}/{name}" for name in names], filters=filters).read(
                columns
            )
        bodies = self.store.get_many([(name, 0, None) for name in names])
        parts = [pq.read_table(pa.BufferReader(body), columns=columns, filters=filters) for body in bodies]
        return pa.concat_tables(parts)

    def _changed(self, rows: pa.Table, names: list[str]) -> pa.Table:
        for body in self.store.get_many([(name, 0, None) for name in names]):
            change = pq.read_table(pa.BufferReader(body))
            touched = pc.is_in(rows["id"], change["id"].combine_chunks())
            if change.num_columns == 1:
                rows = rows.filter(pc.invert(touched))
                continue
            column = change.column_names[1]
            if (at := rows.schema.get_field_index(column)) >= 0:  # else it was not asked for
                rows = rows.set_column(at, column, pc.if_else(touched, change[column][0], rows[column]))
        return rows

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        if change["kind"] == "compact":
            raise Unsupported("files with no catalog have nothing to keep up")
        rows = pa.table({"id": np.arange(change["low"], change["high"])})
        if change["kind"] == "update":
            rows = rows.append_column(change["column"], pa.array(np.full(rows.num_rows, change["value"])))
        return lambda: self._put(self._stamp(), rows, CHANGE)

    def upkeep(self) -> None:
        raise Unsupported("files with no catalog have nothing to keep up")

    def replace(self, rows: pa.Table) -> None:
        self.append(rows)

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        if changed.num_rows:
            self.append(changed)  # beside the old ones: only their bytes are of interest
        if deleted.num_rows:
            self._put(self._stamp(), deleted.select(["id"]), CHANGE)

    def _stamp(self) -> str:
        return f"{time.time_ns():020}-{secrets.token_hex(8)}"


ENGINE = Raw
