"""Segments that are let go while somebody is about to use them again: by expiry, by deleted branches.

The schedules of proofs/tla/Reuse.tla over the real code, on a clock of their own: a writer reads a head, and
commits up to half a day later; collectors run whenever they like. What was acknowledged can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import Expired, LimitExceeded
from crdtcat.format import condemned
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.maintenance import garbage
from crdtcat.table import Table
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import SimulatedStore
from crdtcat.verbs.parts import plan_parts
from tests.simulation.test_collection import World, numbers, world

HALF_A_DAY = TRANSACTION_SECONDS_MAX / 3600 - 0.5
DAY = 24
NOW = timedelta(0)
OPTIONS: dict[str, Any] = {
    "upkeep": False, "inline_bytes": 0, "grace_seconds": 60, "max_commit_delay_seconds": 0
}  # fmt: skip


class Scene:
    """A table whose first rows only history refers to, and people who are slow."""

    def __init__(self, made: World) -> None:
        self.world = made
        table = self.catalog().create_table("t", numbers(made).schema)
        self.rows = numbers(made)
        self.old = table.append(self.rows)
        self.wait(3 * DAY)
        table.overwrite(numbers(made))

    def catalog(self) -> Catalog:
        return Catalog(SimulatedStore(self.world.objects, self.world.clock, lambda *_: None), **OPTIONS)

    def table(self) -> Table:
        return self.catalog().table("t")

    def wait(self, hours: float) -> None:
        self.world.wait(hours)

    def let_go(self) -> None:
        """Rows that are gone from the table are gone from its history too."""
        self.wait(0.01)
        self.table().expire(older_than=NOW)
        self.table().collect()

    def somebody_slow(self) -> Table:
        """A handle of somebody who has read everything by now, and will commit later."""
        return Catalog(PausedStore(self.world.objects, self.world.clock), **OPTIONS).table("t")

    def check(self) -> None:
        assert self.table().read().equals(self.rows)
        assert self.table().verify("content").ok


@pytest.fixture
def scene() -> Iterator[Scene]:
    with world() as made:
        yield Scene(made)


def let_go_twice(scene: Scene) -> None:
    """Let go, condemned, used again, read by another, let go again; and then a collector comes by."""
    first = scene.somebody_slow()
    scene.let_go()
    scene.catalog().collect()
    first.restore(scene.old.id)
    scene.wait(DAY - 1)
    second = scene.somebody_slow()
    back = scene.table().history()[-1].id
    scene.table().overwrite(numbers(scene.world))
    scene.let_go()
    scene.wait(2)
    scene.catalog().collect()
    second.restore(back)
    scene.check()


def test_what_is_let_go_twice_between_two_collections_is_not_lost(scene: Scene) -> None:
    let_go_twice(scene)


def test_without_a_word_from_who_lets_go_it_would_be(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "is_let_go", lambda _: False)
    monkeypatch.setattr(condemned, "is_let_go", lambda _: False)
    with pytest.raises(AssertionError, match="missing: the store has no such object"):
        _with_damage_as_failure(let_go_twice, scene)


def _with_damage_as_failure(act: Callable[[Scene], None], scene: Scene) -> None:
    try:
        act(scene)
    except Exception as error:
        raise AssertionError(str(error)) from error


def test_what_an_expiry_let_go_is_deleted_a_day_later(scene: Scene) -> None:
    scene.let_go()
    assert len(scene.catalog().collect().of("waiting")) == 1
    scene.wait(DAY - 1)
    assert not scene.catalog().collect().deleted
    scene.wait(2)
    assert len(scene.catalog().collect().deleted) == 1
    assert not [name for name in scene.world.objects if name.startswith("garbage/")]


def test_a_damaged_word_makes_the_collector_begin_anew(scene: Scene) -> None:
    """With what was condemned before it, too."""
    plan_parts(scene.table()._session, scene.rows.schema).stage(numbers(scene.world).to_batches())
    scene.wait(DAY + 1)
    assert len(scene.catalog().collect().of("condemned")) == 1
    before = set(scene.world.objects)
    scene.let_go()
    scene.wait(DAY + 1)
    (name,) = [name for name in scene.world.objects if name.startswith("garbage/") and name not in before]
    data, modified_ms = scene.world.objects[name]
    scene.world.objects[name] = data[:-1], modified_ms
    assert len(scene.catalog().collect().of("condemned")) == 2
    scene.wait(DAY + 1)
    assert len(scene.catalog().collect().deleted) == 2


def test_a_branch_let_go_twice_is_not_lost(scene: Scene) -> None:
    """As above, by branches that are merged and deleted at once."""
    rows = scene.table().read().num_rows
    scene.table().branch("a").append(scene.rows)
    for name in ("b", "c"):
        scene.table().branch(name)
    scene.wait(DAY * 2)
    first = scene.somebody_slow()
    scene.table().delete_branch("a")
    scene.catalog().collect()
    Catalog(first._session.store, **OPTIONS).table("t", "b").merge("a")
    scene.wait(DAY - 1)
    second = scene.somebody_slow()
    scene.table().delete_branch("b")
    scene.wait(2)
    scene.catalog().collect()
    Catalog(second._session.store, **OPTIONS).table("t", "c").merge("b")
    merged = scene.catalog().table("t", "c")
    assert merged.read().num_rows == rows + scene.rows.num_rows
    assert merged.verify("content").ok


def test_a_branch_that_was_open_for_days_does_not_use_what_its_source_let_go(scene: Scene) -> None:
    scene.table().branch("b")
    old = scene.catalog().table("t", "b")
    old.head()
    scene.let_go()
    for _ in range(3):
        scene.wait(DAY + 1)
        scene.catalog().collect()
    with pytest.raises(Expired):
        old.restore(scene.old.id)
    assert scene.catalog().table("t", "b").verify("content").ok


def test_a_transaction_that_takes_too_long_is_refused(scene: Scene) -> None:
    """Its rows were stored when they were staged: a collector may have taken them."""
    before = scene.table().read()
    transaction = scene.catalog().transaction()
    transaction.append("t", numbers(scene.world))
    for _ in range(3):
        scene.wait(DAY + 1)
        scene.catalog().collect()
    with pytest.raises(LimitExceeded, match="TRANSACTION_SECONDS_MAX"):
        transaction.commit()
    assert scene.table().read().equals(before)
