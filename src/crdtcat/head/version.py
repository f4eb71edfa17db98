"""Versions as users see them: what a commit returns and what history lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.format.version import OPERATIONS, unpack
from crdtcat.head.row_counts import row_counts
from crdtcat.log.log import NO_TIME, Log

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Version:
    """One commit.

    Attributes:
        id: its identity and its place in the order all readers agree on.
        operation: "append", "overwrite", "schema", ...
        rows: rows it stored: added, and new values of others; those that a clustering put in order.
        bytes: bytes of Arrow content it added.
        chunks: chunks it added.
        metadata: what the user attached; never `None`.
        key: idempotency key, if any.
        time_range: least and greatest value of the table's time column in the rows it added, if known.
        stands: false where an earlier version with the same idempotency key counts instead.
        rebases: how often the commit was moved past others, where a verb returns it; 0 in histories, and in
            merge mode: nothing is in the way.
        number: its place in a table in CAS mode, from 1; 0 for versions without one. Of several changes by
            one transaction the last has it. Repetitions under a key and aborted transactions take numbers,
            too: it may be above `head.version`, which counts the rest.
        rows_added: rows it added; in a keyed table, those it upserted.
        rows_updated: rows it gave new values, as it knew them. Some may have been deleted at the same time.
        rows_deleted: rows it deleted, as it knew them: others may have deleted the same. An overwrite
            replaces instead, and says 0; in a keyed table it is keys, whether or not they were there.
    """

    id: VersionId
    operation: str
    rows: int = 0
    bytes: int = 0
    chunks: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    time_range: tuple[datetime, datetime] | None = None
    stands: bool = True
    rebases: int = 0
    number: int = 0
    rows_added: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0

    @property
    def time(self) -> datetime:
        """When it was committed, by the writer's clock."""
        return self.id.time

    def __str__(self) -> str:
        when = self.time.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        void = "" if self.stands else " (void: its idempotency key was used before)"
        about = f" {dict(self.metadata)}" if self.metadata else ""
        both = f" ({self.rows_deleted:,} deleted)" if self.rows and self.rows_deleted else ""
        rows = f"{self.rows or self.rows_deleted:>10,} rows{both}"
        return f"{when}  {self.operation:<10} {rows}  {self.id}{about}{void}"


def time_range(least: int, greatest: int) -> tuple[datetime, datetime] | None:
    """Microseconds since 1970 as datetimes; `None` where unknown or outside what datetime holds."""
    if least == NO_TIME:
        return None
    try:
        return _EPOCH + timedelta(microseconds=least), _EPOCH + timedelta(microseconds=greatest)
    except OverflowError:
        return None


class History(Sequence[Version]):
    """Versions in id order, made when looked at. `len` and indexing are O(1)."""

    def __init__(self, log: Log, chosen: Array, standing: Array) -> None:
        self._log, self._chosen, self._standing = log, chosen, standing

    def __len__(self) -> int:
        return len(self._chosen)

    @overload
    def __getitem__(self, index: int) -> Version: ...
    @overload
    def __getitem__(self, index: slice) -> History: ...
    def __getitem__(self, index: int | slice) -> Version | History:
        if isinstance(index, slice):
            return History(self._log, self._chosen[index], self._standing)
        return version_at(
            self._log, int(self._chosen[index]), stands=bool(self._standing[self._chosen[index]])
        )

    def __repr__(self) -> str:
        shown = [*map(str, self[:20]), *([f"... and {len(self) - 20:,} more"] if len(self) > 20 else [])]
        return "\n".join(shown) or ("(history was expired)" if self._log.horizon else "(no commits yet)")


def version_at(log: Log, index: int, *, stands: bool = True) -> Version:
    """The version at one index of a log."""
    id = log.id_at(index)
    chunks = slice(int(log.chunk_start[index]), int(log.chunk_start[index + 1]))
    metadata, key = log.metadata[index].as_py(), log.key[index].as_py()
    counts = row_counts(log, id, log.kind[chunks].tolist(), log.rows[chunks].tolist(), log.ops[index].as_py())
    return Version(
        id=id,
        operation=OPERATIONS[int(log.operation[index])],
        rows=int(log.rows[chunks].sum(dtype=np.uint64)),
        bytes=int(log.nbytes[chunks].sum(dtype=np.uint64)),
        chunks=chunks.stop - chunks.start,
        metadata={} if metadata is None else _map(metadata, id),
        key=None if key is None else _text(key, id),
        time_range=time_range(int(log.time_min[index]), int(log.time_max[index])),
        stands=stands,
        number=int(log.number[index]),
        rows_added=counts.added,
        rows_updated=counts.updated,
        rows_deleted=counts.deleted,
    )


def _map(packed: bytes, id: VersionId) -> dict[str, Any]:
    found = unpack(packed, str(id))
    if not isinstance(found, dict):
        raise Corrupt(str(id), f"its metadata is no map: {found!r}")
    return found


def _text(data: bytes, id: VersionId) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Corrupt(str(id), "its idempotency key is no text") from error
