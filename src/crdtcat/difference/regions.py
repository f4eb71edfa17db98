"""Regions between equal chunks: where they are, how they are split, how their answers are put together.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
import pyarrow as pa

from crdtcat.difference.align import Alignment, Flags, Numbers, joined, spread

Block = tuple[int, int, int, int]
"""Old chunks from the first number to the second, new chunks from the third to the fourth."""


@dataclass(frozen=True, slots=True, eq=False)
class OldChunk:
    """Rows that are there already.

    Attributes:
        rows: how many.
        load: the rows, with at least the columns asked for, in the types of the new rows. Thread-safe.
        hash: the chunk's hash; None where its rows are not what its hash names, because some were changed.
        column_hashes: content hashes by column, where they are cheaper to get than the rows.
    """

    rows: int
    load: Callable[[Sequence[str]], pa.Table]
    hash: bytes | None = None
    column_hashes: Callable[[], Mapping[str, bytes]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class NewChunk:
    """Rows as they shall be.

    Attributes:
        rows: how many.
        hash: the chunk's hash.
        column_hashes: content hashes by column.
    """

    rows: int
    hash: bytes
    column_hashes: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What became of a region: runs that were kept, rows that were updated, and in which columns."""

    kept: Numbers
    updated: tuple[Numbers, Numbers]
    changed: Mapping[str, Flags]

    def moved(self, old: int, new: int) -> Found:
        """The same where other rows come before."""
        updated = self.updated[0] + old, self.updated[1] + new
        return Found(self.kept + np.array([old, new, 0]), updated, self.changed)


def found_pairs(kept: Numbers, pairs: tuple[Numbers, Numbers], changed: Mapping[str, Flags]) -> Found:
    """Runs that were kept, and rows paired with each other, of which some may not have changed either."""
    anywhere = np.logical_or.reduce([np.zeros(len(pairs[0]), np.bool_), *changed.values()])
    same = np.column_stack((*pairs, np.ones(len(anywhere), np.int64)))[~anywhere]
    return Found(
        joined(np.concatenate((kept, same))),
        (pairs[0][anywhere], pairs[1][anywhere]),
        {name: flags[anywhere] for name, flags in changed.items()},
    )


def align_chunks(old: Sequence[OldChunk], new: Sequence[NewChunk]) -> Alignment:
    """Runs of equal chunks, by their whole hashes. Cost: O(chunks)."""
    numbers: dict[object, int] = {}
    nobody = count()
    known = [(next(nobody) if chunk.hash is None else chunk.hash) for chunk in old]
    first = np.array([numbers.setdefault(hash, len(numbers)) for hash in known], np.uint64)
    second = np.array([numbers.setdefault(chunk.hash, len(numbers)) for chunk in new], np.uint64)
    found = Alignment(len(first), len(second))
    found.trim(first, second)
    found.anchor(first, second)
    found.trim(first, second)
    found.anchor(first, second, count=True)
    found.trim(first, second)
    return found


def blocks(region: Block, old: Numbers, new: Numbers) -> list[Block]:
    """A region split where both sides have a boundary after equally many rows.

    Args:
        region: its chunks.
        old: where its old chunks begin and end, in rows.
        new: where its new chunks do.
    """
    _, at_old, at_new = np.intersect1d(old - old[0], new - new[0], return_indices=True)
    cuts = [*zip(at_old.tolist(), at_new.tolist(), strict=True)]
    if cuts[-1] != (len(old) - 1, len(new) - 1):
        # What is behind the last common boundary has another length on either side, or no rows at all on one.
        cuts.append((len(old) - 1, len(new) - 1))
    o, n = region[0], region[2]
    return [(o + a, o + b, n + c, n + d) for (a, c), (b, d) in pairwise(cuts)]


def neighbours(blocks: Sequence[Block]) -> list[Block]:
    """Blocks that follow each other as one."""
    found: list[Block] = []
    for block in blocks:
        if found and (found[-1][1], found[-1][3]) == (block[0], block[2]):
            found[-1] = (found[-1][0], block[1], found[-1][2], block[3])
        else:
            found.append(block)
    return found


def outside(size: int, runs: Numbers) -> Numbers:
    """Numbers below `size` that are in none of the runs (start, length)."""
    outside = np.ones(size, np.bool_)
    outside[spread(runs[:, 0], runs[:, 1])] = False
    return np.flatnonzero(outside)


def together(found: Sequence[Found], columns: Sequence[str]) -> Found:
    """Several answers as one, in order."""
    kept = joined(np.concatenate([one.kept for one in found]))
    old, new = (np.concatenate([one.updated[side] for one in found]) for side in (0, 1))
    order = np.argsort(old, kind="stable")
    changed = {
        name: np.concatenate(
            [one.changed.get(name, np.zeros(len(one.updated[0]), np.bool_)) for one in found]
        )[order]
        for name in columns
    }
    return Found(kept, (old[order], new[order]), changed)
