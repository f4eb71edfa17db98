"""The fifth of the catalogs that every later release must read: claims that carry those before them.

`tests.compat.write` writes the first one, and keeps them all.
"""

from __future__ import annotations

from pathlib import Path

from crdtcat import Catalog
from tests.compat.changes import OPTIONS, READINGS, readings


def write_carrying(root: Path) -> None:
    """Writers that meet, claims of transactions among them, one aborted; some in a bundle."""
    options = {**OPTIONS, "base_delay": 0}
    handles = [Catalog(str(root), **options) for _ in range(3)]
    handles[0].create_table("raced", READINGS, mode="cas").append(readings(0, 6))
    tables = [catalog.table("raced") for catalog in handles]
    for turn in range(4):
        for me, table in enumerate(tables):
            table.update(f"id = {me}", {"note": f"turn {turn} of {me}"})
    tables[0].checkpoint()
    for turn in range(3):
        for me, table in enumerate(tables):
            table.append(readings(100 + 10 * turn + me, 101 + 10 * turn + me))
    with handles[1].transaction(["raced"]) as tx:
        tx.table("raced").append(readings(200, 202, "together"))
        tx.table("raced").update("id = 3", {"note": "together"})
    for me, table in enumerate(tables):
        table.append(readings(300 + me, 301 + me))
