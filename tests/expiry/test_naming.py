"""Snapshots that are named beside an expiry, at its worst moment: the name is good, or it is refused."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.errors import CommitUnknown, Expired, StoreUnavailable
from crdtcat.lifecycle.horizons import propose
from crdtcat.maintenance import ExpireResult
from crdtcat.protocol import is_base
from crdtcat.store.attempts import Attempts
from crdtcat.table import Table
from tests.catalog.lakes import another, lake

QUICK: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0, "upkeep": False}
SCHEMA = pa.schema([("n", pa.int64())])
NOW = timedelta(0)
EXPIRE = importlib.import_module("crdtcat.maintenance.expire")


def before(catalog: Catalog, is_it: Callable[[str], bool], act: Callable[[], object]) -> None:
    """Do something once, before a catalog creates the first file of a sort."""
    put, waiting = catalog.store.put_if_absent, [act]

    def acting(name: str, data: Any) -> bool:
        if is_it(name) and waiting:
            waiting.pop()()
        return put(name, data)

    catalog.store.put_if_absent = acting  # type: ignore[method-assign]


def is_tag(name: str) -> bool:
    return "/refs/tags/" in name


def expired_beside(catalog: Catalog, act: Callable[[], object], **what: Any) -> ExpireResult:
    """An expiry that looks for names, and stores its base after something else was done."""
    expirer = another(catalog, **QUICK)
    before(expirer, is_base, act)
    return expirer.table("t").expire(**what)


def behind(catalog: Catalog) -> Table:
    """A handle on a machine whose clock is a minute behind."""
    other = another(catalog, **QUICK)
    other._clock = HybridClock(lambda: time.time_ns() // 1_000_000 - 60_000)
    return other.table("t")


def named(table: Table, kind: str, at: Any) -> bool:
    """Whether it was; else it was refused."""
    try:
        table.tag("x", at=at) if kind == "tag" else table.branch("x", at=at)
    except (Expired, StoreUnavailable):
        return False
    return True


def found(catalog: Catalog, kind: str, branch: str) -> list[int] | None:
    """What is read under the name, if it is there."""
    cold = another(catalog, **QUICK)
    table = cold.table("t")
    if "x" not in (table.tags() if kind == "tag" else table.branches()):
        return None
    rows = cold.read("t", branch=branch, at="x") if kind == "tag" else cold.read("t", branch="x")
    values: list[int] = rows["n"].to_pylist()
    return values


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("kind", ["tag", "branch"])
@pytest.mark.parametrize("branch", ["main", "b"])
@pytest.mark.parametrize("older", [True, False])
def test_by_any_handle_in_any_mode(mode: str, kind: str, branch: str, older: bool) -> None:
    catalog = lake(**QUICK)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    versions = [table.append([{"n": n}]) for n in range(6)]
    table.branch("b")
    done: list[bool] = []

    def name_it() -> None:
        handle = another(catalog, **QUICK).table("t", branch)
        done.append(named(handle, kind, versions[1] if older else None))

    assert expired_beside(catalog, name_it, keep_last=2).versions == 4
    assert done == [not older], "what the expiry leaves alone is not refused"
    assert found(catalog, kind, branch) == (None if older else [*range(6)])
    if kind == "branch" and not older:
        another(catalog, **QUICK).table("t", "x").append([{"n": 6}])
        assert table.merge("x").versions == 1


@pytest.mark.parametrize("asleep", [False, True])
def test_a_commit_of_a_clock_that_is_behind_between_the_two_listings(tmp_path: Path, asleep: bool) -> None:
    """Whoever names its head lists before it: what lands then is folded apart, for all it knows."""
    catalog = Catalog(tmp_path, **QUICK)
    catalog._clock = HybridClock(lambda: time.time_ns() // 1_000_000 - 60_000)
    catalog.create_table("t", SCHEMA).append([{"n": 0}])
    tagger = Catalog(tmp_path, **QUICK)

    def meanwhile() -> None:
        behind(catalog).append([{"n": 1}])
        assert Catalog(tmp_path, **QUICK).table("t").expire(older_than=timedelta(seconds=20)).versions == 2
        if asleep:  # so long that whoever proposed it, and has no base, must be dead
            for file in (tmp_path / "tables/t/refs/horizons").iterdir():
                os.utime(file, (time.time() - 3600,) * 2)

    before(tagger, is_tag, meanwhile)
    assert not named(tagger.table("t"), "tag", None)
    assert found(catalog, "tag", "main") is None


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_snapshot_with_a_late_commit_that_an_expiry_may_pass_by(kind: str) -> None:
    catalog = lake(**QUICK)
    catalog._clock = HybridClock(lambda: time.time_ns() // 1_000_000 - 120_000)
    table = catalog.create_table("t", SCHEMA)
    for n in range(3):
        table.append([{"n": n}])
    another(catalog, **QUICK).table("t").append([{"n": 3}])
    done: list[bool] = []

    def meanwhile() -> None:
        with suppress(CommitUnknown):
            behind(catalog).append([{"n": 4}])
        assert another(catalog, **QUICK).read("t").num_rows == 5
        done.append(named(another(catalog, **QUICK).table("t"), kind, None))

    expired_beside(catalog, meanwhile, older_than=timedelta(seconds=20))
    assert another(catalog, **QUICK).read("t").num_rows == 4, "it was passed by"
    assert done == [False]
    assert found(catalog, kind, "main") is None


def test_an_expiry_that_is_held_back_meanwhile_lists_again_below_what_it_says() -> None:
    """A tag comes, and is gone when the lesser horizon is proposed; what was stored until then is listed."""
    catalog = lake(**QUICK)
    table = catalog.create_table("t", SCHEMA)
    versions = [table.append([{"n": n}]) for n in range(6)]
    expirer = another(catalog, **QUICK)
    put, proposed = expirer.store.put, list[int]()

    def proposing(name: str, data: Any) -> None:
        if "/refs/horizons/" in name:
            proposed.append(int(name.rsplit("/", 1)[-1].partition("-")[0], 16))
            if len(proposed) == 1:
                table.tag("x", at=versions[3])
            else:
                table.delete_tag("x")
                with suppress(CommitUnknown):
                    behind(catalog).append([{"n": 6}])
        put(name, data)

    expirer.store.put = proposing  # type: ignore[method-assign]
    result = expirer.table("t").expire(older_than=NOW)
    assert (result.versions, result.held_by) == (5, ("tag x",))
    assert proposed[1:] == [versions[4].id.hlc] == [table.head().log.horizon]
    assert another(catalog, **QUICK).read("t").num_rows == 7


def test_an_expirer_that_was_suspended_looks_again_and_says_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps when all is ready but the base, so long that others take it for dead."""
    catalog = Catalog(tmp_path, **QUICK)
    table = catalog.create_table("t", SCHEMA)
    versions = [table.append([{"n": n}]) for n in range(6)]
    now, slept = [0.0], list[bool]()

    def ready(*_: Any) -> None:
        if not slept:
            now[0] += 1800
            for file in (tmp_path / "tables/t/refs/horizons").iterdir():
                os.utime(file, (time.time() - 1800,) * 2)
            slept.append(named(Catalog(tmp_path, **QUICK).table("t"), "tag", versions[3]))
            Catalog(tmp_path, **QUICK).table("t").branch("y", at=versions[3])

    def again() -> None:
        slept.append(named(Catalog(tmp_path, **QUICK).table("t"), "branch", versions[1]))

    monkeypatch.setattr(EXPIRE, "elapsed_clock", lambda: now[0])
    monkeypatch.setattr(EXPIRE, "let_go", ready)
    result = expired_beside(catalog, again, older_than=NOW)
    assert (result.versions, result.held_by) == (4, ("branch y", "tag x"))
    assert slept == [True, False], "once it is at work again nobody takes it for dead"
    assert found(catalog, "tag", "main") == [0, 1, 2, 3]
    assert Catalog(tmp_path, **QUICK).read("t", branch="y")["n"].to_pylist() == [0, 1, 2, 3]
    assert list(table.branches()) == ["y"]


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_tag_that_cannot_be_moved_stays_where_it_is(meanwhile: bool) -> None:
    """Whether the expiry was proposed before, by somebody who was killed, or while the tag is moved."""
    catalog = lake(**QUICK)
    table = catalog.create_table("t", SCHEMA)
    versions = [table.append([{"n": n}]) for n in range(4)]
    table.tag("x", at=versions[2])
    put, tried = catalog.store.put, list[str]()

    def proposed() -> None:
        propose(another(catalog, **QUICK).store, "t", 1, versions[3].id.hlc)

    def putting(name: str, data: Any) -> None:
        if is_tag(name):
            tried.append(name)
            if meanwhile and len(tried) == 1:
                proposed()
        put(name, data)

    if not meanwhile:
        proposed()
    catalog.store.put = putting  # type: ignore[method-assign]
    with pytest.raises(Expired, match="was not made"):
        table.tag("x", at=versions[1], replace=True)
    assert len(tried) == 2
    assert found(catalog, "tag", "main") == [0, 1, 2]
    table.tag("x", at=versions[3], replace=True)
    assert found(catalog, "tag", "main") == [0, 1, 2, 3]


