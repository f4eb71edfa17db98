"""Questions about logs and tables: intervals of rows, bundles, compaction beside others, and pruning.

Drawn as those of `vectors.py` are, which lists what each operation takes and answers.
"""

from __future__ import annotations

import random
from typing import Any

APPEND, UPDATE, DELETE, COMPACT, SYNC = range(5)
VALUES = 20


def overlap(draw: random.Random) -> list[Any]:
    """Two lists of intervals [tag, start, stop]; they may touch, repeat, be empty."""
    return [[_interval(draw) for _ in range(draw.randrange(4))] for _ in range(2)]


def _interval(draw: random.Random) -> list[int]:
    start = draw.randrange(20)
    return [draw.randrange(1, 3), start, start + draw.randrange(6)]


def bundle(draw: random.Random) -> list[Any]:
    """Versions [time, writer, count, content], the files that a bundle is made of, and those for the next.
    A file is a list of places of versions; the files may have some in common."""
    versions = _versions(draw)
    files, more = ([_some(draw, len(versions)) for _ in range(draw.randrange(most))] for most in (4, 3))
    return [versions, files, more]


def expired(draw: random.Random) -> list[Any]:
    """Versions, a horizon, places of those that an expiry found, and of those that are there beside its base:
    some of what it folded, some that it did not find, and some above the horizon."""
    versions = _versions(draw)
    found, later = (_some(draw, len(versions)) for _ in range(2))
    return [versions, draw.randrange(2, 9), found, later]


def claims(draw: random.Random) -> list[Any]:
    """Whose commits a bundle covers, by number, and claim files [number, whose]: those above without a gap,
    and below some that were not collected, and some that somebody created again who had slept."""
    bundled = [draw.randrange(1, 4) for _ in range(draw.randrange(5))]
    above = range(len(bundled) + 1, len(bundled) + 1 + draw.randrange(4))
    files = [
        [number, draw.choice((whose, 9))] for number, whose in enumerate(bundled, 1) if draw.randrange(2)
    ]
    return [bundled, files + [[number, draw.randrange(1, 4)] for number in above]]


def _versions(draw: random.Random) -> list[list[int]]:
    """[time, writer, count, content], each by a writer of its own."""
    count = draw.randrange(1, 7)
    return [[draw.randrange(1, 9), writer, 1, draw.randrange(1, 9)] for writer in range(1, count + 1)]


def _some(draw: random.Random, count: int) -> list[int]:
    return sorted(draw.sample(range(count), draw.randrange(1, count + 1)))


def compacted(draw: random.Random) -> list[list[int]]:
    """What happens on two sides that know of each other what they were given: [what, side, row, value].

    A side changes rows that it has, and has not deleted. Both begin with the same rows.
    """
    made = [[APPEND, 0, row, draw.randrange(1, VALUES)] for row in range(1, draw.randrange(3, 6))]
    made.append([SYNC, 0, 0, 0])
    has = [{event[2] for event in made if event[0] == APPEND} for _ in range(2)]
    gone: list[set[int]] = [set(), set()]
    following = len(has[0]) + 1
    for _ in range(draw.randrange(3, 8)):
        side = draw.randrange(2)
        what = draw.choice((APPEND, UPDATE, UPDATE, DELETE, COMPACT, COMPACT, SYNC))
        there = sorted(has[side] - gone[side])
        row, value = 0, 0
        if what == APPEND:
            row, value, following = following, draw.randrange(1, VALUES), following + 1
            has[side].add(row)
        elif what in (UPDATE, DELETE):
            if len(there) < 2:  # so that there is something to show
                continue
            row = draw.choice(there)
            value = draw.randrange(1, VALUES) if what == UPDATE else 0
            gone[side] |= {row} if what == DELETE else set()
        elif what == SYNC:
            has = [has[0] | has[1] for _ in range(2)]
            gone = [gone[0] | gone[1] for _ in range(2)]
        made.append([what, side, row, value])
    return made


def pruned(draw: random.Random) -> list[Any]:
    """Entries, each the values of some rows; updates [row, value]; the bounds of a filter."""
    entries = []
    for _ in range(draw.randrange(1, 5)):
        low = draw.randrange(1, VALUES)
        entries.append([low + draw.randrange(3) for _ in range(draw.randrange(1, 4))])
    rows = sum(map(len, entries))
    updates = [[draw.randrange(1, rows + 1), draw.randrange(1, VALUES)] for _ in range(draw.randrange(4))]
    low = draw.randrange(1, VALUES)
    return [entries, updates, low, low + draw.randrange(4)]
