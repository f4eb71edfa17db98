"""Questions about what else is merged: statistics, orders of entries, forks, and commits made again.

Drawn as those of `vectors.py` are, which lists what each operation takes and answers.
"""

from __future__ import annotations

import random
from typing import Any

ROWS = 8
BRANCHES = 3


def statistics(draw: random.Random) -> list[list[int]]:
    """Runs of rows [least, greatest, nulls, rows]; bounds are one more than they are, 0 if not known."""
    return [_run(draw) for _ in range(draw.randrange(5))]


def _run(draw: random.Random) -> list[int]:
    rows = draw.randrange(4)
    nulls = draw.choice((0, 0, rows, draw.randrange(rows + 1)))
    if nulls == rows:
        return [0, 0, nulls, rows]
    least = draw.randrange(1, 6)
    low, high = (bound * draw.choice((0, 1, 1, 1)) for bound in (least, least + draw.randrange(4)))
    return [low, high, nulls, rows]


def orders(draw: random.Random) -> list[list[int]]:
    """Lists of entries, none twice; most rise, so that not all contradict each other."""
    return [_order(draw) for _ in range(draw.randrange(1, 5))]


def _order(draw: random.Random) -> list[int]:
    entries = draw.sample(range(1, 8), draw.randrange(5))
    return entries if not draw.randrange(4) else sorted(entries)


def joined(draw: random.Random) -> list[Any]:
    """How many rows there are, what was staged since a fork was made, and what the fork has staged: each
    [start, count, value], no value twice; 1 if the fork shall win where both touched a row."""
    values = iter(range(1, 100))
    theirs, mine = ([_change(draw, next(values)) for _ in range(draw.randrange(1, 3))] for _ in range(2))
    return [ROWS, theirs, mine, draw.randrange(2)]


def _change(draw: random.Random, value: int) -> list[int]:
    start = draw.randrange(ROWS)
    return [start, min(draw.randrange(1, 4), ROWS - start), value]


def repeated(draw: random.Random) -> list[Any]:
    """How many branches begin with one commit, and what happens to one: [branch, 0] is another commit,
    [branch, other] a merge of another, counted from 1."""
    happened = []
    for _ in range(draw.randrange(3, 9)):
        branch, other = draw.sample(range(BRANCHES), 2)
        happened.append([branch, draw.choice((0, 1)) * (other + 1)])
    return [BRANCHES, happened]
