"""The second of the catalogs that every later release must read: changes of rows, keys, branches, claims.

`tests.compat.write` writes the first one, and keeps both.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from crdtcat import Catalog, Table

OPTIONS: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 0}
READINGS = pa.schema([("id", pa.int64()), ("value", pa.float64()), ("note", pa.string())])


def readings(first: int, last: int, note: str = "as measured") -> list[dict[str, Any]]:
    return [{"id": number, "value": number / 4, "note": note} for number in range(first, last)]


def write_changes(root: Path) -> None:
    """Overlays, deletes, compactions, keys, branches, bases, claims, modes and transactions."""
    catalog = Catalog(str(root), **OPTIONS)
    _rows(root, catalog.create_table("rows", READINGS))
    _keyed(catalog.create_table("keyed", READINGS, key=["id"]))
    _branched(catalog.create_table("branched", READINGS))
    _expired(catalog.create_table("expired", READINGS))
    _claimed(root, catalog.create_table("claimed", READINGS, mode="cas"))
    _switched(catalog.create_table("switched", READINGS))
    _transactions(catalog)


def _rows(root: Path, table: Table) -> None:
    """Small chunks in segments, cells and rows changed, all of it folded, and changed again."""
    Catalog(str(root), **OPTIONS, inline_bytes=0, chunk_rows=4).table("rows").append(readings(0, 20))
    table.append(readings(20, 23))
    table.update("id < 3", {"note": "corrected"})
    table.update_rows(5, 7, pa.table({"value": [100.0, None]}))
    table.delete("id = 9 or id = 21")
    table.tag("changed")
    table.compact()
    table.update("id = 1", {"value": -1.0}, key="late")
    table.write([*readings(-3, 0, "new"), *table.read().to_pylist()[2:]])
    table.tag("written")
    table.compact(cluster_by=["note", "value"])
    table.update("id = -1", {"note": "clustered"})
    table.checkpoint()


def _keyed(table: Table) -> None:
    table.append(readings(0, 6))
    table.upsert(readings(4, 8, "again"))
    table.upsert([{"id": 2, "value": 0.0}])  # two of three columns
    table.delete(keys=[0, 7])
    table.compact()
    table.upsert(readings(7, 8, "back"))


def _branched(table: Table) -> None:
    table.append(readings(0, 4))
    side = table.branch("side")
    side.update("id = 1", {"note": "side"})
    side.append(readings(10, 12))
    table.delete("id = 0")
    table.merge("side")
    table.branch("open").append(readings(20, 21))
    table.branch("gone").append(readings(30, 31))
    table.delete_branch("gone")


def _expired(table: Table) -> None:
    table.append(readings(0, 4))
    table.update("id = 2", {"note": "before the horizon"})
    table.append(readings(4, 6), key="kept key")
    table.tag("kept")
    table.delete("id = 1")
    table.expire(older_than=timedelta(0), keep_last=1)
    table.append(readings(6, 8))


def _claimed(root: Path, table: Table) -> None:
    table.append(readings(0, 4))
    other = Catalog(str(root), **OPTIONS).table("claimed")
    table.update("id = 1", {"note": "first"})
    other.append(readings(4, 6))  # loses the number, and takes the next
    other.compact()
    other.checkpoint()
    table.delete("id = 0")


def _switched(table: Table) -> None:
    table.append(readings(0, 2))
    table.switch_mode("cas")
    table.append(readings(2, 4))
    table.switch_mode("merge")
    table.append(readings(4, 6))


def _transactions(catalog: Catalog) -> None:
    """One over tables in merge mode, in one file; one over tables in CAS mode, by claims and a decision."""
    with catalog.transaction(["rows", "keyed"]) as tx:
        tx.table("rows").append(readings(50, 52, "together"))
        tx.table("keyed").upsert(readings(50, 52, "together"))
    catalog.create_table("claimed-too", READINGS, mode="cas").append(readings(0, 2))
    with catalog.transaction(["claimed", "claimed-too"]) as tx:
        tx.table("claimed").append(readings(60, 61, "decided"))
        tx.table("claimed-too").update("id = 0", {"note": "decided"})
