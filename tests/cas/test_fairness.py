"""Writers in a loop beside each other, far from the store: everybody commits, whoever is behind catches up,
whoever cannot is told, and whoever is alone hardly notices. In virtual time."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitContended
from crdtcat.table import Table
from tests.cas.scenes import SCHEMA, rows
from tests.cas.virtual_time import REQUEST_SECONDS, FarStore, Timeline

SECONDS_MAX = 30  # where the other one ends, so that whoever starves beside it is seen to


@pytest.fixture
def timeline(monkeypatch: pytest.MonkeyPatch) -> Timeline:
    made = Timeline(7)
    made.patch(monkeypatch)
    return made


def created() -> str:
    url = f"memory://fair-{secrets.token_hex(6)}"
    Catalog(url, upkeep=False).create_table("t", SCHEMA, mode="cas").append(rows("mo", 0))
    return url


def far(url: str, timeline: Timeline, noise: float = 0.3, **options: Any) -> tuple[Catalog, Table]:
    store = FarStore(url)
    store.timeline, store.noise = timeline, noise
    catalog = Catalog(store, upkeep=False, **options)
    table = catalog.table("t")
    table.head()
    return catalog, table


@pytest.mark.parametrize(
    ("writers", "noise", "seconds"), [(2, 0.03, 15), (2, 0.3, 15), (3, 0.3, 15), (4, 0.03, 15), (16, 0.3, 6)]
)
def test_writers_in_a_loop_all_commit_at_comparable_rates(
    timeline: Timeline, writers: int, noise: float, seconds: float
) -> None:
    url = created()
    tables = [far(url, timeline, noise)[1] for _ in range(writers)]
    made, end = [0] * writers, timeline.now + seconds

    def loop(me: int) -> None:
        while timeline.now < end:
            tables[me].append(rows("mo", me))
            made[me] += timeline.now < end

    timeline.run([lambda me=me: loop(me) for me in range(writers)])  # type: ignore[misc]
    mean = sum(made) / writers
    assert min(made) > mean / 4, made
    assert sum(made) > seconds / REQUEST_SECONDS / 4, made  # they do not just wait


@pytest.mark.parametrize(
    ("verb", "writers", "more"), [("append", 8, 2), ("append", 32, 0), ("update", 2, 0.8)]
)
def test_writers_that_race_make_two_requests_and_one_for_each_commit_between_on_average(
    timeline: Timeline, verb: str, writers: int, more: float
) -> None:
    """A race lost is two requests, and whoever reads the newest claim has the others: of many writers that
    is less than 2 + k. Of eight it is up to two more: they lose three races for seven commits between. Of two
    who read before they commit it is one more in every other commit: they rest before they read."""
    url = created()
    Catalog(url, upkeep=False).table("t").append(rows("mo", *range(100, 100 + writers)))
    handles = [far(url, timeline) for _ in range(writers)]
    end, between, asked = timeline.now + 6, [0], [0]
    count = [0]

    def loop(me: int) -> None:
        catalog, table = handles[me]

        def commit() -> int:
            made = (
                table.append(rows("mo", me))
                if verb == "append"
                else table.update(f"n = {100 + me}", {"x": count[0]})
            )
            return made.number

        last = commit()
        while timeline.now < end:
            before = catalog.store.requests.snapshot()
            number = commit()
            cost = catalog.store.requests.since(before)
            between[0] += number - last - 1
            asked[0] += cost.put + cost.get + cost.list
            count[0] += 1
            last = number

    timeline.run([lambda me=me: loop(me) for me in range(writers)])  # type: ignore[misc]
    assert count[0] > 4 * writers
    assert asked[0] / count[0] <= 2 + more + between[0] / count[0]


@pytest.mark.parametrize("begins", [0.1, 4.0])
def test_one_that_comes_to_a_loop_catches_up_and_commits(timeline: Timeline, begins: float) -> None:
    """However many commits it is behind: looks go out together, so it needs a few rounds, and the other one
    stands back now and then."""
    url = created()
    hot = far(url, timeline)[1]
    catalog, late = far(url, timeline)
    over, began = [False], timeline.now
    cost: dict[str, Any] = {}

    def loop() -> None:
        while not over[0] and timeline.now < SECONDS_MAX:
            hot.append(rows("mo", 1))

    def one() -> None:
        timeline.sleep(begins)
        before, start = catalog.store.requests.snapshot(), timeline.now
        cost["made"] = late.append(rows("mo", 2))
        cost["seconds"], cost["requests"] = timeline.now - start, catalog.store.requests.since(before)
        over[0] = True

    timeline.run([loop, one])
    asked = cost["requests"]
    between, lost = cost["made"].number - 2, asked.put - 1
    assert between > begins / REQUEST_SECONDS / 2
    assert asked.put + asked.get + asked.list <= 2 + between + 2 * lost
    # The longest that the other one goes on without standing back, three times.
    assert cost["seconds"] < 3 * 128 * REQUEST_SECONDS, timeline.now - began


@pytest.mark.parametrize("retries", [0, 5, 20])
def test_beside_one_that_never_stands_back_retries_are_the_end(timeline: Timeline, retries: int) -> None:
    url = created()
    hot = far(url, timeline, 0.01, base_delay=0)[1]
    catalog, late = far(url, timeline, 0.01, retries=retries)
    over = [False]

    def loop() -> None:
        while not over[0] and timeline.now < SECONDS_MAX:
            hot.append(rows("mo", 1))

    def one() -> None:
        timeline.sleep(1)
        before = catalog.store.requests.snapshot()
        with pytest.raises(CommitContended, match="retries"):
            late.append(rows("mo", 2))
        asked = catalog.store.requests.since(before)
        assert asked.put == retries + 1
        assert asked.list <= 1 + retries / 4
        over[0] = True

    timeline.run([loop, one])


def test_who_is_alone_makes_one_request_each_and_waits_for_little(timeline: Timeline) -> None:
    catalog, table = far(created(), timeline, 0.01)
    before, began = catalog.store.requests.snapshot(), timeline.now
    for n in range(16):
        table.append(rows("mo", n))
    assert timeline.now - began < 17 * REQUEST_SECONDS, "it has met nobody"
    began = timeline.now
    for n in range(1024):
        table.append(rows("mo", n))
    asked = catalog.store.requests.since(before)
    assert (asked.put, asked.get, asked.list) == (16 + 1024, 0, 0)
    assert timeline.now - began < 1.1 * 1024 * REQUEST_SECONDS


def test_who_takes_its_time_between_commits_never_waits(timeline: Timeline) -> None:
    _, table = far(created(), timeline, 0.01)
    began = timeline.now
    for n in range(100):
        table.append(rows("mo", n))
        timeline.sleep(8 * REQUEST_SECONDS)
    assert timeline.now - began < 100 * 9.1 * REQUEST_SECONDS
