"""Collectors of segments beside writers that use chunks again, request by request, on a clock of its own.

Commits take up to half a day, collectors as long as they like, segments are days old. Whatever the order, no
version ever names a segment that is gone; and in the end nothing is left that nobody names.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    CrdtcatError,
    Expired,
    LimitExceeded,
    NoSnapshots,
    NotFound,
    StoreUnavailable,
)
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.maintenance import garbage
from crdtcat.store.requests import Kind
from crdtcat.testing.simulated_store import (
    Crash,
    Objects,
    SimulatedStore,
    Trouble,
    VirtualClock,
    virtual_time,
)
from crdtcat.verbs.parts import commit_parts, plan_parts

HOUR = 3_600_000
OPTIONS: dict[str, Any] = {
    "upkeep": False, "inline_bytes": 0, "grace_seconds": 60, "max_commit_delay_seconds": 0
}  # fmt: skip
SCHEMA = pa.schema([("n", pa.int64())])
SEEDS = 300 if os.environ.get("CRDTCAT_SLOW") == "full" else 12


class World:
    """Objects, a clock, and somebody who acts at a certain request."""

    def __init__(self, seed: int = 0) -> None:
        self.objects: Objects = {}
        self.clock = VirtualClock()
        self.chance = random.Random(seed)
        self.before_request: Callable[[Kind, str], Trouble | None] | None = None

    def catalog(self) -> Catalog:
        return Catalog(SimulatedStore(self.objects, self.clock, self._interfere), **OPTIONS)

    def _interfere(self, kind: Kind, name: str) -> Trouble | None:
        return None if self.before_request is None else self.before_request(kind, name)

    def wait(self, hours: float) -> None:
        self.clock.now_ms += int(hours * HOUR)

    def check(self) -> None:
        """Every table and branch is whole; after two more collections nothing is left that nobody names."""
        self.before_request = None
        for _ in range(3):
            self._whole()
            self.wait(25)
            self.catalog().collect()
        self._whole()
        result = self.catalog().collect(dry_run=True)
        assert not result.garbage
        assert result.young == 0
        assert result.referenced == sum(name.startswith("data/") for name in self.objects)

    def _whole(self) -> None:
        catalog = self.catalog()
        for name in catalog.tables():
            table = catalog.table(name)
            for handle in (table, *(catalog.table(name, branch) for branch in table.branches())):
                report = handle.verify("metadata")
                assert report.ok, str(report)


@contextmanager
def world(seed: int = 0) -> Iterator[World]:
    made = World(seed)
    with virtual_time(made.clock, made.chance):
        yield made


def numbers(world: World) -> pa.Table:
    return pa.table({"n": [world.chance.randrange(2**60) for _ in range(4)]}, schema=SCHEMA)


def merge(world: World) -> None:
    world.catalog().table("t").merge("b")


def merge_into_a_branch(world: World) -> None:
    catalog = world.catalog()
    catalog.table("t", "c").merge("b")


def stream(world: World) -> None:
    with world.catalog().table("t").stream() as writer:
        writer.write(numbers(world))


def parts(world: World) -> None:
    session = world.catalog().table("t")._session
    staging = plan_parts(session, SCHEMA)
    commit_parts(session, staging, [staging.stage(numbers(world).to_batches()) for _ in range(3)])


def restore(world: World) -> None:
    table = world.catalog().table("t")
    table.restore(table.history()[0])


def bundle(world: World) -> None:
    inlining = Catalog(world.catalog().store, upkeep=False, grace_seconds=60)
    inlining.table("t").append([{"n": 1}])
    inlining.table("t").checkpoint()


def branch_off(world: World) -> None:
    world.catalog().table("t", "b").branch("d").append(numbers(world))


WRITERS = [merge, merge_into_a_branch, stream, parts, restore, bundle, branch_off]


def collect_beside(world: World) -> None:
    """A branch is deleted, half a day goes by, and a collector runs from end to end."""
    catalog = world.catalog()
    if "b" in catalog.table("t").branches():
        catalog.table("t").delete_branch("b")
    world.wait(TRANSACTION_SECONDS_MAX / 3600 - 0.5)
    catalog.collect()


def arrange(world: World) -> None:
    catalog = world.catalog()
    table = catalog.create_table("t", SCHEMA)
    table.append(numbers(world))
    table.branch("b").append(numbers(world))
    table.branch("c").append(numbers(world))
    world.wait(50)


def run_beside(write: Callable[[World], None], number: int) -> bool:
    """Let a collector by before the n-th request of a writer; whether there was one."""
    with world() as made:
        arrange(made)
        left, reached = number, False

        def interfere(_: Kind, __: str) -> None:
            nonlocal left, reached
            left -= 1
            if left == 0:
                made.before_request, reached = None, True
                collect_beside(made)

        made.before_request = interfere
        try:
            write(made)
        except (NotFound, AlreadyExists, StoreUnavailable, LimitExceeded):
            pass  # its branch is gone: it says so, and nothing is visible
        except Corrupt as error:  # a reader of a log that is being deleted; by the next look it is gone
            assert "is missing" in str(error)  # noqa: PT017
        made.check()
        return reached


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: str(write.__name__))
def test_a_collector_goes_by_before_every_request_of_a_writer(write: Callable[[World], None]) -> None:
    number = 1
    while run_beside(write, number):
        number += 1
    assert number > 2


def write_again(table: Table, rows: pa.Table) -> None:
    table.write(rows)


def overwrite_again(table: Table, rows: pa.Table) -> None:
    table.overwrite(rows)


@pytest.mark.parametrize("how", [write_again, overwrite_again], ids=lambda how: str(how.__name__))
def test_a_chunk_that_is_used_again_while_it_is_let_go_and_collected_is_there(
    how: Callable[[Table, pa.Table], None],
) -> None:
    """A writer makes the table what it was, by a head of before; before each of its requests in turn somebody
    else overwrites the table, expires its history, and collects what is garbage a day later. Whoever wins,
    what is in the table can be read, then and ever after."""
    number, used_again = 1, 0
    while (found := _written_again(how, number)) is not None:
        used_again += found
        number += 1
    assert number > 2
    assert used_again  # without a collector between, nothing is encoded again


def _written_again(how: Callable[[Table, pa.Table], None], number: int) -> bool | None:
    """Whether the old segment was used once more; `None`: the writer makes fewer requests."""
    with world() as made:
        rows = numbers(made)
        table = made.catalog().create_table("t", SCHEMA)
        table.append(rows)
        (old,) = (name for name in made.objects if name.startswith("data/"))
        table.append(numbers(made))
        made.wait(50)  # old enough to be deleted
        table.head()
        left, reached = number, False

        def interfere(_: Kind, __: str) -> None:
            nonlocal left, reached
            left -= 1
            if left == 0:
                made.before_request, reached = None, True
                _let_go_beside(made)

        made.before_request = interfere
        how(table, rows)
        made.before_request = None
        here = made.catalog().table("t").read()["n"].to_pylist()  # by the rules, of the one or of the other
        used = old in made.objects
        made.check()
        assert made.catalog().table("t").read()["n"].to_pylist() == here
        return used if reached else None


def _let_go_beside(made: World) -> None:
    catalog = made.catalog()
    catalog.table("t").overwrite(numbers(made))
    made.wait(1)
    catalog.table("t").expire(older_than=timedelta(0))
    made.wait(TRANSACTION_SECONDS_MAX / 3600 - 2)
    catalog.collect()


def test_without_condemning_first_a_merge_loses_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same search exposes a collector that deletes what it finds at once, however old it is."""

    def at_once(_: Any, __: Any, listing: Any, *___: Any) -> Any:
        return np.zeros(len(listing), np.int64)

    monkeypatch.setattr(garbage._Collection, "_condemned_since", at_once)
    lost = 0
    for number in range(1, 20):
        try:
            run_beside(merge, number)
        except AssertionError as error:
            assert "missing: the store has no such object" in str(error)  # noqa: PT017
            lost += 1
    assert lost
    with pytest.raises(Corrupt, match="missing: the store has no such object"):
        _written_again(overwrite_again, 2)  # after its refresh, before it says what it uses again


