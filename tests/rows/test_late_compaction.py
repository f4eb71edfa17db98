"""A compaction that read before everybody else, and commits after an expiry has forgotten what they did.

Found by `tests/simulation/test_all_orders.py`: its copy has a row that was updated and deleted meanwhile.
The overlay with the new cell was let go, for nothing read it any more; whoever laid it over that copy found
no bytes.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock, virtual_time

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
OPTIONS: dict[str, Any] = {
    "upkeep": False, "inline_bytes": 0, "grace_seconds": 0, "max_commit_delay_seconds": 0, "chunk_rows": 2
}  # fmt: skip


def _raced(*, late_rows: int) -> tuple[Catalog, Catalog]:
    """The catalogs of somebody cold and of the one who was late, in the end."""
    clock, objects = VirtualClock(), Objects()

    def catalog(past: Objects) -> Catalog:
        clock.now_ms += 1
        return Catalog(PausedStore(objects, clock, past), **OPTIONS)

    with virtual_time(clock, random.Random(1)):
        table = catalog(objects).create_table("t", SCHEMA)
        table.append(pa.table({"n": [5, 6], "x": [0, 0]}))
        table.append(pa.table({"n": [7, 8], "x": [0, 0]}))
        past = dict(objects)
        catalog(objects).table("t").update("n = 5", {"x": 10})
        catalog(objects).table("t").delete("n = 5")
        catalog(objects).table("t").compact(rows=2)
        assert catalog(objects).table("t").expire(older_than=timedelta(0)).segments
        late = catalog(past)
        assert late.table("t").compact(rows=late_rows).chunks_before == 2
        return catalog(objects), late


def test_the_table_is_read_and_whole() -> None:
    for catalog in _raced(late_rows=16):
        assert catalog.read("t").to_pydict() == {"n": [6, 7, 8], "x": [0, 0, 0]}
        report = catalog.table("t").verify("content")
        assert report.ok, report


def test_the_next_compaction_leaves_one_copy_of_each_row() -> None:
    catalog, _ = _raced(late_rows=16)
    table = catalog.table("t")
    table.compact(rows=16)
    assert table.scan().to_table().to_pydict() == {"n": [6, 7, 8], "x": [0, 0, 0]}
    assert not table.head().rows.shared
    assert table.verify("content").ok
