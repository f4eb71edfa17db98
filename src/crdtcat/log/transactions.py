"""Transactions in a log: several versions, in one log or several, that one file brought.

A transaction's file holds whole version files, by the folder of the log they belong to. Taken apart, they are
versions like any other. What a log remembers besides is which of them belong together and which other logs
have the rest, so that whoever reads several tables can tell whether it has all of a transaction. One writer
makes one transaction, so its id names it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.version import decode_version, pack, unpack
from crdtcat.log.build import LogBuilder
from crdtcat.log.log import Log


@dataclass(frozen=True, slots=True)
class Found:
    """What a log has of a transaction.

    Attributes:
        versions: how many of its versions are here.
        expected: how many there should be.
        folders: every log it touches.
    """

    versions: int
    expected: int
    folders: frozenset[str]

    @property
    def whole(self) -> bool:
        """Whether all of it that belongs here is here."""
        return self.versions == self.expected


def parts_of(body: Mapping[str, Any], name: str) -> dict[str, list[bytes]]:
    """What a transaction's file adds: version files, by the folder of the log they belong to.

    Raises:
        Corrupt: it has no such parts.
    """
    parts = body.get("t")
    if not isinstance(parts, dict) or not all(isinstance(part, list) for part in parts.values()):
        raise Corrupt(name, "the parts of a transaction are lists of version files by folder")
    if not all(isinstance(folder, str) for folder in parts):
        raise Corrupt(name, "the folders that a transaction touches are texts")
    for folder, part in parts.items():
        for at, held in enumerate(part):
            if not isinstance(held, bytes):
                raise Corrupt(name, f"part {at} for {folder} is no version file")
    return parts


def add_parts(
    builder: LogBuilder, id: VersionId, body: Mapping[str, Any], folder: str, name: str, *, number: int = 0
) -> bool:
    """Take in what a transaction adds to one log; false where that is nothing.

    In CAS mode the last version of it has the claim's number, and the claim holds nothing for other logs.

    Raises:
        Corrupt: a part that is no version file, or not this transaction's.
    """
    parts = parts_of(body, name)
    mine = parts.get(folder)
    if not mine:
        return False
    touched = body.get("D") or list(parts)
    if not isinstance(touched, list) or not all(isinstance(one, str) for one in touched):
        raise Corrupt(name, "the folders that a transaction touches are texts")
    blob = pack([len(mine), sorted(touched)])
    for at, data in enumerate(mine):
        part, version = decode_version(data, f"{name}, part {at} for {folder}")
        if part.writer != id.writer:
            raise Corrupt(name, f"part {at} for {folder} is of another writer")
        if number and at == len(mine) - 1:
            version["#"] = number
        builder.add(part, version, name, transaction=blob)
    return True


def transactions_in(log: Log) -> dict[int, Found]:
    """Every transaction that a log has versions of, by its writer. O(versions of transactions)."""
    if log.transaction.null_count == len(log):
        return {}
    parts = np.flatnonzero(np.asarray(log.transaction.is_valid()))
    writers, first, counts = np.unique(
        log.id_fields["writer"][parts].astype(np.uint64), return_index=True, return_counts=True
    )
    said = pc.dictionary_encode(log.transaction.take(pa.array(parts[first])))  # mostly the same of all
    meant = [_meaning(blob, str(log.id_at(int(parts[0])))) for blob in said.dictionary.to_pylist()]
    alike = zip(counts.tolist(), said.indices.to_pylist(), strict=True)
    made: dict[tuple[int, int], Found] = {}
    found = (made.get(pair) or made.setdefault(pair, Found(pair[0], *meant[pair[1]])) for pair in alike)
    return dict(zip(writers.tolist(), found, strict=True))


def _meaning(blob: bytes, name: str) -> tuple[int, frozenset[str]]:
    count, folders = unpack(blob, name)
    return int(count), frozenset(folders)


def at_once(log: Log, indexes: Iterable[int]) -> list[list[int]]:
    """Some versions, those of one transaction together, in the order of the first of each. O(versions)."""
    parts, writers = np.asarray(log.transaction.is_valid()), log.id_fields["writer"]
    found: dict[int, list[int]] = {}
    for at in indexes:
        found.setdefault(~int(writers[at]) if parts[at] else at, []).append(at)
    return list(found.values())


def claim_of(log: Log, index: int) -> int:
    """The number that a version was claimed under: its own or, where it is one of several, that of the last
    of them; 0 for one that took none. O(versions) for those."""
    number = int(log.number[index])
    if number or not log.transaction[index].is_valid:
        return number
    writers = log.id_fields["writer"]
    return int(log.number[writers == writers[index]].max())
