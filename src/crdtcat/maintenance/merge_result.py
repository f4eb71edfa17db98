"""What merging branches returns."""

from __future__ import annotations

from dataclasses import dataclass

from crdtcat.head import Conflict


@dataclass(frozen=True)
class MergeResult:
    """What a merge brought over.

    Attributes:
        source: the branch merged from.
        target: the branch merged into.
        versions: versions that the target did not have.
        rows: rows those had added.
        bytes: size of the file that holds them: a bundle, in CAS mode a claim.
        conflicts: encounters that the target did not list before.
        keyed: whether the table has a key: cells that met are then found by keys, `table.lost_cells()`.
        seconds: how long it took.
    """

    source: str
    target: str
    versions: int = 0
    rows: int = 0
    bytes: int = 0
    conflicts: tuple[Conflict, ...] = ()
    keyed: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.versions:
            return f"merge: {self.target} has everything that {self.source} has"
        summary = (
            f"merge: {self.versions:,} versions that added {self.rows:,} rows came from {self.source} to "
            f"{self.target} in one file of {self.bytes:,} bytes, {len(self.conflicts)} conflicts"
            f"{' (cells that met: lost_cells())' if self.keyed else ''}, in {self.seconds:.2f} s"
        )
        more = ["..."] if len(self.conflicts) > 20 else []
        return "\n".join([summary, *map(str, self.conflicts[:20]), *more])
