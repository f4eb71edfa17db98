"""Section 5: the order in which a log is listed, and what may be deleted for what.

For each wrong protocol: a kept schedule in which it loses an acknowledged version, a search that finds one by
itself, and the right protocol in the same steps. The last test lets the search try everything against the
right protocol.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.counterexamples.listing import RIGHT, Protocol, Schedule, Thing, by_rank, play, search, start


def falling(thing: Thing) -> Any:
    return (thing.kind == "b", -thing.rank, *(-ord(letter) for letter in thing.salt))


def by_salt_alone(thing: Thing) -> Any:
    return (thing.kind == "b", thing.salt)


def greatest_of_parts(parts: tuple[Thing, ...]) -> int:
    return max(1, *(part.rank for part in parts))


def falling_by_level(parts: tuple[Thing, ...]) -> int:
    return 1 if any(part.kind == "b" for part in parts) else 2


PAGE = ("page",)
WRONG: dict[str, tuple[Protocol, tuple[str, ...], Schedule]] = {
    # The bundle appears behind the reader's back, in a place it has already listed.
    "bundles before versions": (
        replace(RIGHT, regions=("t", "b", "v"), place=by_rank),
        ("v1", "v2"),
        (PAGE, PAGE, ("bundle", "x", "v1", "v2"), ("delete", "v1")),
    ),
    "table folder before transactions": (
        replace(RIGHT, regions=("vb", "t")),
        ("v1", "t1"),
        (PAGE, PAGE, ("bundle", "x", "t1", "v1"), ("delete", "t1")),
    ),
    # The reader is at the greatest rank when a greater one is made of what it has yet to list.
    "descending ranks": (
        replace(RIGHT, place=falling),
        ("v1", "v2", "v3", "v4"),
        (
            ("bundle", "x", "v1", "v2"),
            ("bundle", "y", "v3", "v4"),
            *(("delete", f"v{number}") for number in (1, 2, 3, 4)),
            *(PAGE, PAGE),
            ("bundle", "z", "bx", "by"),
            ("delete", "bx"),
        ),
    ),
    "random bundle names": (
        replace(RIGHT, place=by_salt_alone),
        ("v1", "v2", "v3", "v4"),
        (
            ("bundle", "m", "v1", "v2"),
            ("bundle", "q", "v3", "v4"),
            *(("delete", f"v{number}") for number in (1, 2, 3, 4)),
            *(PAGE, PAGE),
            ("bundle", "a", "bm", "bq"),
            ("delete", "bq"),
        ),
    ),
    "a bundle deleted for one of equal rank": (
        replace(RIGHT, rank=greatest_of_parts, may_replace=lambda old, new: new.rank >= old.rank),
        ("v1", "v2", "v3", "v4"),
        (
            ("bundle", "m", "v1", "v2"),
            ("bundle", "q", "v3", "v4"),
            *(("delete", f"v{number}") for number in (1, 2, 3, 4)),
            *(PAGE, PAGE),
            ("bundle", "a", "bm", "bq"),
            ("delete", "bq"),
        ),
    ),
    "a bundle deleted for one of lower rank": (
        replace(RIGHT, rank=falling_by_level, may_replace=lambda old, new: True),
        ("v1", "v2", "v3", "v4"),
        (
            ("bundle", "m", "v1", "v2"),
            ("bundle", "q", "v3", "v4"),
            *(("delete", f"v{number}") for number in (1, 2, 3, 4)),
            *(PAGE, PAGE),
            ("bundle", "z", "bm", "bq"),
            ("delete", "bq"),
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_kept_schedule_loses_data_under_the_wrong_protocol_only(name: str) -> None:
    wrong, labels, schedule = WRONG[name]
    everything = frozenset(labels)
    assert play(start(*labels), schedule, wrong).seen < everything
    assert play(start(*labels), schedule, RIGHT).seen == everything


@pytest.mark.parametrize("name", WRONG)
def test_a_search_finds_a_losing_schedule_by_itself(name: str) -> None:
    wrong, _, _ = WRONG[name]
    world = start("t1", "v1", "v2")
    found = search(world, wrong, bundles=3)
    assert found is not None
    assert not {"t1", "v1", "v2"} <= play(world, found, wrong).seen


def test_no_schedule_loses_data_under_the_right_protocol() -> None:
    assert search(start("t1", "v1", "v2"), RIGHT, bundles=3) is None
