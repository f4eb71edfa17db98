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
from crdtcat.clock import HybridClock
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

    def __init__(self, seed: int, mode: str = "merge") -> None:
        self.stage = Stage(seed)
        self.grace = 60 if mode == "cas" else 0  # readers of claims throw away what took half of it
        self.url = f"memory://expiry-race-{secrets.token_hex(6)}"
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        setup = self.catalog()
        setup.create_table("t", mode=mode)
        for number in range(3):
            setup.commit("t", [{"n": number}])
            self.acknowledged.add(number)

    def catalog(self) -> Catalog:
        store = SlowStore(self.url)
        store.stage = self.stage
        return Catalog(store, upkeep=False, max_commit_delay_seconds=0, grace_seconds=self.grace)

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


@settings(max_examples=bounded(400, 10), deadline=None)
@given(seeds)
def test_no_acknowledged_commit_is_passed_by(seed: int) -> None:
    scene = Scene(seed)
    scene.stage.run([scene.writer(10, 11), scene.writer(20), scene.expirer, scene.expirer])
    scene.check()
    scene.expirer()
    scene.check()


@settings(max_examples=bounded(300, 10), deadline=None)
@given(seeds)
def test_beside_bundlers_and_collectors(seed: int) -> None:
    scene = Scene(seed)
    scene.stage.run([scene.writer(10, 11), scene.expirer, scene.keeper, scene.expirer])
    scene.check()
    scene.keeper()
    scene.check()


@settings(max_examples=bounded(300, 10), deadline=None)
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


@settings(max_examples=bounded(400, 24), deadline=None)
@given(
    seeds,
    st.sampled_from(["merge", "cas"]),
    st.sampled_from(["tag", "branch"]),
    st.sampled_from(["main", "b"]),
    st.booleans(),
)
def test_what_is_named_meanwhile_is_readable_or_refused(
    seed: int, mode: str, kind: str, branch: str, older: bool
) -> None:
    """Of any handle, the newest or an older snapshot, beside a writer whose clock is behind."""
    scene = Scene(seed, mode)
    old = scene.catalog().table("t").history()[1].id
    scene.catalog().table("t").branch("b")
    made: dict[str, list[int]] = {}

    def namer() -> None:
        table = scene.catalog().table("t", branch)
        with suppress(Expired, StoreUnavailable):
            if kind == "tag":
                made["two"] = table.read(at=table.tag("two", at=old if older else None))["n"].to_pylist()
            else:
                made["two"] = table.branch("two", at=old if older else None).read()["n"].to_pylist()

    def late() -> None:
        catalog = scene.catalog()
        catalog._clock = HybridClock(lambda: time.time_ns() // 1_000_000 - 60_000)
        try:
            catalog.table("t").append([{"n": 30}])
        except CommitUnknown:
            scene.unknown.add(30)
        else:
            scene.acknowledged.add(30)

    scene.stage.run([namer, late, scene.writer(10), scene.expirer, scene.expirer])
    fresh = scene.catalog().table("t")
    names = fresh.tags() if kind == "tag" else [name for name in fresh.branches() if name != "b"]
    assert list(names) == list(made)
    if made:
        found = scene.rows(branch=branch, at="two") if kind == "tag" else scene.rows(branch="two")
        assert found == made["two"]
        assert not older or {0, 1} <= set(found) <= {0, 1, 30}, "a moment is resolved by what is known"
    scene.check()
