"""When files of transactions and decisions go: not before every table has had them in a bundle for a grace
period, and never where nobody knows what a log is.

`all` over the tables, which a change into `any` would break, is held here table by table.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import NotFound
from crdtcat.maintenance.transactions import TransactionsResult, collect_transactions
from crdtcat.session import Session
from crdtcat.testing.simulated_store import SimulatedStore, VirtualClock, virtual_time

SCHEMA = pa.schema([("n", pa.int64())])
GRACE = 100
TABLES = ("a", "b", "c")


class Lake:
    """Three tables that one transaction touched, on a store whose clock is set by hand."""

    def __init__(self, clock: VirtualClock, mode: str) -> None:
        self.clock, self.mode = clock, mode
        store = SimulatedStore({}, clock, lambda kind, name: None, page_limit=1000)
        self.catalog = Catalog(store, upkeep=False, grace_seconds=GRACE)
        for name in TABLES:
            self.catalog.create_table(name, SCHEMA, mode=mode)
        with self.catalog.transaction() as tx:
            for name in TABLES:
                tx.append(name, [{"n": 1}])

    def wait(self, seconds: int) -> None:
        self.clock.now_ms += seconds * 1000

    def collected(self, unknown: str = "") -> tuple[int, int]:
        """(files gone, logs bundled); `unknown`: of which table nobody knows anything."""

        def opened(folder: str) -> Session | None:
            if unknown and folder.startswith(f"tables/{unknown}/"):
                raise NotFound(folder)
            return self.catalog._open_log(folder)

        found: TransactionsResult = collect_transactions(self.catalog.store, self.catalog.options, opened)
        return found.deleted if self.mode == "merge" else found.decisions, found.bundled

    def check(self) -> None:
        for name in TABLES:
            assert Catalog(self.catalog.store).read(name)["n"].to_pylist() == [1], name


@pytest.fixture(params=["merge", "cas"])
def lake(request: pytest.FixtureRequest) -> Iterator[Lake]:
    clock = VirtualClock()
    with virtual_time(clock, random.Random(1)):
        yield Lake(clock, request.param)


def test_the_youngest_bundle_of_any_table_keeps_it(lake: Lake) -> None:
    lake.catalog.table("a").checkpoint()
    lake.wait(GRACE + 1)
    assert lake.collected() == (0, 2), "b and c had no bundle: they get one, and it is young"
    lake.check()
    lake.wait(GRACE - 1)
    assert lake.collected() == (0, 2), "not yet a grace period"
    lake.check()


@pytest.mark.parametrize("late", TABLES)
def test_one_table_whose_bundle_is_young_keeps_it(lake: Lake, late: str) -> None:
    for name in TABLES:
        if name != late:
            lake.catalog.table(name).checkpoint()
    lake.wait(GRACE + 1)
    lake.catalog.table(late).checkpoint()
    lake.wait(GRACE - 1)
    assert lake.collected()[0] == 0
    lake.check()
    lake.wait(2)
    assert lake.collected() == (1, 0)
    lake.check()


@pytest.mark.parametrize("unknown", TABLES)
def test_a_log_of_which_nobody_knows_keeps_it(lake: Lake, unknown: str) -> None:
    """It may be a table that is just being created, or whose settings cannot be read now."""
    for name in TABLES:
        lake.catalog.table(name).checkpoint()
    lake.wait(GRACE + 1)
    assert lake.collected(unknown) == (0, 0)
    lake.check()
    assert lake.collected() == (1, 0)
    lake.check()


def test_a_log_that_was_dropped_keeps_nothing_and_the_others_do(lake: Lake) -> None:
    lake.catalog.drop_table("b")
    lake.wait(GRACE + 1)
    assert lake.collected() == (0, 2), "a and c had no bundle"
    lake.wait(GRACE + 1)
    assert lake.collected() == (1, 0)


def test_what_is_young_itself_is_not_looked_at(lake: Lake) -> None:
    for name in TABLES:
        lake.catalog.table(name).checkpoint()
    lake.wait(GRACE - 1)
    assert lake.collected() == (0, 0)
