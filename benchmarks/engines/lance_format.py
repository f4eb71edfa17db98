"""Lance by `pylance`, as a directory catalog: manifests created by conditional PUT."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa

from benchmarks.engines.base import Engine, Place, Range

GENEROUS_RETRIES = 1_000
GENEROUS_WAIT = timedelta(minutes=10)


class Lance(Engine):
    """One dataset handle. Generous appends write fragments once and commit them with 1,000 retries."""

    fixed = "tries again inside the library (20 times an append, 10 times an update); does not say how often"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        self._dataset: Any = None
        self._options = place.object_store_options or None
        self._changes = (
            {"conflict_retries": GENEROUS_RETRIES, "retry_timeout": GENEROUS_WAIT} if self.generous else {}
        )

    @property
    def url(self) -> str:
        return f"{self.place.url}/bench.lance"

    def create(self, sample: pa.Table, rows_max: int) -> None:
        self._dataset = lance.write_dataset(
            sample.slice(0, 0), self.url, schema=sample.schema, storage_options=self._options
        )

    def open(self) -> None:
        self._dataset = lance.dataset(self.url, storage_options=self._options)

    def append(self, rows: pa.Table) -> int | None:
        if not self.generous:
            self._dataset = lance.write_dataset(
                rows, self._dataset, mode="append", storage_options=self._options
            )
            return None
        fragments = lance.fragment.write_fragments(
            rows, self._dataset, mode="append", storage_options=self._options
        )
        self._dataset = lance.LanceDataset.commit(
            self._dataset,
            lance.LanceOperation.Append(fragments),
            read_version=self._dataset.version,
            storage_options=self._options,
            max_retries=GENEROUS_RETRIES,
            commit_timeout=GENEROUS_WAIT,
        )
        return None

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        filter = f"{where[0]} >= {where[1]} and {where[0]} < {where[2]}" if where else None
        return self._dataset.to_table(columns, filter=filter)

    def count(self) -> int:
        return int(self._dataset.count_rows())

    def upkeep(self) -> None:
        self.open()
        self._dataset.optimize.compact_files()

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        dataset, where = self._dataset, f"id >= {change['low']} and id < {change['high']}"
        match change["kind"]:
            case "update":
                return lambda: _done(
                    dataset.update({change["column"]: str(change["value"])}, where, **self._changes)
                )
            case "delete":
                return lambda: _done(dataset.delete(where, **self._changes))
            case _:
                return lambda: _done(dataset.optimize.compact_files())

    def replace(self, rows: pa.Table) -> None:
        self._dataset = lance.write_dataset(
            rows, self._dataset, mode="overwrite", storage_options=self._options
        )

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        if changed.num_rows:
            merger = self._dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merger.execute(changed)
        if deleted.num_rows:
            # The documented way to delete by key: keys that match are deleted.
            ids = ", ".join(str(one) for one in deleted["id"].to_pylist())
            self._dataset.delete(f"id in ({ids})")


def _done(_: object) -> None:
    """The library's own report is not what is measured."""


ENGINE = Lance
