"""Bytes that lie in several places of memory, as one object's content.

A large object is made in pieces. Joining them would copy all of it once more, only for a store to read it
piece by piece. Knows nothing of stores.
"""

from __future__ import annotations

from collections.abc import Sequence


class Scattered:
    """Some buffers that follow each other. `len` counts bytes, `bytes` joins them.

    Args:
        parts: the buffers, in order.
    """

    def __init__(self, parts: Sequence[bytes | memoryview]) -> None:
        self.parts = tuple(memoryview(part).cast("B") for part in parts if len(part))
        self._size = sum(map(len, self.parts))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)

    def between(self, start: int, stop: int | None = None) -> list[memoryview]:
        """What lies from byte `start` to before `stop`, nothing copied."""
        found, before = [], 0
        end = self._size if stop is None else min(stop, self._size)
        for part in self.parts:
            piece = part[max(0, start - before) : max(0, end - before)]
            before += len(part)
            if len(piece):
                found.append(piece)
        return found

    def __repr__(self) -> str:
        return f"Scattered({len(self.parts)} parts, {self._size} bytes)"
