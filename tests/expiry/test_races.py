"""Expiries beside writers, other expiries, collectors, tags and branches, request by request.

With no delay allowed for commits, every writer whose clock has moved on since its stamp looks for proposals:
each order of requests is one that slow machines could bring about.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, Expired, StoreUnavailable
from crdtcat.store.requests import Kind
from tests.bounds import bounded
from tests.catalog.test_races import Stage, StagedStore

_T = TypeVar("_T")
NOW = timedelta(0)


class SlowStore(StagedStore):
    """A staged store on which time passes with every request."""

    def _attempt(self, kind: Kind, name: str, call: Callable[[], _T]) -> _T:
        time.sleep(0.0011)
        return super()._attempt(kind, name, call)


class Scene:
    """One table that several use at once."""

    def __init__(self, seed: int) -> None:
        self.stage = Stage(seed)
        self.url = f"memory://expiry-race-{secrets.token_hex(6)}"
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        setup = self.catalog()
        for number in range(3):
            setup.commit("t", [{"n": number}])
            self.acknowledged.add(number)

    def catalog(self) -> Catalog:
        store = SlowStore(self.url)
        store.stage = self.stage
        return Catalog(store, upkeep=False, max_commit_delay_seconds=0, grace_seconds=0)

    def writer(self, *values: int) -> Callable[[], None]:
        def write() -> None:
            table = self.catalog().table("t")
            for number in values:
                try:
                    table.append([{"n": number}])
                except CommitUnknown:
                    self.unknown.add(number)
                else:
                    self.acknowledged.add(number)

        return write

    def expirer(self) -> None:
        with suppress(StoreUnavailable):
            self.catalog().table("t").expire(older_than=NOW)

    def keeper(self) -> None:
        table = self.catalog().table("t")
        table.checkpoint()
        with suppress(StoreUnavailable):  # files vanish without grace
            table.collect()

    def rows(self, **options: Any) -> list[int]:
        found: list[int] = self.catalog().read("t", ["n"], **options).column("n").to_pylist()
        return found

    def check(self) -> None:
        found = self.rows()
        assert len(found) == len(set(found)), "a commit counts twice"
        assert self.acknowledged <= set(found) <= self.acknowledged | self.unknown


seeds = st.integers(0, 2**32)


@settings(max_examples=bounded(400, 5), deadline=None)
@given(seeds)
def test_no_acknowledged_commit_is_passed_by(seed: int) -> None:
    scene = Scene(seed)
    scene.stage.run([scene.writer(10, 11), scene.writer(20), scene.expirer, scene.expirer])
    scene.check()
    scene.expirer()
    scene.check()


@settings(max_examples=bounded(300, 5), deadline=None)
@given(seeds)
def test_beside_bundlers_and_collectors(seed: int) -> None:
    scene = Scene(seed)
    scene.stage.run([scene.writer(10, 11), scene.expirer, scene.keeper, scene.expirer])
    scene.check()
    scene.keeper()
    scene.check()


@settings(max_examples=bounded(300, 5), deadline=None)
@given(seeds)
def test_a_branch_made_meanwhile_is_readable_and_can_be_merged(seed: int) -> None:
    scene = Scene(seed)
    made: list[str] = []

    def brancher() -> None:
        with suppress(StoreUnavailable):
            branch = scene.catalog().table("t").branch("b")
            made.append("b")
            branch.append([{"n": 30}])

    scene.stage.run([scene.writer(10), brancher, scene.expirer, scene.expirer])
    scene.check()
    fresh = scene.catalog().table("t")
    assert list(fresh.branches()) == made
    if made:
        assert {0, 1, 2, 30} <= set(scene.rows(branch="b"))
        fresh.merge("b")
        scene.acknowledged.add(30)
        scene.check()


@settings(max_examples=bounded(300, 5), deadline=None)
@given(seeds)
def test_a_tag_of_an_older_snapshot_is_readable_or_refused(seed: int) -> None:
    scene = Scene(seed)
    old = scene.catalog().table("t").history()[1].id
    made: list[str] = []

    def tagger() -> None:
        with suppress(Expired):
            scene.catalog().table("t").tag("two", at=old)
            made.append("two")

    scene.stage.run([tagger, scene.expirer, scene.expirer])
    assert list(scene.catalog().table("t").tags()) == made
    if made:
        assert scene.rows(at="two") == [0, 1]
    scene.check()
