"""What a collection of a catalog's garbage found and did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Fate = Literal["deleted", "waiting", "condemned"]
SHOWN: Final = 20  # of each fate that `str` lists


@dataclass(frozen=True, slots=True)
class Garbage:
    """One object that nobody needs.

    Attributes:
        name: the object's name.
        size: in bytes.
        fate: "deleted" (in a dry run: would be), "condemned" (found now; deleted by a later run, once the
            grace period has passed), "waiting" (found by an earlier run, not long enough ago).
        why: why it is garbage, and since when that is known.
    """

    name: str
    size: int
    fate: Fate
    why: str

    def __str__(self) -> str:
        return f"{self.fate}: {self.name} ({self.size:,} bytes): {self.why}"


@dataclass(frozen=True)
class GarbageResult:
    """What a collection found and did.

    Attributes:
        garbage: every object that nobody needs, and what became of it.
        referenced: segments that something refers to.
        young: segments that nothing refers to and that are too young to tell: perhaps a commit under way.
        strangers: objects in `data/` that are no segments; left alone.
        tables: live tables whose references were read.
        logs: logs that were read.
        dry_run: whether nothing was deleted or written.
        seconds: how long it took.
    """

    garbage: tuple[Garbage, ...] = ()
    referenced: int = 0
    young: int = 0
    strangers: int = 0
    tables: int = 0
    logs: int = 0
    dry_run: bool = False
    seconds: float = 0.0

    def of(self, fate: Fate) -> list[Garbage]:
        """The objects that met this fate."""
        return [item for item in self.garbage if item.fate == fate]

    @property
    def deleted(self) -> list[Garbage]:
        """What was deleted, or would be."""
        return self.of("deleted")

    @property
    def bytes(self) -> int:
        """How many bytes were freed, or would be."""
        return sum(item.size for item in self.deleted)

    def __str__(self) -> str:
        verb = "would delete" if self.dry_run else "deleted"
        first = (
            f"collect: {verb} {len(self.deleted):,} objects of {self.bytes:,} bytes; "
            f"{len(self.of('condemned')):,} condemned now, {len(self.of('waiting')):,} waiting; "
            f"{self.referenced:,} segments in use by {self.tables:,} tables, "
            f"{self.young:,} too young to tell, in {self.seconds:.2f} s"
        )
        lines = [first]
        for fate in ("deleted", "condemned", "waiting"):
            items = self.of(fate)
            lines += [f"  {item}" for item in items[:SHOWN]]
            if len(items) > SHOWN:
                lines.append(f"  ... and {len(items) - SHOWN:,} more {fate}")
        return "\n".join(lines)
