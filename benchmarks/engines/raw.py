"""The limit: the same bytes with no catalog. One Parquet file and one small file per commit, equally durable.

Nobody could read such a folder consistently, or know what was committed. It shows what the store and
Parquet cost.
"""

from __future__ import annotations

import secrets

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.engines.base import Engine, Place, Range
from crdtcat.store import Store, open_store


class Raw(Engine):
    """Files beside each other."""

    fixed = "as durable as crdtcat (fsync on local disk); no table, no consistency"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
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
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        name = secrets.token_hex(16)
        self.store.put(f"raw/{name}.parquet", memoryview(sink.getvalue()))
        self.store.put(f"raw/{name}.json", b'{"file": "%s", "rows": %d}' % (name.encode(), rows.num_rows))
        return 0

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        names = [item.name for item in self.store.list("raw/") if item.name.endswith(".parquet")]
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

    def replace(self, rows: pa.Table) -> None:
        self.append(rows)


ENGINE = Raw
