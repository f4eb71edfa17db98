"""What commits of CAS tables cost: alone, rebased past others, in races won and lost, request by request."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import crdtcat.cas.claiming
import crdtcat.cas.standing_back
from crdtcat import Catalog
from crdtcat.cas.pauses import Pace
from crdtcat.format.carried import frames_of, own_frame
from crdtcat.format.version import decode_version
from crdtcat.limits import CARRIED_BYTES_MAX, CARRIED_CLAIMS_MAX
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from tests.cas.scenes import SCHEMA, lake, meanwhile, rows, two, values
from tests.catalog.test_races import Stage, StagedStore
from tests.clocks import HandClock
from tests.cost.places import asked

FOLDER = "tables/t/main/"


def numbers(table: Table) -> list[int]:
    return [version.number for version in table.history()]


def names(table: Table) -> list[str]:
    return [item.name.removeprefix(FOLDER) for item in table._session.store.list(FOLDER)]


def test_a_warm_commit_is_one_put_with_no_list_and_no_read() -> None:
    catalog, _ = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(3):
        assert asked(catalog, lambda n=n: table.append(rows("mo", n))) == {"put": 1}  # type: ignore[misc]
    large = pa.table({"day": ["mo"] * 60_000, "n": range(60_000), "x": [0] * 60_000}, schema=SCHEMA)
    assert asked(catalog, lambda: table.append(large)) == {"put": 2}
    assert numbers(table) == [1, 2, 3, 4]
    assert names(table) == [f"{n:016d}.c" for n in range(1, 5)]


def test_a_cold_commit_asks_for_the_hint_and_lists_once() -> None:
    catalog, url = lake()
    catalog.create_table("t", SCHEMA, mode="cas").append(rows("mo", 1))
    cold = Catalog(url, upkeep=False)
    handle = cold.table("t")
    # No hint yet: the hint, the log's listing, the claim that is there, and the commit.
    assert asked(cold, lambda: handle.append(rows("mo", 2))) == {"get": 2, "list": 1, "put": 1}
    handle.checkpoint()
    cold = Catalog(url, upkeep=False)
    handle = cold.table("t")
    assert asked(cold, lambda: handle.append(rows("mo", 3))) == {"get": 1, "list": 1, "put": 1}
    cold = Catalog(url, upkeep=False)
    handle = cold.table("t")
    assert asked(cold, lambda: handle.append(rows("mo", 4))) == {"get": 2, "list": 1, "put": 1}
    assert numbers(handle) == [1, 2, 3, 4]


def test_a_cold_commit_after_a_collection_asks_for_no_more() -> None:
    """Whether the claim that the hint names is there still, and whether others came since, or not."""
    catalog, url = lake(grace_seconds=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 1))
    table.checkpoint()
    table.collect()
    for n, gets in ((2, 1), (3, 2), (4, 2)):
        cold = Catalog(url, upkeep=False)
        handle = cold.table("t")
        assert asked(cold, partial(handle.append, rows("mo", n))) == {"get": gets, "list": 1, "put": 1}
    assert numbers(table) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("between", "puts", "gets", "lists"), [(1, 2, 1, 0), (2, 3, 2, 1), (3, 3, 3, 1), (10, 3, 10, 1)]
)
def test_requests_of_a_rebased_commit_follow_the_commits_that_came_between(
    between: int, puts: int, gets: int, lists: int
) -> None:
    """A handle that has met nobody yet tries; it guesses that one came, and only then lists. The other one is
    alone, so its claims carry nothing."""
    catalog, url = lake(base_delay=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    other = Catalog(url, upkeep=False).table("t")
    for n in range(between):
        other.append(rows("mo", 1 + n))
    expected = {"put": puts, "get": gets, "list": lists}
    assert asked(catalog, lambda: table.append(rows("mo", 99))) == {k: v for k, v in expected.items() if v}
    assert puts + gets + lists == between + (2 if between == 1 else 4)
    assert numbers(table) == list(range(1, between + 3))
    assert table.history()[-1].rebases == 0  # what history shows does not tell; the result of the commit does


@pytest.mark.parametrize("met", [False, True], ids=["met nobody", "met others"])
@pytest.mark.parametrize("between", [0, 1, 2, 10])
def test_who_has_not_looked_for_long_lists_once_and_makes_two_requests_more_than_came_between(
    between: int, clock: HandClock, *, met: bool
) -> None:
    """For half of a grace period: what it knows is too old to be built on, so a list comes first."""
    catalog, url = lake(base_delay=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    table._session.chain.crowded = met
    other = Catalog(url, upkeep=False).table("t")
    for n in range(between):
        other.append(rows("mo", 1 + n))
    clock.now += 301
    expected = {"list": 1, "get": between, "put": 1}
    assert asked(catalog, lambda: table.append(rows("mo", 99))) == {k: v for k, v in expected.items() if v}
    assert numbers(table) == list(range(1, between + 3))


@pytest.mark.parametrize("writers", [2, 3, 8, 32])
def test_writers_in_turn_make_three_requests_each_however_many_there_are(writers: int) -> None:
    """A list, a look at the newest, which carries the others, and a try: k + 2 beside one other, far below it
    beside many."""
    catalog, url = lake(base_delay=0)
    catalog.create_table("t", SCHEMA, mode="cas")
    lakes = [Catalog(url, upkeep=False, base_delay=0) for _ in range(writers)]
    k = writers - 1
    for turn in range(3):
        for me, each in enumerate(lakes):
            cost = asked(each, lambda at=each, me=me: at.table("t").append(rows("mo", me)))  # type: ignore[misc]
            if turn == 2:
                assert cost == {"list": 1, "get": 1, "put": 1}
            elif turn == 1:  # the first time that a handle meets others, of whom the first ones carry nothing
                assert sum(cost.values()) == (3 if k == 1 else k + 4 if me == 0 else 6)
    assert len(catalog.table("t").history()) == 3 * writers
    alone = lakes[-1]
    assert asked(alone, lambda: alone.table("t").append(rows("mo", 0))) == {"list": 1, "put": 1}
    assert asked(alone, lambda: alone.table("t").append(rows("mo", 0))) == {"put": 1}


@pytest.mark.parametrize("between", [*range(6), 16, *range(31, 36), 40])
def test_past_k_others_who_race_a_commit_makes_three_requests_and_one_for_each_33_more(between: int) -> None:
    """Others who met each other carry each other; whoever met them lists, looks at the newest, and tries."""
    catalog, url = lake(base_delay=0)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    others = [Catalog(url, upkeep=False, base_delay=0).table("t") for _ in range(2)]
    for turn in range(40):
        others[turn % 2].append(rows("mo", turn))
    mine.append(rows("mo", 98))
    for turn in range(between):
        others[turn % 2].append(rows("mo", turn))
    looks = -(-between // (1 + CARRIED_CLAIMS_MAX))
    expected = {"list": 1, "get": looks, "put": 1}
    assert asked(catalog, lambda: mine.append(rows("mo", 99))) == {k: v for k, v in expected.items() if v}
    assert 2 + looks <= between + 2
    stored = mine._session.store.list(FOLDER)
    assert max(item.size for item in stored) < CARRIED_BYTES_MAX + 2048, "bounded, however many raced"
    assert len(mine.history()) == 42 + between
    assert mine.verify(depth="content").ok


def test_who_meets_nobody_stores_a_plain_version_file() -> None:
    """Alone, and also between two commits of its own beside others: the file is unchanged to the byte."""
    catalog, url = lake(base_delay=0)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(3):
        mine.append(rows("mo", n))
    Catalog(url, upkeep=False).table("t").append(rows("mo", 3))
    mine.append(rows("mo", 4))
    mine.append(rows("mo", 5))
    store = mine._session.store
    files = {number: store.get(f"{FOLDER}{number:016d}.c") for number in range(1, 7)}
    held = {number: len(frames_of(data, "")) for number, data in files.items()}
    assert held == {1: 1, 2: 1, 3: 1, 4: 1, 5: 5, 6: 1}
    assert [bytes(frame) for frame in frames_of(files[5], "")[1:]] == [files[n] for n in (4, 3, 2, 1)]
    session = Catalog(url, upkeep=False).table("t")._session
    for number, data in files.items():
        id, _ = decode_version(own_frame(data, ""), "")
        assert session.refresh().state.log.index_of(id) == number - 1, "ids know nothing of what is carried"


def test_a_refresh_reads_the_newest_claim_and_what_it_does_not_carry() -> None:
    """Where a handle that has read before finds several new ones; where they carry nothing it reads all."""
    catalog, url = lake(base_delay=0)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append(rows("mo", 0))
    mine.head()
    others = [Catalog(url, upkeep=False, base_delay=0).table("t") for _ in range(2)]
    for n in range(10):
        others[0].append(rows("mo", n))
    assert asked(catalog, mine.head) == {"list": 1, "get": 10}
    for n in range(1, 11):
        others[n % 2].append(rows("mo", n))
    assert asked(catalog, mine.head) == {"list": 1, "get": 1}
    for n in range(2):
        others[n % 2].append(rows("mo", n))
    assert asked(catalog, mine.head) == {"list": 1, "get": 2}, "of two both are asked for, in one round trip"
    assert len(values(mine)) == 23


@pytest.mark.parametrize("writers", [2, 4, 8, 16, 32])
def test_concurrent_writers_on_rows_of_their_own_all_commit_within_their_requests(writers: int) -> None:
    """Request by request in random order. Every commit makes two requests, one for each commit that came
    between, one for the first race that it loses, the try, and at most two for each further one, with the
    look that finds a number free, or the listing."""
    url = f"memory://concurrent-{secrets.token_hex(6)}"
    Catalog(MemoryStore(url)).create_table("t", SCHEMA, mode="cas").append(
        [{"day": "mo", "n": n, "x": 0} for n in range(writers)]
    )
    stage, turns = Stage(writers + 11), max(2, 16 // writers)
    wrong: list[Any] = []
    raced: list[int] = []

    def actor(me: int) -> Any:
        store = StagedStore(url)
        store.stage = stage
        catalog = Catalog(store, upkeep=False, base_delay=0)
        table = catalog.table("t")
        table.head()

        def run() -> None:
            for turn in range(turns):
                parent = table._session.chain.parent
                assert parent is not None
                before = store.requests.snapshot()
                made = table.update([("n", "=", me)], {"x": turn})
                cost = store.requests.since(before)
                between, lost = made.number - parent.number - 1, cost.put - 1
                raced.append(lost)
                if cost.put + cost.get + cost.list > 2 + between + max(0, 2 * lost - 1):
                    wrong.append((cost, between))

        return run

    stage.run([actor(me) for me in range(writers)])
    assert wrong == []
    assert sum(raced) > 0 or writers == 2, "nobody met anybody: this says nothing"
    table = Catalog(MemoryStore(url)).table("t")
    assert [x for _, x in values(table)] == [turns - 1] * writers
    assert numbers(table) == list(range(1, turns * writers + 2))


@pytest.mark.parametrize("inlined", [True, False])
def test_who_loses_one_race_makes_three_requests_and_pauses_for_nobody(
    monkeypatch: pytest.MonkeyPatch, *, inlined: bool
) -> None:
    """The bound for one commit between: the try, the look, the try; a segment is stored once, before them."""
    catalog, url = lake(inline_bytes=65_536 if inlined else 0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    Catalog(url, upkeep=False).table("t").append(rows("mo", 1))
    monkeypatch.setattr("crdtcat.cas.claiming.time.sleep", lambda _: pytest.fail("it paused"))
    cost = asked(catalog, lambda: table.append(rows("mo", 2)))
    assert cost == {"put": 2 if inlined else 3, "get": 1}


def test_who_loses_tries_again_at_once_but_for_one_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow requests, and others that are faster every time: a race lost costs two requests; after the second
    there is a pause, and it lists. Who has lost more does not wait longer."""
    catalog, url = lake(max_delay=10.0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    other = Catalog(url, upkeep=False, base_delay=0).table("t")
    now = [1000.0]
    paused: list[float] = []
    asked_for: list[str] = []
    for module in (crdtcat.cas.claiming, crdtcat.cas.standing_back):
        monkeypatch.setattr(module, "elapsed_clock", lambda: now[0])
    monkeypatch.setattr("crdtcat.cas.claiming.time.sleep", paused.append)
    table._session.chain.known_at = now[0]
    table._session.chain.pace = Pace(at=now[0])
    create = catalog.store.create

    def slow(name: str, data: Any) -> bool:
        now[0] += 1
        if len(asked_for) < 4:
            other.append(rows("mo", 1 + len(asked_for)))
        asked_for.append(name)
        return create(name, data)

    get_many = catalog.store.get_many

    def slow_get(ranges: Any) -> Any:
        now[0] += 1
        return get_many(ranges)

    monkeypatch.setattr(catalog.store, "create", slow)
    monkeypatch.setattr(catalog.store, "get_many", slow_get)
    cost = asked(catalog, lambda: table.append(rows("mo", 99)))
    # Lost four times: one listing after the second, and one look in vain after the fourth.
    assert cost == {"put": 5, "get": 4 + 1, "list": 1}
    assert len(paused) == 1
    assert 0 <= paused[0] <= 4
    # The others may still be there: it stands back for a few requests before it comes again, if that is soon.
    table.append(rows("mo", 100))
    assert 2 <= paused[1] <= 4
    other.append(rows("mo", 102))
    table.append(rows("mo", 103))
    now[0] += 5
    table.append(rows("mo", 104))
    assert len(paused) == 2, "it was long ago"


def test_who_stands_back_before_a_change_does_so_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own rest makes nothing old that it has read: who came meanwhile is seen, and in nobody's way."""
    mine, _ = two()
    other = Catalog(mine._session.store, upkeep=False, base_delay=0).table("t")
    meanwhile(mine, lambda: other.append(rows("mo", 10)))
    mine.update("n = 0", {"x": 1})
    chain = mine._session.chain
    chain.pace = chain.pace._replace(request=10.0)  # on any machine it has to rest
    rested: list[float] = []

    def rest(seconds: float) -> None:
        rested.append(seconds)
        other.update("n = 0", {"x": 7})

    monkeypatch.setattr("crdtcat.cas.standing_back.time.sleep", rest)
    before = mine._session.store.requests.snapshot()
    assert mine.update("n = 0 and x = 7", {"x": 8}).number == 5
    cost = mine._session.store.requests.since(before)
    assert (len(rested), cost.put) == (1, 2), "theirs, and one try"
    assert values(mine)[0] == (0, 8)


def test_those_that_were_read_before_are_met_as_those_that_were_passed(clock: HandClock) -> None:
    """Whoever reads before it commits has most of them from there, and passes few."""
    assert clock.now
    mine, _ = two()
    store = mine._session.store
    others = [Catalog(store, upkeep=False, base_delay=0).table("t") for _ in range(5)]
    mine.update("n = 0", {"x": 1})
    for n, other in enumerate(others):
        other.append(rows("mo", 10 + n))
    meanwhile(mine, lambda: others[0].append(rows("mo", 20)))
    mine.update("n = 0", {"x": 2})
    pace = mine._session.chain.pace
    assert (pace.others, pace.is_due, pace.requests) == (5, True, (5, 7.5))


def test_claims_met_on_the_way_are_not_asked_for_again() -> None:
    catalog, url = lake(base_delay=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    other = Catalog(url, upkeep=False).table("t")
    for n in range(5):
        other.append(rows("mo", 1 + n))
    table.append(rows("mo", 99))
    assert asked(catalog, table.head) == {"list": 1, "get": 1}  # whether there is a mark, the first time
    assert [n for n, _ in values(table)] == [0, 1, 2, 3, 4, 5, 99]


def test_a_commit_that_looked_first_says_that_it_was_rebased() -> None:
    mine, theirs = two()
    for turn in range(3):
        meanwhile(mine, lambda turn=turn: theirs.append(rows("mo", 10 + turn)))  # type: ignore[misc]
        assert mine.update("n = 0", {"x": turn}).rebases == 1


def test_disjoint_commits_are_rebased_without_the_caller_noticing() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.append(rows("mo", 10)), lambda: theirs.update("n = 1", {"x": 1}))
    done = mine.update("n = 0", {"x": 2})
    assert (done.rebases, done.number) == (2, 4)  # past one, and past the other
    assert values(mine)[:2] == [(0, 2), (1, 1)]
