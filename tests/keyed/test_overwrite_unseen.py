"""What an overwrite of a keyed table does to an upsert that it had not seen: nothing, whatever upkeep did."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
UPKEEP: dict[str, Callable[[Table], object]] = {
    "compacted": Table.compact,
    "bundled": Table.checkpoint,
    "expired": lambda table: table.expire(older_than=timedelta()),
}
SEQUENCES = [
    (),
    ("compacted",),
    ("bundled",),
    ("expired",),
    ("compacted", "expired"),
    ("expired", "compacted"),
]


class Lake:
    """One table, which some read before others write."""

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.clock = VirtualClock()
        self.table = self.handle(PausedStore(self.objects, self.clock, self.objects)).create_table(
            "t", SCHEMA, key=["id"]
        )

    def handle(self, store: PausedStore) -> Catalog:
        return Catalog(store, upkeep=False, max_commit_delay_seconds=0)

    def slow(self) -> Table:
        """Somebody who has read what is there now."""
        return self.handle(PausedStore(self.objects, self.clock)).table("t")

    def upkeep(self, steps: tuple[str, ...]) -> None:
        for step in steps:
            time.sleep(0.002)  # so that everything before lies below a horizon
            UPKEEP[step](self.table)


@pytest.mark.parametrize("before", SEQUENCES)
@pytest.mark.parametrize("deleted", [False, True])
def test_an_upsert_that_an_overwrite_had_not_seen_survives_whatever_upkeep_ran(
    before: tuple[str, ...], deleted: bool
) -> None:
    lake = Lake()
    table = lake.table
    table.upsert([{"id": 1, "name": "first", "n": 1}, {"id": 4, "name": "other"}])
    table.upsert([{"id": 2, "name": "there"}])
    if deleted:
        table.delete(keys=[1])
    lake.upkeep(before)
    slow, slower = lake.slow(), lake.slow()
    mine = table.upsert([{"id": 1, "name": "back"}])
    time.sleep(0.002)  # or ids of one millisecond sort by who they are
    over = slow.overwrite([{"id": 3, "name": "new"}])
    time.sleep(0.002)
    later = slower.upsert([{"id": 2, "n": 5}])
    assert mine.id < over.id < later.id
    rows = [
        {"id": 1, "name": "back", "n": None},
        {"id": 2, "name": None, "n": 5},
        {"id": 3, "name": "new", "n": None},
    ]
    plan = table.scan().plan.merge
    assert plan is not None
    assert not any(group.beside for group in plan.groups)  # nothing is older than what was overwritten
    for after in ((), *((step,) for step in (*UPKEEP, "compacted"))):
        lake.upkeep(after)
        assert table.read().to_pylist() == lake.slow().read().to_pylist() == rows
        assert table.lost_cells() == []
    assert table.verify("content").ok


@pytest.mark.parametrize("between", SEQUENCES)
def test_a_cell_that_had_lost_to_one_that_was_overwritten_stays_lost(between: tuple[str, ...]) -> None:
    """The overwrite had not seen it, but what replaced it was there to be seen."""
    lake = Lake()
    table, late = lake.table, lake.slow()
    old = late.upsert([{"id": 1, "name": "old", "n": 1}])
    hidden = dict(lake.objects)
    for name in [name for name in hidden if str(old.id) in name]:
        del lake.objects[name]  # on its way
    time.sleep(0.002)
    seen = table.upsert([{"id": 1, "name": "newer"}])
    table.upsert([{"id": 2}])
    slow = lake.slow()
    lake.objects.update(hidden)
    lake.upkeep(between)
    slow.overwrite([{"id": 3, "name": "new", "n": 3}])
    rows = [{"id": 1, "name": None, "n": 1}, {"id": 3, "name": "new", "n": 3}]
    assert lake.slow().read().to_pylist() == rows
    lost = [(cell.column, cell.winner, cell.loser) for cell in lake.slow().lost_cells(blind=True)]
    assert lost == ([] if "expired" in between else [("name", seen.id, old.id)])  # below a horizon: forgotten
    for step in ("compacted", "expired", "compacted"):
        lake.upkeep((step,))
        assert lake.slow().read().to_pylist() == rows


def test_what_an_overwrite_took_is_compacted_away_where_a_compaction_had_not_seen_it() -> None:
    lake = Lake()
    table = lake.table
    table.upsert([{"id": at, "name": "old"} for at in range(50)])
    slow = lake.slow()
    table.upsert([{"id": 7, "n": 7}])
    table.compact()
    slow.overwrite([{"id": 60, "name": "new"}])
    rows = [{"id": 7, "name": None, "n": 7}, {"id": 60, "name": "new", "n": None}]
    assert table.read().to_pylist() == rows
    assert table.head().row_count == 51
    assert table.compact().rows_left_out == 49
    assert table.read().to_pylist() == rows
    assert table.head().row_count == 2
    plan = table.scan().plan.merge
    assert plan is not None
    assert plan.straight.all()
    assert table.compact().versions == 0
