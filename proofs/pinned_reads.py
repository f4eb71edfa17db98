"""What of a reader's listings is reading: of several tables that a transaction pins, one after the other.

The library lists tables once more where it has to know what came between, and reads all of them again if
something did. Which listing is which cannot be seen from requests alone, so the two functions that read are
watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from crdtcat.transaction import pinning
from proofs.turns import Turns


class PinnedReads(Turns):
    """Watches one `reader`, and is told when it reads all tables, and when each begins and ends."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While this lasts."""
        with (
            mock.patch.object(pinning, "_read", self._all(pinning._read)),
            mock.patch.object(pinning, "_listed", self._one(pinning._listed)),
        ):
            yield

    def begins(self) -> None:
        """All tables are read, from the first on."""

    def table_begins(self, folder: str) -> None:
        """One of them is read."""

    def table_ends(self) -> None:
        """It was read."""

    def _all(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def reads(*arguments: Any) -> Any:
            if self._running == "reader":
                self.begins()
            return read(*arguments)

        return reads

    def _one(self, listed: Callable[..., Any]) -> Callable[..., Any]:
        def lists(session: Any, *arguments: Any) -> Any:
            if self._running != "reader":
                return listed(session, *arguments)
            self.table_begins(session.folder)
            log = listed(session, *arguments)
            self.table_ends()
            return log

        return lists
