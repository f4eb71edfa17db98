"""Apache Iceberg by PyIceberg, with the SQLite catalog that its documentation uses.

The catalog is a local file whatever the place of the data: swaps of the pointer see no network, which is
kinder than any catalog service. Writers wait for SQLite's lock up to a minute instead of failing at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.table import Table

from benchmarks.engines.base import Engine, Place, Range, Unsupported

GENEROUS_RETRIES = "1000"


class Iceberg(Engine):
    """One `Table` handle, refreshed by the library after each of its commits."""

    fixed = "catalog in a local SQLite file (no network); tries again 4 times by default"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        self._table: Table | None = None
        warnings.filterwarnings("ignore")  # "Delete operation did not match any records", and its like

    def _catalog(self) -> SqlCatalog:
        options = {
            "uri": f"sqlite:///{self.place.aside}/iceberg.db?timeout=60",
            "warehouse": f"{self.place.url}/warehouse" if self.place.is_s3 else f"file://{self.place.path}",
        }
        if self.place.is_s3:
            options |= {
                "s3.endpoint": self.place.endpoint,
                "s3.access-key-id": self.place.key,
                "s3.secret-access-key": self.place.secret,
                "s3.region": "us-east-1",
            }
        return SqlCatalog("bench", **options)

    @property
    def table(self) -> Table:
        assert self._table is not None
        return self._table

    def create(self, sample: pa.Table, rows_max: int) -> None:
        catalog = self._catalog()
        catalog.create_namespace("bench")
        # Generous: as often as it takes, and without the doubling wait of up to a minute between tries.
        generous = {"commit.retry.num-retries": GENEROUS_RETRIES, "commit.retry.max-wait-ms": "500"}
        self._table = catalog.create_table(
            "bench.bench", sample.schema, properties=generous if self.generous else {}
        )

    def open(self) -> None:
        self._table = self._catalog().load_table("bench.bench")

    def append(self, rows: pa.Table) -> int | None:
        self.table.append(rows)
        return None

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        options: dict[str, Any] = {"selected_fields": tuple(columns)} if columns else {}
        if where:
            options["row_filter"] = _range(*where)
        return self.table.scan(**options).to_arrow()

    def count(self) -> int:
        return int(self.table.scan().count())

    def upkeep(self) -> None:
        raise Unsupported("PyIceberg has no compaction (it can expire snapshots only)")

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        table, where = self.table, _range("id", change["low"], change["high"])
        match change["kind"]:
            case "update":
                rows = table.scan(row_filter=where).to_arrow()
                at = rows.schema.get_field_index(change["column"])
                values = pa.array([change["value"]] * rows.num_rows, rows.schema.field(at).type)
                changed = rows.set_column(at, rows.schema.field(at), values)
                return lambda: table.overwrite(changed, overwrite_filter=where)
            case "delete":
                return lambda: table.delete(where)
            case _:
                raise Unsupported("PyIceberg has no compaction")

    def replace(self, rows: pa.Table) -> None:
        self.table.overwrite(rows)

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        if changed.num_rows:
            self.table.upsert(changed, join_cols=["id"])
        if deleted.num_rows:
            low, high = deleted["id"][0].as_py(), deleted["id"][-1].as_py() + 1
            if high - low != deleted.num_rows:
                raise Unsupported("PyIceberg deletes by filter; scattered ids have none of bounded size")
            self.table.delete(_range("id", low, high))


def _range(column: str, low: int, high: int) -> And:
    return And(GreaterThanOrEqual(column, low), LessThan(column, high))


ENGINE = Iceberg
