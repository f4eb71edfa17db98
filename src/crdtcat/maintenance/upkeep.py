"""Upkeep without talking: who bundles is decided by the version id itself.

After its commit a writer looks at the digest in its new version's id. One in `bundle_every` is a multiple of
it: that writer bundles what is waiting, and collects. Everybody can tell who was chosen, nobody has to ask,
and if the chosen one dies the next one does the work.
"""

from __future__ import annotations

import logging
from typing import Final

from crdtcat.clock import VersionId
from crdtcat.errors import CrdtcatError
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.maintenance.collect import collect_log
from crdtcat.session import Session

COLLECT_EVERY: Final = 8  # bundlings to a collection

logger = logging.getLogger("crdtcat")


def upkeep(session: Session, id: VersionId) -> None:
    """Bundle, and now and then collect, if this version is one of those that do. Never fails the commit."""
    every = session.options.bundle_every
    draw = int.from_bytes(id.digest[:8], "big")
    if not session.options.upkeep or draw % every:
        return
    try:
        checkpoint(session, at_least=every // 2)
        if draw // every % COLLECT_EVERY == 0:
            collect_log(session)
    except CrdtcatError as error:
        logger.warning("upkeep of %s is put off to another commit: %s", session.folder, error)
