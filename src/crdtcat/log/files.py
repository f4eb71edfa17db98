"""Which files of commits a log already has, by their names. Pure, and O(k log n) for k names."""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Sequence
from typing import Final

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.format.closed import Closed
from crdtcat.format.sections import Array
from crdtcat.log.log import ID, ID_FIELDS, Log
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol.names import TRANSACTIONS, claim_number, is_claim, is_version, transaction_of

_TITLE: Final = len(f"{VersionId(0, 0, 0, bytes(16))}.v")
"""How long the name of a version file is, in its folder."""


def files_without(log: Log, names: Sequence[str], horizon: int = 0) -> list[str]:
    """Those of some commit files whose version, unless it is below a horizon, or whose number, the log does
    not have. O(k log n)."""
    rare = {name for name in names if name[-1] == "c" or name.startswith(TRANSACTIONS)}
    versions, missing, claims = names, [], []
    if rare:
        missing = _transactions_without(log, [name for name in names if name.startswith(TRANSACTIONS)])
        claims = [name for name in names if is_claim(name)]
        versions = [name for name in names if name not in rare]
    ids = ids_of(versions)
    absent = (log.find(ids) < 0) & (ids.view(ID_FIELDS)["hlc"] >= horizon)
    missing += [versions[at] for at in np.flatnonzero(absent).tolist()]
    if claims:
        numbers = np.array([claim_number(name) for name in claims], np.uint64)
        missing += [claims[at] for at in np.flatnonzero(~np.isin(numbers, log.number)).tolist()]
    return missing


def is_transaction(name: str) -> bool:
    """Whether a name is of a transaction's file."""
    return name.startswith(TRANSACTIONS) and is_version(name)


def passed_by(closed: Closed, name: str) -> bool:
    """Whether a name is of a transaction's file that counts for nothing, by what was settled."""
    return closed.until > 0 and is_transaction(name) and closed.passed_by(*transaction_of(name))


def index_of_file(log: Log, name: str) -> int:
    """Where the version of a commit file is in a log, or -1. O(log n); O(n) for a claim."""
    if is_claim(name):
        return int(next(iter(np.flatnonzero(log.number == claim_number(name))), -1))
    return int(log.find(ids_of([name]))[0]) if is_version(name) else -1


def _transactions_without(log: Log, names: Sequence[str]) -> list[str]:
    """Those of some transactions of which not every version is in the log."""
    if not names:
        return []
    whole = np.array([writer for writer, found in transactions_in(log).items() if found.whole], np.uint64)
    writers = ids_of(names).view(ID_FIELDS)["writer"].astype(np.uint64)
    return [names[at] for at in np.flatnonzero(~np.isin(writers, whole)).tolist()]


def ids_of(names: Sequence[str]) -> Array:
    """Version ids as 36-byte strings, from file names."""
    if len(set(map(len, names))) != 1:  # of several folders, or none
        names = [name[-_TITLE:] for name in names]
    letters = np.frombuffer("".join(names).encode(), np.uint8).reshape(len(names), -1 if names else _TITLE)
    return np.frombuffer(unhexlify(letters[:, -_TITLE:-2].tobytes().replace(b"-", b"")), ID)
