"""What an overwrite of a keyed table does to an upsert that it had not seen."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.mark.parametrize("compacted", [False, True])
def test_a_key_that_was_deleted_counts_as_seen_until_it_is_compacted(compacted: bool) -> None:
    objects: Objects = {}
    clock = VirtualClock()
    first = Catalog(PausedStore(objects, clock, objects), upkeep=False)
    table = first.create_table("t", SCHEMA, key=["id"])
    table.upsert([{"id": 1, "name": "gone"}])
    table.upsert([{"id": 2, "name": "there"}])
    table.delete(keys=[1])
    if compacted:
        table.compact()
    slow = Catalog(PausedStore(objects, clock), upkeep=False).table("t")  # has read what is there now
    mine = table.upsert([{"id": 1, "name": "back"}])
    time.sleep(0.005)  # or ids of one millisecond sort by who they are
    winner = slow.overwrite([{"id": 3, "name": "new"}])
    assert mine.id < winner.id
    rows = [{"id": 3, "name": "new"}]
    assert table.read().to_pylist() == ([{"id": 1, "name": "back"}, *rows] if compacted else rows)
    lost = [(cell.key, cell.column, cell.winner, cell.loser) for cell in table.lost_cells()]
    assert lost == ([] if compacted else [((1,), "name", winner.id, mine.id)])
