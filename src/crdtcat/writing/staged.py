"""What one commit has staged, in the columns of its version file. A plain value that pickles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import LimitExceeded
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.writing.prepared import Prepared
from crdtcat.writing.reuse import Place, StoredSegment


def require_in_time(since_ms: int) -> None:
    """For a commit that began then to store rows, or read then a head whose rows it uses again: after too
    long a collector may take them for garbage. Raises `LimitExceeded`. No request."""
    waited = (wall_ms() - since_ms) // 1000
    if waited > TRANSACTION_SECONDS_MAX:
        raise LimitExceeded(
            f"this commit began {waited:,} s ago; at most {TRANSACTION_SECONDS_MAX:,} "
            "(TRANSACTION_SECONDS_MAX): nothing is visible; do it again, and commit more often"
        )


@dataclass
class Staged:
    """What a version file will say about its chunks, in the format's columns."""

    hashes: list[bytes] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    partitions: list[bytes] = field(default_factory=list)
    segments: list[list[Any]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    inline: list[bytes | None] = field(default_factory=list)
    statistics: dict[str, list[Any]] = field(default_factory=dict)
    time_range: tuple[int, int] | None = None
    orders: dict[str, list[Any]] = field(default_factory=dict)
    """Entries of ordered dictionaries, see `crdtcat.chunks.entry_order`."""
    since_ms: int | None = None
    """When it began to store rows, or to look for rows that are stored."""

    def begin(self) -> None:
        """From now on a collector must wait for this commit."""
        if self.since_ms is None:
            self.since_ms = wall_ms()

    def check_in_time(self) -> None:
        """A segment that waits too long for its version may be taken for garbage. Raises `LimitExceeded`."""
        if self.since_ms is not None:
            require_in_time(self.since_ms)

    def body(self) -> dict[str, Any]:
        """The keys of the version file."""
        return {
            "y": b"".join(self.hashes) or None,
            "n": self.rows or None,
            "z": self.nbytes or None,
            "q": self.partitions or None,
            "g": self.segments or None,
            "a": self.places or None,
            "i": self.inline or None,
            "e": self.statistics or None,
            "r": self.time_range,
        }

    def add(self, chunk: Prepared) -> None:
        """One more chunk, wherever it will lie."""
        for name, code, found in chunk.statistics:
            assert found is not None, "a chunk is settled before it is staged"
            lists = self.statistics.setdefault(name, [code, [], [], []])
            lists[1].append(found.min)
            lists[2].append(found.max)
            lists[3].append(found.nulls)
        self.hashes.append(chunk.hash)
        self.rows.append(chunk.rows)
        self.nbytes.append(chunk.nbytes)
        if chunk.partition is not None:
            self.partitions.append(chunk.partition)

    def place(self, places: Mapping[bytes, Place | None]) -> None:
        """Say where the chunks lie, as far as they lie in segments."""
        numbers: dict[StoredSegment, int] = {}
        for chunk, hash in enumerate(self.hashes):
            place = places.get(hash)
            if place is not None:
                number = numbers.setdefault(place.segment, len(numbers))
                self.places += (chunk, number, place.group)
        self.segments = [list(segment) for segment in numbers]
