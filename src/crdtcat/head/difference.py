"""What differs between two heads, chunk by chunk.

Found by comparing their Merkle trees, so the work follows what changed and not how large the table is (once
the trees are there). A chunk of which only some rows changed is a chunk removed and one added at one place;
which rows those are is another question, for whoever reads the chunks of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crdtcat.head.head import Chunk, Chunks, Head
from crdtcat.merkle import Run, diff

SHOWN: Final = 20  # runs that `str` lists


@dataclass(frozen=True, eq=False)
class Diff:
    """What turns one head into another.

    Attributes:
        old, new: the heads.
        runs: where they differ, in row order: ranges of `old.chunks` and of `new.chunks`. Between two runs
            the chunks are the same.
        visited: Merkle nodes that were looked into.
    """

    old: Head
    new: Head
    runs: tuple[Run, ...]
    visited: int

    @property
    def added(self) -> list[Chunk]:
        """Chunks that only the new head has there, in row order."""
        return [chunk for run in self.runs for chunk in self._new(run)]

    @property
    def removed(self) -> list[Chunk]:
        """Chunks that only the old head has there, in row order."""
        return [chunk for run in self.runs for chunk in self._old(run)]

    @property
    def rows_added(self) -> int:
        """Rows in the chunks added."""
        return sum(run.new_rows for run in self.runs)

    @property
    def rows_removed(self) -> int:
        """Rows in the chunks removed."""
        return sum(run.old_rows for run in self.runs)

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __str__(self) -> str:
        added = sum(run.new_stop - run.new_start for run in self.runs)
        removed = sum(run.old_stop - run.old_start for run in self.runs)
        first = (
            f"{self.new.table}, {self.old.snapshot.id[:12]} to {self.new.snapshot.id[:12]}: "
            f"{added:,} chunks added ({self.rows_added:,} rows), "
            f"{removed:,} removed ({self.rows_removed:,} rows), "
            f"{len(self.new.chunks) - added:,} the same"
        )
        lines = [first, *(line for run in self.runs[:SHOWN] for line in self._lines(run))]
        more = len(self.runs) - SHOWN
        return "\n".join([*lines, *([f"  ... and {more:,} more places"] if more > 0 else [])])

    __repr__ = __str__

    def _lines(self, run: Run) -> Iterator[str]:
        new = {chunk.hash for chunk in self._new(run)}
        both = {chunk.hash for chunk in self._old(run) if chunk.hash in new}
        for sign, chunks, start in (
            ("-", self._old(run), run.old_start),
            ("+", self._new(run), run.new_start),
        ):
            for place, chunk in enumerate(chunks[:3]):
                what = "  some of them changed or gone" if sign == "+" and chunk.hash in both else ""
                yield f"  {sign} chunk {start + place:,}  {chunk.hash[:12]}…  {chunk.rows:>10,} rows{what}"
            if len(chunks) > 3:
                yield f"  {sign} ... and {len(chunks) - 3:,} more up to chunk {start + len(chunks):,}"

    def _old(self, run: Run) -> Chunks:
        return self.old.chunks[run.old_start : run.old_stop]

    def _new(self, run: Run) -> Chunks:
        return self.new.chunks[run.new_start : run.new_stop]


def diff_heads(old: Head, new: Head) -> Diff:
    """What turns `old` into `new`. O(changes * log chunks) once both trees are there.

    The old one is made from the new, by comparing leaves and hashing as many nodes.
    """
    old.follow(new.tree)
    found = diff(old.tree, new.tree)
    return Diff(old, new, found.runs, found.visited)
