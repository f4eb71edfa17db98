"""A table inside a transaction: the verbs that read and change it, on what is pinned and staged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crdtcat.head import Version
from crdtcat.table import Table
from crdtcat.table.columns import Columns
from crdtcat.table.reads import Reads
from crdtcat.table.writes import Writes
from crdtcat.transaction.staged import StagedSession


class StagedTable(Reads, Writes, Columns):
    """A handle on one table inside a transaction. What it writes is visible to it, and to nobody else."""

    _session: StagedSession

    def _kept_up(self, version: Version) -> Version:
        return version

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Only where there is nothing of that name: which verbs are no part of a transaction."""
            if name.startswith("_") or not hasattr(Table, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(
                f"{name} is no part of a transaction: use it before or after, on catalog.table({self.name!r})"
            )
