"""The end of a log: what is deleted of it at once, and what stays, so that whoever still commits is told.

In merge mode a commit asks nobody, so a handle that was not told of a drop learns of it when it next lists.
In CAS mode it wants the next number. There the claims stay, as every number that a handle may take for free
has to be taken, and the one after the last is taken, too, by a claim that says "merge mode": whoever meets it
reads the log, and finds the mark. `Catalog.collect` deletes them a day later, when no handle tries a number
any more without having listed.
"""

from __future__ import annotations

import secrets

from crdtcat.clock.hlc import wall_ms
from crdtcat.format.settings import dropped_name
from crdtcat.format.version import TO_MERGE, encode_version
from crdtcat.protocol import bundle_number, claim_name, claim_number, is_claim
from crdtcat.store import Store


def end_log(store: Store, folder: str, *, strict: bool = False) -> None:
    """Delete the log of a dropped table or a deleted branch, but for its mark, which is there, and claims.

    One LIST page and DELETE per 1,000 files; where there were claims, or with `strict`, one PUT more, and one
    for each commit that comes between.
    """
    names = [item.name for item in store.list(folder) if item.name != dropped_name(folder)]
    last = max((claim_number(name) if is_claim(name) else bundle_number(name) for name in names), default=0)
    if last or strict:
        _take_next(store, folder, last + 1)
    gone = [name for name in names if not is_claim(name)]
    for at in range(0, len(gone), 1000):
        store.delete(gone[at : at + 1000])


def _take_next(store: Store, folder: str, number: int) -> None:
    while True:
        stamp = {"h": wall_ms() << 16, "w": secrets.randbits(64), "s": 1, "l": folder, "#": number}
        _, data = encode_version({**stamp, "o": TO_MERGE, "p": None, "c": {}})
        if store.create(claim_name(folder, number), data):
            return
        number += 1
