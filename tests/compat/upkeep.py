"""The fourth of the catalogs that every later release must read: what expiry and collection leave behind.

`tests.compat.write` writes the first one, and keeps them all.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from unittest import mock

from crdtcat import Catalog
from crdtcat.store.values import Data
from tests.compat.changes import OPTIONS, READINGS, readings

GRACE_SECONDS = 0.1  # so that what is garbage is condemned, and not deleted yet


def write_upkeep(root: Path) -> None:
    """Transactions that were closed, claims below a horizon, segments let go and condemned."""
    catalog = Catalog(str(root), **OPTIONS, inline_bytes=0, grace_seconds=0)
    names = ("left", "right")
    for name in names:
        catalog.create_table(name, READINGS).append(readings(0, 4))
    for number in (10, 20):
        with catalog.transaction(names) as tx:
            for name in names:
                tx.table(name).append(readings(number, number + 2, "together"))
    catalog.table("left").delete("id = 0")
    strict = catalog.create_table("strict", READINGS, mode="cas")
    for number in range(4):
        strict.append(readings(number, number + 1))
    strict.update("id = 1", {"note": "below the horizon"})
    replaced = catalog.create_table("replaced", READINGS)
    replaced.append(readings(0, 3))
    replaced.overwrite(readings(3, 6))
    catalog.create_table("dropped", READINGS).append(readings(0, 2))
    catalog.drop_table("dropped")
    time.sleep(2 * GRACE_SECONDS)
    catalog.collect(grace=GRACE_SECONDS)
    for name in catalog.tables():
        catalog.table(name).expire(older_than=timedelta(0))
    with catalog.transaction(names) as tx:
        for name in names:
            tx.table(name).append(readings(30, 31, "together"))
    _dies_while_closing(root)
    for name in catalog.tables():
        catalog.table(name).append(readings(90, 91, "after all that"))


def _dies_while_closing(root: Path) -> None:
    """Somebody begins to close transactions and is no more: what it said stays, and others go on."""
    catalog = Catalog(str(root), **OPTIONS, inline_bytes=0, grace_seconds=0)
    put = catalog.store._put_if_absent

    def dies(name: str, data: Data) -> None:
        if name.startswith("transactions/z"):
            raise KeyboardInterrupt
        put(name, data)

    with mock.patch.object(catalog.store, "_put_if_absent", dies), suppress(KeyboardInterrupt):
        catalog.table("left").expire(older_than=timedelta(0))
