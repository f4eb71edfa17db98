"""Upkeep of transactions without talking: now and then one that was committed collects those that are over.

As with the log, who does it is decided by version ids, so no writer is in charge. It happens beside the
commits, in a thread of the process, and fails nobody.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from crdtcat.clock import VersionId
from crdtcat.maintenance.beside import do_beside, in_task_of_spark

if TYPE_CHECKING:
    from crdtcat.catalog import Catalog

TEND_EVERY: Final = 16  # transactions, on average: a listing of them, and a GET for each that is old enough
logger = logging.getLogger("crdtcat")


def tend(catalog: Catalog, id: VersionId) -> None:
    """Collect transactions, if the commit of this version is one that does."""
    if not catalog.options.upkeep or int.from_bytes(id.digest[:8], "big") % TEND_EVERY or in_task_of_spark():
        return
    if catalog.options.upkeep == "synchronous":
        _collect(catalog)
    elif not do_beside(catalog, lambda _: _collect(catalog), id):
        logger.info("collecting transactions of %s is left to another one: much is waiting", catalog.url)


def _collect(catalog: Catalog) -> None:
    try:
        catalog.collect_transactions()
    except Exception as error:  # noqa: BLE001 (whatever it is, the commit before it stands)
        logger.warning("collecting transactions of %s is put off: %s", catalog.url, error)
