"""What a verification found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Depth = Literal["metadata", "bytes", "content"]
SHOWN: Final = 50  # problems that `str` lists


@dataclass(frozen=True, slots=True)
class Problem:
    """One object that is damaged or missing.

    Attributes:
        name: the object's name; a folder where nobody can know which object of it is missing.
        why: what is wrong with it.
        rows: rows of the table, as it is now, that cannot be read because of it; 0 where everything in it
            is somewhere else, too; `None` where nobody can know.
        past_rows: likewise rows that only earlier snapshots hold.
    """

    name: str
    why: str
    rows: int | None = None
    past_rows: int | None = None

    def __str__(self) -> str:
        if self.rows is None:
            return f"{self.name}: {self.why} (how many rows it affects is not known)"
        past = f", {self.past_rows:,} of earlier snapshots" if self.past_rows else ""
        return f"{self.name}: {self.why} (affects {self.rows:,} rows{past})"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification looked at, and all it found.

    Attributes:
        table: the table's name.
        depth: how closely it looked: "metadata", "bytes" or "content".
        problems: every object that is damaged or missing; see `ok`.
        files: log files, settings and tags looked at.
        segments: segments looked at.
        bytes: how many bytes were read.
        rows: rows of the table as far as its log can be read.
        seconds: how long it took.
    """

    table: str
    depth: Depth
    problems: tuple[Problem, ...]
    files: int
    segments: int
    bytes: int
    rows: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        looked = (
            f"verify {self.table} ({self.depth}): {self.files:,} log files, {self.segments:,} segments, "
            f"{self.rows:,} rows, {self.bytes / 1e6:,.1f} MB in {self.seconds:.2f} s"
        )
        if self.ok:
            return f"{looked}: ok"
        affected = sum(problem.rows or 0 for problem in self.problems)
        some = " or more" if any(problem.rows is None for problem in self.problems) else ""
        first = f"{looked}: {len(self.problems):,} PROBLEMS, {affected:,}{some} rows affected"
        lines = [first, *(f"  {problem}" for problem in self.problems[:SHOWN])]
        more = len(self.problems) - SHOWN
        return "\n".join([*lines, *([f"  ... and {more:,} more"] if more > 0 else [])])
