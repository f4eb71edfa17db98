"""A table inside a transaction: the verbs that read and change it, on what is pinned and staged."""

from __future__ import annotations

from crdtcat.head import Version
from crdtcat.staged import StagedSession
from crdtcat.table.columns import Columns
from crdtcat.table.reads import Reads
from crdtcat.table.writes import Writes


class StagedTable(Reads, Writes, Columns):
    """A handle on one table inside a transaction. What it writes is visible to it, and to nobody else."""

    _session: StagedSession

    def _kept_up(self, version: Version) -> Version:
        return version
