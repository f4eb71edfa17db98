"""Starts of branches: below 1 KB however many have committed, and the same set of versions for ever."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import Corrupt, InvalidArgument
from crdtcat.format.refs import branches_folder, start_name
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.head import Snapshot
from crdtcat.head.snapshot import versions_of
from crdtcat.protocol import is_version
from crdtcat.table import Table
from tests.bounds import bounded
from tests.branches.test_branches import numbers
from tests.catalog.lakes import another, lake
from tests.cost.places import asked

QUICK: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0}
START_BYTES_MAX = 1000


def test_a_start_that_names_no_snapshot_is_told_by_the_name_of_its_file() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    main.append([{"n": 1}])
    main.branch("b").branch("c")
    for branch in ("b", "c"):
        path = start_name("t", 1, branch, 1)
        content = unseal_json(bytes(catalog.store.get(path)), path)
        catalog.store.put(path, seal_json({**content, "snapshot": "s1.none"}))
        with pytest.raises(Corrupt, match=r"refs/branches/[bc]\.json.*names no snapshot"):
            another(catalog).table("t").branches()
        with pytest.raises(Corrupt, match=f"refs/branches/{branch}"):
            another(catalog).table("t", branch=branch)


def by_many(table: Table, *values: int) -> None:
    """Each value by a writer of its own, who reads nothing."""
    for value in values:
        table._session.writer = table._session.upkeep_writer()  # as another handle would have
        table.append([{"n": value}])


def sizes(catalog: Catalog) -> list[int]:
    return [item.size for item in catalog.store.list(branches_folder("t", 1))]


def test_a_start_is_small_however_many_have_committed_blindly() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(300))
    before = catalog.store.requests.snapshot()
    stored = asked(catalog, lambda: main.branch("b"))
    assert catalog.store.requests.since(before).bytes_out < 300 * 12 + START_BYTES_MAX
    again = asked(catalog, lambda: main.branch("c"))
    assert (stored["put"], again["put"]) == (2, 1)  # the first one also says, once, whom it has seen
    by_many(main, *range(300, 320))
    few = asked(catalog, lambda: main.branch("d"))
    assert few["put"] == 1
    assert max(sizes(catalog)) < START_BYTES_MAX
    by_many(main, -1)
    fresh = another(catalog, **QUICK)
    expected = {"b": range(300), "c": range(300), "d": range(320)}
    assert {name: sorted(numbers(fresh.table("t", name))) for name in expected} == {
        name: [*values] for name, values in expected.items()
    }
    assert all(fresh.table("t", name).verify("content").ok for name in expected)


def test_whatever_upkeep_has_seen_need_not_be_said_again() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(200))
    main.compact()
    assert asked(catalog, lambda: main.branch("b"))["put"] == 1
    assert max(sizes(catalog)) < START_BYTES_MAX
    by_many(main, -1)
    assert sorted(numbers(another(catalog).table("t", "b"))) == [*range(200)]


def test_who_writes_down_what_it_saw_changes_nothing_else() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(100))
    head = main.head()
    main.branch("b")
    after = another(catalog).table("t").head()
    assert (after.snapshot, after.version, list(after.history)) == (
        head.snapshot,
        head.version,
        list(head.history),
    )
    assert after.root_hash == head.root_hash
    assert not main.conflicts()


def test_an_older_snapshot_gets_a_short_name_too() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(150))
    main.branch("old", at=main.history()[119])
    main.branch("new")
    assert max(sizes(catalog)) < START_BYTES_MAX
    by_many(main, -1)
    fresh = another(catalog, **QUICK)
    assert sorted(numbers(fresh.table("t", "old"))) == [*range(120)]
    assert sorted(numbers(fresh.table("t", "new"))) == [*range(150)]


def test_a_short_name_holds_what_is_merged_into_the_past_apart() -> None:
    """Hundreds of versions that sort before the start arrive after it."""
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, 0)
    side = main.branch("side")
    by_many(side, *range(1000, 1100))
    by_many(main, *range(1, 100))
    main.branch("b")
    main.merge("side")
    fresh = another(catalog, **QUICK)
    assert sorted(numbers(fresh.table("t", "b"))) == [*range(100)]
    assert sorted(numbers(fresh.table("t"))) == [*range(100), *range(1000, 1100)]


def test_tokens_of_short_names_are_read_back_and_others_refused() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(100))
    main.branch("b")
    short = main.branches()["b"].snapshot
    assert short.seen_by
    for copy in (Snapshot.parse(str(short)), pickle.loads(pickle.dumps(short))):
        assert (copy, copy.seen_by, copy.horizon, copy.clock) == (short, short.seen_by, 0, short.clock)
    assert sorted(numbers(main, at=str(short))) == [*range(100)]
    damaged = Snapshot(short.id, short.versions, short.clock, 0, b"short")
    with pytest.raises(InvalidArgument):
        Snapshot.parse(str(damaged))


STEPS = (
    "many",
    "many",
    "update",
    "branch",
    "old branch",
    "branch of",
    "expire",
    "compact",
    "bundle",
    "collect",
)


@settings(max_examples=bounded(100, 10), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(STEPS), max_size=12))
@example(
    ["update", "old branch", "compact", "branch of"]
)  # the source's upkeep had seen more than the branch has
def test_every_branch_begins_with_what_it_was_made_from(steps: list[str]) -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(60))
    expected: dict[str, list[int]] = {}
    for number, step in enumerate(steps, start=1):
        name = f"b{number}"
        match step:
            case "many":
                by_many(main, *range(100 * number, 100 * number + 50))
            case "update":
                main.update(f"n % 7 = {number % 7}", {"n": 100 * number})
            case "branch":
                expected[name] = sorted(numbers(main))
                main.branch(name)
            case "old branch" if len(main.history()) > 1:
                at = main.history()[-2]
                expected[name] = sorted(numbers(main, at=at))
                main.branch(name, at=at)
            case "branch of" if expected:
                source = main._on(next(iter(expected)))
                made = source.branch(name)
                expected[name] = sorted(numbers(made))
                by_many(made, -number)
                expected[name] = sorted([*expected[name], -number])
            case "expire":
                main.expire(older_than=timedelta(0))
            case "compact":
                main.compact()
            case "bundle":
                main.checkpoint()
            case "collect":
                main.collect()
    fresh = another(catalog, **QUICK)
    assert {name: sorted(numbers(fresh.table("t", name))) for name in expected} == expected
    assert all(size < START_BYTES_MAX for size in sizes(catalog))
    for name in expected:
        log = fresh.table("t")._session.head().log
        start = fresh.table("t").branches()[name]
        if start.source == "main":
            assert len(versions_of(log, start.snapshot, "t"))
        assert fresh.table("t", name).verify().ok


def test_what_it_says_is_one_small_version_of_upkeep() -> None:
    catalog = lake(**QUICK)
    main = catalog.create_table("t")
    by_many(main, *range(100))
    before = {item.name for item in catalog.store.list("tables/t/main/")}
    main.branch("b")
    (made,) = [item for item in catalog.store.list("tables/t/main/") if item.name not in before]
    assert is_version(made.name)
    assert made.size < 100 * 10 + 200
