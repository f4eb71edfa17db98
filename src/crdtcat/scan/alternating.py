"""Entries whose rows alternate, as far as they are read together: each of them once.

Cut wherever it grows too large, a chunk that is large itself would be read again for every place at which
rows were inserted into it. So it is cut where what is read again behind the cut is at most half of it, or
where it is many times too large. Pure.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 16  # times as much as should be read together may be, where most of it would be read again


class Alternating:
    """Takes runs of rows in row order, until they are to be read.

    Args:
        limit: how many bytes should be read together.

    Attributes:
        chunks: the entries, in the order in which they came.
        nbytes: of all of them.
    """

    def __init__(self, limit: int) -> None:
        self.chunks: dict[int, None] = {}
        self.nbytes = 0
        self._limit, self._open, self._again = limit, set[int](), 0

    def add(self, entry: int, nbytes: int, *, more: bool) -> bool:
        """Take a run of an entry of so many bytes, of which there are `more` to come; whether to read now."""
        if entry not in self.chunks:
            self.chunks[entry] = None
            self.nbytes += nbytes
        if more and entry not in self._open:
            self._open.add(entry)
            self._again += nbytes
        elif not more and entry in self._open:
            self._open.discard(entry)
            self._again -= nbytes
        is_large = self.nbytes > self._limit and 2 * self._again <= self.nbytes
        return not self._open or is_large or self.nbytes > MOST * self._limit
