"""Versions that a writer stored lately, for the next refresh of its handle and for its upkeep: neither need
ask for them.

A version file never changes and is named by its content, so what was stored is what would be read. That it
is there is still for the listing to say. Bounded: whoever commits on and on without looking asks for the
older ones, as everybody does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RECENT_FILES_MAX: Final = 64  # a block of upkeep, where nobody else writes
RECENT_BYTES_MAX: Final = 2**18  # of each writer, and a process may have a thousand


class Recent:
    """Names and bytes, the latest last. Threads may add while others look: each change is one assignment."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def add(self, name: str, data: bytes) -> None:
        """Keep one, and of the others as many as there is room for."""
        kept = {**self._kept, name: data}
        size = sum(map(len, kept.values()))
        for oldest in list(kept):
            if size <= RECENT_BYTES_MAX and len(kept) <= RECENT_FILES_MAX:
                break
            size -= len(kept.pop(oldest))
        self._kept = kept

    @property
    def kept(self) -> Mapping[str, bytes]:
        """Bytes by name, for one who reads files again that may be the handle's own."""
        return self._kept

    def taken(self) -> Mapping[str, bytes]:
        """Bytes by name, for one who is about to merge them; kept no longer."""
        kept, self._kept = self._kept, {}
        return kept
