"""What the files of transactions name, log by log, and for which logs that counts.

A transaction's file stays until every log that it touches has it in a bundle. By then it may name what nobody
can reach: a log whose horizon has passed the transaction reads its base instead, a log that was dropped is
not read at all. So a log that knows a transaction speaks for its own part of it, as it does for every other
version. Only what a file names for a log that should know it and does not (its mark is lost, which `verify`
tells) counts because the file names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.condemned import TITLE_BYTES
from crdtcat.format.settings import parse_log_folder, require_log_folder
from crdtcat.format.version import as_bytes, decode_version
from crdtcat.log import State
from crdtcat.log.files import passed_by
from crdtcat.log.log import ID
from crdtcat.log.transactions import parts_of
from crdtcat.protocol import is_version
from crdtcat.protocol.names import TRANSACTIONS
from crdtcat.store import Store

BATCH: Final = 256  # transactions read at a time


class Part(NamedTuple):
    """One version that a transaction adds to one log.

    Attributes:
        file: the transaction's.
        folder: the log's.
        id: the version's.
        titles: of the segments that it names, concatenated.
    """

    file: str
    folder: str
    id: VersionId
    titles: bytes


def parts_by_table(store: Store) -> dict[str, list[Part]]:
    """What the transactions whose files are there add to tables. One LIST, one GET per file; memory: their
    segments' names."""
    names = [item.name for item in store.list(TRANSACTIONS) if is_version(item.name)]
    parts: dict[str, list[Part]] = {}
    for at in range(0, len(names), BATCH):
        batch = names[at : at + BATCH]
        for name, data in zip(batch, store.get_many([(name, 0, None) for name in batch]), strict=True):
            if data is None:
                continue  # collected, so that every table it touches has it in a bundle
            _, body = decode_version(data, name)
            for folder, versions in parts_by_log(body, name).items():
                table, *_ = parse_log_folder(folder)
                for id, version in (decode_version(held, name) for held in versions):
                    parts.setdefault(table, []).append(Part(name, folder, id, _titles(version, name)))
    return parts


def parts_by_log(body: Mapping[str, Any], name: str) -> dict[str, list[bytes]]:
    """The version files that a transaction's file adds, by folders of logs. Raises `Corrupt`."""
    parts = parts_of(body, name)
    for folder in parts:
        require_log_folder(folder, name)
    return parts


def _titles(version: Mapping[str, Any], name: str) -> bytes:
    """The names of the segments that a version brings."""
    try:
        titles = [as_bytes(segment[0]) for segment in version.get("g") or ()]
    except (TypeError, LookupError) as error:
        raise Corrupt(name, f"malformed segments: {error}") from error
    if any(len(title) != TITLE_BYTES for title in titles):
        raise Corrupt(name, f"a segment's name is {TITLE_BYTES} bytes")
    return b"".join(titles)


def titles_of(parts: Iterable[Part]) -> bytes:
    """The segments that parts name."""
    return b"".join(part.titles for part in parts)


class Referred:
    """Gathers the segments that the logs of one table refer to.

    Args:
        parts: what transactions add to them.
    """

    def __init__(self, parts: Collection[Part]) -> None:
        self._parts = parts
        self._found: set[bytes] = set()

    @property
    def titles(self) -> bytes:
        """All that was found."""
        return b"".join(sorted(self._found))

    def by(self, state: State) -> None:
        """Take what a log refers to, and its part of transactions that it should know and does not."""
        horizon = state.log.horizon if state.base else 0
        mine = [
            part
            for part in self._parts
            if part.folder == state.folder
            and part.id.hlc >= horizon
            and not passed_by(state.closed, part.file)
        ]
        known = state.log.find(np.array([part.id.to_bytes() for part in mine], ID)) >= 0
        self._add(state.log.segment_name.tobytes())
        self._add(titles_of(part for part, here in zip(mine, known.tolist(), strict=True) if not here))

    def by_transactions(self, *, but: Collection[str]) -> None:
        """Take the parts of logs that were neither read nor found dead."""
        self._add(titles_of(part for part in self._parts if part.folder not in but))

    def _add(self, titles: bytes) -> None:
        self._found.update(titles[at : at + TITLE_BYTES] for at in range(0, len(titles), TITLE_BYTES))
