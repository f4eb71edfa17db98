"""Making and deleting branches from several processes at once, request by request."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import AlreadyExists, NotFound
from tests.bounds import bounded
from tests.catalog.test_races import Stage, StagedStore


def _catalog(url: str, stage: Stage) -> Catalog:
    store = StagedStore(url)
    store.stage = stage
    return Catalog(store, upkeep=False)


def _found(table: pa.Table) -> list[int]:
    found: list[int] = table.column("n").to_pylist()
    return found


@settings(max_examples=bounded(300, 4), deadline=None)
@given(st.integers(0, 2**32))
def test_a_branch_made_while_its_source_is_deleted_is_whole_or_not_there(seed: int) -> None:
    stage, url = Stage(seed), f"memory://branch-race-{secrets.token_hex(6)}"
    setup = _catalog(url, stage)
    setup.commit("t", [{"n": 1}])
    setup.table("t").branch("one").append([{"n": 2}])
    made: list[str] = []

    def maker() -> None:
        with suppress(NotFound):
            _catalog(url, stage).table("t", "one").branch("two")
            made.append("two")

    def deleter() -> None:
        _catalog(url, stage).table("t").delete_branch("one")

    stage.run([maker, deleter])
    fresh = _catalog(url, stage)
    assert sorted(fresh.table("t").branches()) == made
    for name in made:
        assert _found(fresh.read("t", branch=name)) == [1, 2]


@settings(max_examples=bounded(300, 4), deadline=None)
@given(st.integers(0, 2**32))
def test_of_several_who_make_one_branch_one_does_whatever_is_deleted_meanwhile(seed: int) -> None:
    stage, url = Stage(seed), f"memory://branch-race-{secrets.token_hex(6)}"
    setup = _catalog(url, stage)
    setup.commit("t", [{"n": 0}])
    setup.table("t").branch("b").append([{"n": 1}])
    acknowledged: list[str] = []

    def maker(number: int) -> Callable[[], None]:
        def make() -> None:
            with suppress(AlreadyExists):
                branch = _catalog(url, stage).table("t").branch("b")
                branch.append([{"n": number}])
                acknowledged.append(f"{number} in {branch._session.folder}")

        return make

    def deleter() -> None:
        _catalog(url, stage).table("t").delete_branch("b")

    stage.run([maker(10), maker(11), deleter])
    folders = [text.split(" in ")[1] for text in acknowledged]
    assert len(folders) == len(set(folders)) <= 1, "two made the same branch"
    fresh = _catalog(url, stage)
    if acknowledged:
        assert f"{_found(fresh.read('t', branch='b'))[-1]} in tables/t/b~1~2/" == acknowledged[0]
    else:
        assert fresh.table("t").branches() == {}


@settings(max_examples=bounded(200, 4), deadline=None)
@given(st.integers(0, 2**32))
def test_merges_beside_commits_and_upkeep_lose_nothing(seed: int) -> None:
    stage, url = Stage(seed), f"memory://branch-race-{secrets.token_hex(6)}"
    setup = _catalog(url, stage)
    setup.commit("t", [{"n": 0}])
    setup.table("t").branch("b").append([{"n": 1}])
    quick = StagedStore(url)
    quick.stage = stage

    def merger() -> None:
        _catalog(url, stage).table("t").merge("b")

    def writer() -> None:
        catalog = _catalog(url, stage)
        catalog.commit("t", [{"n": 2}])
        catalog.commit("t", [{"n": 3}], branch="b")

    def keeper() -> None:
        table = Catalog(quick, upkeep=False, grace_seconds=60).table("t")
        table.checkpoint()
        table.collect()

    stage.run([merger, merger, writer, keeper])
    fresh = _catalog(url, stage)
    assert {0, 1, 2} <= set(_found(fresh.read("t")))
    fresh.table("t").merge("b")
    found = _found(fresh.read("t"))
    assert sorted(found) == [0, 1, 2, 3]
