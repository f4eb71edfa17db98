"""Delta Lake by delta-rs (`deltalake`). S3 commits by conditional PUT, its default; no lock table needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, write_deltalake

from benchmarks.engines.base import Engine, Place, Range

GENEROUS_RETRIES = 1_000


class Delta(Engine):
    """One `DeltaTable` handle, passed to every write so that its state is loaded once and brought forward."""

    fixed = "tries again inside the library, 15 times by default; does not say how often"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        self._table: DeltaTable | None = None
        retries = GENEROUS_RETRIES if self.generous else None
        self._commit = CommitProperties(max_commit_retries=retries)

    @property
    def url(self) -> str:
        return f"{self.place.url}/bench"

    @property
    def table(self) -> DeltaTable:
        assert self._table is not None
        return self._table

    def create(self, sample: pa.Table, rows_max: int) -> None:
        # Checkpoints are made every 100 commits by default. "no checkpoints" replays a table without them.
        configuration = {"delta.checkpointInterval": "1000000"} if self.variant == "no checkpoints" else None
        DeltaTable.create(
            self.url,
            deltalake.Schema.from_arrow(sample.schema),
            storage_options=self.place.object_store_options,
            configuration=configuration,
        )
        self.open()

    def open(self) -> None:
        self._table = DeltaTable(self.url, storage_options=self.place.object_store_options)

    def append(self, rows: pa.Table) -> int | None:
        write_deltalake(self.table, rows, mode="append", commit_properties=self._commit)
        return None

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        filter = (ds.field(where[0]) >= where[1]) & (ds.field(where[0]) < where[2]) if where else None
        return self.table.to_pyarrow_dataset().to_table(columns, filter=filter)

    def count(self) -> int:
        return int(self.table.count())

    def upkeep(self) -> None:
        self.open()
        self.table.optimize.compact(commit_properties=self._commit)
        self.table.create_checkpoint()

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        table, where = self.table, f"id >= {change['low']} and id < {change['high']}"
        match change["kind"]:
            case "update":
                return lambda: _done(
                    table.update(
                        updates={change["column"]: str(change["value"])},
                        predicate=where,
                        commit_properties=self._commit,
                    )
                )
            case "delete":
                return lambda: _done(table.delete(where, commit_properties=self._commit))
            case _:
                return lambda: _done(table.optimize.compact(commit_properties=self._commit))

    def replace(self, rows: pa.Table) -> None:
        write_deltalake(self.table, rows, mode="overwrite", commit_properties=self._commit)

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        if changed.num_rows:
            merger = self.table.merge(
                changed, "t.id = s.id", source_alias="s", target_alias="t", commit_properties=self._commit
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
        if deleted.num_rows:
            merger = self.table.merge(
                deleted, "t.id = s.id", source_alias="s", target_alias="t", commit_properties=self._commit
            )
            merger.when_matched_delete().execute()


def _done(_: object) -> None:
    """The library's own report is not what is measured."""


ENGINE = Delta
