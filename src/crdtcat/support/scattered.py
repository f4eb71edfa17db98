"""Bytes that lie in several places of memory, as one object's content.

A large object is made in pieces. Joining them would copy all of it once more, only for a store to read it
piece by piece; and of one larger than memory, the first pieces are in the store before the last are made.
Knows nothing of stores.
"""

from __future__ import annotations

from collections.abc import Sequence


class Scattered:
    """Some buffers that follow each other. `len` counts bytes, `bytes` joins them.

    Args:
        parts: the buffers, in order.
        gone: how many bytes lie before them that are not here any more: a store has them.
    """

    def __init__(self, parts: Sequence[bytes | memoryview], gone: int = 0) -> None:
        self.parts = tuple(memoryview(part).cast("B") for part in parts if len(part))
        self.gone = gone
        self._size = gone + sum(map(len, self.parts))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.between(0))

    def between(self, start: int, stop: int | None = None) -> list[memoryview]:
        """What lies from byte `start` to before `stop`, nothing copied. Raises `ValueError` if it is gone."""
        end = self._size if stop is None else min(stop, self._size)
        if start < min(self.gone, end):
            raise ValueError(f"the first {self.gone:,} bytes are not here any more")
        found, before = [], self.gone
        for part in self.parts:
            piece = part[max(0, start - before) : max(0, end - before)]
            before += len(part)
            if len(piece):
                found.append(piece)
        return found

    def __repr__(self) -> str:
        gone = f", {self.gone} of them gone" if self.gone else ""
        return f"Scattered({len(self.parts)} parts, {self._size} bytes{gone})"