def test_a_tag_that_is_refused_holds_where_it_was_meanwhile() -> None:
    """One expirer has proposed and sleeps, so the move is refused; another looks while it is under way."""
    catalog = lake(**QUICK)
    table = catalog.create_table("t", SCHEMA)
    versions = [table.append([{"n": n}]) for n in range(6)]
    table.tag("x", at=versions[1])
    put, tried = catalog.store.put, list[int]()

    def putting(name: str, data: Any) -> None:
        first = is_tag(name) and not tried
        if first:
            propose(another(catalog, **QUICK).store, "t", 1, versions[5].id.hlc)
        put(name, data)
        if first:
            tried.append(another(catalog, **QUICK).table("t").expire(older_than=NOW).versions)

    catalog.store.put = putting  # type: ignore[method-assign]
    with pytest.raises(Expired, match="was not made"):
        table.tag("x", at=versions[3], replace=True)
    assert tried == [2], "it holds for what it stood for"
    assert found(catalog, "tag", "main") == [0, 1]
    assert another(catalog, **QUICK).verify("t").ok


class Killed(BaseException):
    """Whoever is at work ends here."""


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("forward", [True, False])
def test_an_expiry_at_every_request_of_a_move(
    forward: bool, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever moves it may die there as well: the tag stands for one of the two, and that can be read."""
    old, new = (1, 3) if forward else (3, 1)
    for at in range(8):
        catalog = lake(**QUICK)
        table = catalog.create_table("t", SCHEMA)
        versions = [table.append([{"n": n}]) for n in range(5)]
        table.tag("x", at=versions[old])
        with monkeypatch.context() as patched, suppress(Expired, Killed):
            patched.setattr(Attempts, "_attempt", _expiring(catalog, at, dies=dies))
            table.tag("x", at=versions[new], replace=True)
        there = found(catalog, "tag", "main")
        assert there in ([*range(old + 1)], [*range(new + 1)])
        another(catalog, **QUICK).table("t").expire(older_than=NOW)
        assert found(catalog, "tag", "main") == there


def _expiring(catalog: Catalog, at: int, *, dies: bool) -> Callable[..., Any]:
    """Requests, one of which comes after an expiry, or never."""
    asked, original = itertools.count(), Attempts._attempt

    def attempt(self: Any, kind: Any, name: str, call: Any) -> Any:
        if next(asked) == at:
            another(catalog, **QUICK).table("t").expire(older_than=NOW)
            if dies:
                raise Killed
        return original(self, kind, name, call)

    return attempt


@pytest.mark.parametrize("name", ["tag", "branch"])
def test_what_is_named_beside_a_sync_that_takes_over_a_horizon_is_refused(name: str) -> None:
    """It folds versions that no listing shows yet, so nobody can tell whether a snapshot has them."""
    here, there = lake(**QUICK), lake(**QUICK)
    there.commit("t", [{"n": 1}])
    there.sync(here)
    there.commit("t", [{"n": 2}])
    time.sleep(0.002)  # what was committed in this millisecond is not older
    assert there.table("t").expire(older_than=NOW).versions == 2
    here.commit("t", [{"n": 3}])
    said: list[str] = []

    def act() -> None:
        try:
            getattr(another(here, **QUICK).table("t"), name)("x")
        except (Expired, StoreUnavailable) as error:
            said.append(str(error))

    before(here, is_base, act)
    assert there.sync(here).ok
    assert len(said) == 1
    assert "was not made" in said[0]
    fresh = another(here, **QUICK).table("t")
    assert "x" not in (fresh.tags() if name == "tag" else fresh.branches())
    assert sorted(fresh.read()["n"].to_pylist()) == [1, 2, 3]
    another(here, **QUICK).collect(dry_run=True)