class Everybody:
    """Random operations that interrupt each other at every request; see `World.check` for what must hold."""

    def __init__(self, world: World) -> None:
        self.world, self.chance = world, world.chance
        self.running: list[tuple[str, int]] = []
        self.trace: list[str] = []

    def interfere(self, kind: Kind, name: str) -> Trouble | None:
        self.world.clock.now_ms += self.chance.randrange(20_000)
        if len(self.running) < 3 and self.chance.random() < 0.12:
            self.act()
        if self.chance.random() < 0.004:
            self.trace.append(f"crash at {kind} {name}")
            return self.chance.choice(("crash", "crash after"))
        return None

    def act(self) -> None:
        operation = self.chance.choice(self.operations())
        name = operation.__name__
        self.trace.append(f"{'  ' * len(self.running)}{name} at {self.world.clock.now_ms / HOUR:.1f} h")
        self.running.append((name, self.world.clock.now_ms))
        try:
            operation()
        except (Crash, NotFound, NoSnapshots, AlreadyExists, Expired, StoreUnavailable):
            pass
        except (LimitExceeded, CommitUnknown):
            pass
        except CrdtcatError as error:  # a log that is being deleted while it is read
            if "is missing; later ones are there" not in str(error) and "expired" not in str(error):
                raise
        finally:
            self.running.pop()

    def operations(self) -> list[Callable[[], object]]:
        return [
            self.append, self.append, self.abort, self.merge, self.merge, self.branch, self.branch, self.wait,
            self.delete_branch, self.drop, self.checkpoint, self.restore, self.collect, self.collect,
            self.expire, self.expire, self.write, self.overwrite, self.compact,
        ]  # fmt: skip

    def wait(self) -> None:
        """Commits are never longer than they may be; collectors are."""
        writers = [began for name, began in self.running if name not in ("collect", "wait")]
        room = min((began + TRANSACTION_SECONDS_MAX * 1000 for began in writers), default=2**60)
        hours = self.chance.choice((1, 5, 11, 26))
        if self.world.clock.now_ms + (hours + 1) * HOUR < room:
            self.world.wait(hours)

    def handle(self) -> Any:
        catalog = self.world.catalog()
        name = self.chance.choice(("t", "u"))
        table = catalog.create_table(name, SCHEMA, exist_ok=True)
        branches = ["main", *table.branches()]
        return catalog.table(name, self.chance.choice(branches))

    def append(self) -> None:
        self.handle().append(numbers(self.world))

    def abort(self) -> None:
        staging = plan_parts(self.handle()._session, SCHEMA)
        staging.stage(numbers(self.world).to_batches())

    def merge(self) -> None:
        handle = self.handle()
        handle.merge(self.chance.choice(["main", *handle.branches()]))

    def branch(self) -> None:
        made = self.handle().branch(self.chance.choice("abcd"))
        made.append(numbers(self.world))

    def delete_branch(self) -> None:
        self.handle().delete_branch(self.chance.choice("abcd"))

    def drop(self) -> None:
        if self.chance.random() < 0.3:
            self.world.catalog().drop_table(self.chance.choice("tu"))

    def checkpoint(self) -> None:
        handle = self.handle()
        handle.checkpoint()
        handle.collect()

    def restore(self) -> None:
        handle = self.handle()
        history = handle.history()
        if len(history):
            handle.restore(history[self.chance.randrange(len(history))])

    def write(self) -> None:
        """Some rows stay, and are used again by the chunk; some go."""
        handle = self.handle()
        rows = handle.read()
        handle.write(pa.concat_tables([rows.slice(0, rows.num_rows // 2), numbers(self.world)]))

    def overwrite(self) -> None:
        self.handle().overwrite(numbers(self.world))

    def compact(self) -> None:
        self.handle().compact()

    def expire(self) -> None:
        table = self.world.catalog().create_table(self.chance.choice("tu"), SCHEMA, exist_ok=True)
        table.expire(keep_last=self.chance.choice((1, 3)))

    def collect(self) -> None:
        self.world.catalog().collect()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_everybody_at_once(seed: int) -> None:
    with world(seed) as made:
        everybody = Everybody(made)
        made.before_request = everybody.interfere
        for _ in range(12):
            everybody.act()
        try:
            made.check()
        except (AssertionError, CrdtcatError) as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(everybody.trace)) from error
