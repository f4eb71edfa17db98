"""What a handle keeps of the claims that it meets, and which of them its next one carries."""

from __future__ import annotations

from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.cas.recent_claims import RecentClaims
from crdtcat.errors import Corrupt
from crdtcat.format.carried import carrying, frames_of
from crdtcat.limits import CARRIED_BYTES_MAX, CARRIED_CLAIMS_MAX
from tests.cas.scenes import SCHEMA, lake, rows, values
from tests.clocks import HandClock

FOLDER = "tables/t/main/"


def test_the_newest_are_kept_and_told_down_to_the_first_gap() -> None:
    recent = RecentClaims()
    for number in (3, 5, 6, 7):
        recent.add(number, b"%d" % number)
    assert list(recent.below(7)) == [b"7", b"6", b"5"]
    assert list(recent.below(3)) == [b"3"]
    assert list(recent.below(4)) == []
    recent.add(7, b"other")
    assert next(recent.below(7)) == b"7", "what is under a number does not change"
    for number in range(8, 100):
        recent.add(number, b"x")
    assert len(list(recent.below(99))) == len(recent.frames) == CARRIED_CLAIMS_MAX


def test_what_cannot_be_carried_is_not_kept() -> None:
    recent = RecentClaims()
    recent.add(1, bytes(CARRIED_BYTES_MAX + 1))
    recent.add(2, bytes(CARRIED_BYTES_MAX))
    assert list(recent.frames) == [2]


def test_others_count_only_since_its_own_last_one() -> None:
    recent = RecentClaims()
    told = [recent.crowded]
    recent.add(1, b"theirs")
    told.append(recent.crowded)
    recent.made(2, b"mine")
    told.append(recent.crowded)
    recent.add(3, b"theirs")
    assert [*told, recent.crowded] == [False, True, False, True]


def held(table: Any, number: int) -> int:
    name = f"{FOLDER}{number:016d}.c"
    return len(frames_of(table._session.store.get(name), name))


def test_what_is_looked_at_too_late_is_not_carried(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever slept for half a grace period between listing and look reads the log, and begins again."""
    catalog, url = lake(base_delay=0)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append(rows("mo", 0))
    Catalog(url, upkeep=False).table("t").append(rows("mo", 1))
    get_many = catalog.store.get_many

    def late(ranges: Any) -> Any:
        clock.now += 301
        monkeypatch.setattr(catalog.store, "get_many", get_many)
        return get_many(ranges)

    monkeypatch.setattr(catalog.store, "get_many", late)
    recent = mine._session.chain.recent
    seen: list[int] = []
    add = RecentClaims.add

    def noted(self: RecentClaims, number: int, frame: Any) -> None:
        seen.append(number)
        add(self, number, frame)

    monkeypatch.setattr(RecentClaims, "add", noted)
    made = mine.append(rows("mo", 2))
    assert made.number == 3
    assert recent.own == 3
    assert 2 not in seen
    assert list(recent.frames) == [1, 3]
    assert held(mine, 3) == 1


def test_a_first_read_says_nothing_of_who_is_about() -> None:
    catalog, url = lake(base_delay=0)
    catalog.create_table("t", SCHEMA, mode="cas")
    writer = Catalog(url, upkeep=False).table("t")
    for n in range(5):
        writer.append(rows("mo", n))
    mine = catalog.table("t")
    mine.head()
    mine.append(rows("mo", 5))
    assert held(mine, 6) == 1
    writer.append(rows("mo", 6))
    writer.append(rows("mo", 7))
    mine.head()
    mine.append(rows("mo", 8))
    assert held(mine, 9) == 1 + 3, "its own, and two that a refresh has read"


def test_a_damaged_claim_is_named_also_where_it_was_to_tell_of_others() -> None:
    catalog, url = lake(base_delay=0)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append(rows("mo", 0))
    mine.head()
    others = [Catalog(url, upkeep=False, base_delay=0).table("t") for _ in range(2)]
    for n in range(6):
        others[n % 2].append(rows("mo", n))
    name = f"{FOLDER}{7:016d}.c"
    assert held(mine, 7) > 1
    data = bytearray(catalog.store.get(name))
    data[50] ^= 1
    catalog.store.put(name, bytes(data))
    for call in (mine.head, lambda: mine.append(rows("mo", 9))):
        with pytest.raises(Corrupt, match=name):
            call()
    assert [problem.name for problem in mine.verify().problems if problem.name == name] == [name]


def claim(number: int) -> str:
    return f"{FOLDER}{number:016d}.c"


@pytest.mark.parametrize("verb", ["append", "transaction"])
def test_who_passes_one_that_follows_another_than_its_own_is_told(verb: str) -> None:
    """The store lost its own last claim, and the number was taken again, while it has its bytes at hand."""
    catalog, url = lake(base_delay=0)
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    mine.append(rows("mo", 0))
    mine.head()
    mine.append(rows("mo", 1))
    tx = catalog.transaction(["t"])
    tx.update("t", "n = 0", {"x": 7})
    catalog.store.delete([claim(2)])
    theirs = Catalog(url, upkeep=False).table("t")
    assert theirs.update("n = 0", {"x": 5}).number == 2
    theirs.append(rows("mo", 3))
    with pytest.raises(Corrupt, match=FOLDER):
        tx.commit() if verb == "transaction" else mine.append(rows("mo", 2))
    others = Catalog(url, upkeep=False).table("t")
    assert values(others) == values(theirs) == [(0, 5), (3, 0)], "nothing that nobody has judged was stored"
    assert not others.verify().problems


def test_what_another_carries_is_not_taken_where_it_is_not_what_was_followed() -> None:
    other, _ = lake(base_delay=0)
    stray = other.create_table("t", SCHEMA, mode="cas")
    stray.append(rows("mo", 0))
    stray.append(rows("mo", 77))
    catalog, url = lake(base_delay=0)
    catalog.create_table("t", SCHEMA, mode="cas").append(rows("mo", 0))
    reads, writes = (Catalog(url, upkeep=False, base_delay=0).table("t") for _ in range(2))
    reads.head()
    writes.head()
    for n in range(3):
        Catalog(url, upkeep=False).table("t").append(rows("mo", 1 + n))
    held = {n: bytes(catalog.store.get(claim(n))) for n in (3, 4)}
    catalog.store.put(claim(4), carrying(held[4], [held[3], other.store.get(claim(2))]))
    assert values(reads) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert writes.append(rows("mo", 4)).number == 5
    assert values(writes) == values(reads) == [(n, 0) for n in range(5)]
    assert [bytes(frame) for frame in frames_of(catalog.store.get(claim(5)), "")[2:3]] == [held[3]]
