"""crdtcat, with its defaults: upkeep on, columns verified on read."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.engines.base import Engine, Place, Range
from crdtcat import Catalog
from crdtcat.table import Table


class Ours(Engine):
    """A handle, as a long-lived program keeps one. Variant `no upkeep`: nobody bundles."""

    fixed = "fsync on local disk; every column read is checked against its hash"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        self._table: Table | None = None

    def _catalog(self) -> Catalog:
        upkeep = self.variant != "no upkeep"
        return Catalog(self.place.url, self.place.storage_options, upkeep=upkeep)

    @property
    def table(self) -> Table:
        assert self._table is not None
        return self._table

    def create(self, sample: pa.Table, rows_max: int) -> None:
        self._table = self._catalog().create_table("bench", sample.schema)

    def open(self) -> None:
        self._table = self._catalog().table("bench")

    def append(self, rows: pa.Table) -> int | None:
        self.table.append(rows)
        return 0

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        filter = [(where[0], ">=", where[1]), (where[0], "<", where[2])] if where else None
        return self.table.read(columns, filter)

    def count(self) -> int:
        return self.table.scan().count()

    def upkeep(self) -> None:
        self.table.checkpoint()
        self.table.collect()

    def replace(self, rows: pa.Table) -> None:
        self.table.overwrite(rows)


ENGINE = Ours
