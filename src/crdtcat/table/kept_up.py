"""A handle whose commits look after the log."""

from __future__ import annotations

from crdtcat.head import Version
from crdtcat.maintenance.upkeep import upkeep
from crdtcat.table.handle import Handle


class KeptUp(Handle):
    """A handle that does upkeep after some of its commits, unless its catalog was told not to."""

    def _kept_up(self, version: Version) -> Version:
        upkeep(self._session, version.id)
        return version
