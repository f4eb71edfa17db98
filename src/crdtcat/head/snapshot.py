"""Snapshots: names for sets of versions that read the same for ever.

A snapshot's `id` is a hash of exactly the version ids in it, so two readers that hold the same set agree on
it whatever the order in which they got there. Its `clock` says which versions those are, because writers
count without gaps: a later reader picks them out of a larger log, whatever has arrived since, even versions
that sort into the past. The text form (a token) carries both, and is checked when it is used.

Below a horizon nothing can arrive any more. So where a snapshot holds everything that was folded, its clock
may leave that out and name the horizon instead: it is then as long as what is new (`Snapshot.above`). Or it
names a version of the same log that had seen some of the set and nothing else, and says what is beyond: that
version's clock stays in the log as long as the set does (`Snapshot.beyond`).
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from blake3 import blake3

from crdtcat.clock import VectorClock, VersionId
from crdtcat.clock.version_id import ID_BYTES
from crdtcat.errors import Corrupt, Expired, InvalidArgument, NotFound
from crdtcat.format.sections import Array
from crdtcat.format.version import pack, unpack
from crdtcat.head.clocks import Clocks, seen_by
from crdtcat.log.gaps import SEQ_MAX
from crdtcat.log.join import select
from crdtcat.log.log import Log

_PREFIX: Final = "s1."
_TOKEN_BYTES_MAX: Final = 2**28  # unzipped


class Snapshot:
    """A set of versions. Equal and hashed by `id`. Theorem: `snapshot_stable`.

    Args:
        id: 64 hexadecimal digits that name the set.
        versions: how many there are, void ones included.
        clock: which they are, or how to find out (a clock of a million writers is made only when wanted).
        horizon: all versions below it are in the set, whatever the clock says; 0: none but those it says.
        seen_by: id of a version, as bytes: all that it had seen is in the set, too; empty: there is none.
    """

    __slots__ = ("_clock", "horizon", "id", "seen_by", "versions")

    def __init__(
        self,
        id: str,
        versions: int,
        clock: VectorClock | Callable[[], VectorClock],
        horizon: int = 0,
        seen_by: bytes = b"",
    ) -> None:
        self.id, self.versions, self._clock = id, versions, clock
        self.horizon, self.seen_by = horizon, seen_by

    @property
    def clock(self) -> VectorClock:
        """Which versions: per writer, how many."""
        if not isinstance(self._clock, VectorClock):
            self._clock = self._clock()
        return self._clock

    def members(self, log: Log) -> Array:
        """Per version of a log, whether it is in the set. O(n log n) in arrays.

        Theorem: `clock_picks_snapshot`.
        """
        seen = seen_by(self.spelled_out(log).clock, log)
        return seen | (log.id_fields["hlc"] < self.horizon) if self.horizon and len(log) else seen

    def is_spelled_out(self, log: Log) -> bool:
        """Whether a log has what it takes to tell the members: the version that is named, if one is."""
        return not self.seen_by or log.index_of(VersionId.from_bytes(self.seen_by)) >= 0

    def spelled_out(self, log: Log) -> Snapshot:
        """The same, with a clock that names no version of the log: the inverse of `beyond`."""
        if not self.seen_by or not self.is_spelled_out(log):
            return self
        clock = Clocks(log).of(log.index_of(VersionId.from_bytes(self.seen_by)))
        return Snapshot(self.id, self.versions, self.clock.merge(clock), self.horizon)

    def above(self, log: Log) -> Snapshot:
        """The same, with a clock of those writers only that have versions above a log's horizon, if it holds
        everything below. Can be read as long as the log is not one whose horizon lies further back."""
        if not log.horizon or not self.members(log)[log.is_folded & ~log.is_upkeep].all():
            return self
        recent = set(log.id_fields["writer"][~log.is_folded].tolist())
        clock = VectorClock({writer: seq for writer, seq in self.clock.items() if writer in recent})
        return Snapshot(self.id, self.versions, clock, log.horizon)

    def beyond(self, log: Log, version: int) -> Snapshot:
        """The same, with a clock of what one version of the log had not seen; itself, if that had seen
        something else. O(n log n) in arrays."""
        try:
            clock, id = Clocks(log).of(version), log.id_at(version).to_bytes()
        except Corrupt:  # upkeep of the source of a branch, that had seen what came after the branch's start
            return self
        found = Snapshot(self.id, self.versions, self.clock.beyond(clock), self.horizon, id)
        other = found.members(log) != self.members(log)
        return self if (other & ~log.is_upkeep).any() else found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[type[Snapshot], tuple[str, int, VectorClock, int, bytes]]:
        return Snapshot, (self.id, self.versions, self.clock, self.horizon, self.seen_by)

    def __str__(self) -> str:
        """A token that `at=` takes anywhere, later."""
        parts = [bytes.fromhex(self.id), self.versions, dict(self.clock), self.horizon, self.seen_by]
        used = 5 if self.seen_by else 4 if self.horizon else 3
        return _PREFIX + _coded(zlib.compress(pack(parts[:used]), 9))

    def __repr__(self) -> str:
        return f"Snapshot({self.id[:12]}…, {self.versions} versions)"

    @classmethod
    def parse(cls, token: str) -> Snapshot:
        """The inverse of `str`. Raises `InvalidArgument` for any other text."""
        try:
            if not token.startswith(_PREFIX):
                raise ValueError("no snapshot token")
            body = _unzipped(token.removeprefix(_PREFIX))
            id, versions, clock, *more = unpack(body, "snapshot token")
            horizon, seen_by = more if len(more) > 1 else [*more, b""] if more else [0, b""]
            return cls(_id(id), _count(versions), _clock(clock), _count(horizon), _version(seen_by))
        except (ValueError, TypeError, AttributeError, binascii.Error, zlib.error, Corrupt) as error:
            raise InvalidArgument(
                f"{str(token)[:40]!r} is not a snapshot token, or not a whole one: pass str(snapshot)"
            ) from error


def is_token(text: str) -> bool:
    """Whether a text looks like a snapshot token rather than a tag or a version id."""
    return text.startswith(_PREFIX)


def data_versions(log: Log) -> int:
    """How many versions of a log a snapshot of it holds: upkeep is no part of one."""
    return len(log) - int(log.is_upkeep.sum())


def snapshot_id(log: Log) -> str:
    """The name of a set of versions. O(bytes of ids), tens of milliseconds for a million versions."""
    ids = log.ids[~log.is_upkeep] if log.is_upkeep.any() else log.ids
    hasher = blake3(b"crdtcat snapshot 1\0")
    hasher.update(np.ascontiguousarray(ids).view(np.uint8).data)
    return hasher.hexdigest()


def versions_of(log: Log, snapshot: Snapshot, table: str) -> Log:
    """The versions of a snapshot, picked out of a log that may hold more. O(n log n) in arrays.

    Raises:
        Expired: some of them are not there any more.
        NotFound: the snapshot is of another table.
    """
    # Upkeep is no part of a snapshot; what of it fits these versions is found out when rows are read.
    seen = snapshot.members(log) | log.is_upkeep
    if log.horizon and not seen[log.is_folded].all():
        raise Expired(
            f"snapshot {snapshot.id[:12]} of {table!r} is below the horizon: its versions were folded "
            f"together with {int((~seen[log.is_folded]).sum())} that it does not hold; read a newer one, or "
            "check that it is of this table, and tag what must stay readable"
        )
    # A number that was aborted later is taken in this log, and free in one that begins with the snapshot.
    seen &= log.number <= log.number[seen & ~log.is_upkeep].max(initial=0)
    chosen = select(log, seen) if len(log) else log
    if data_versions(chosen) < snapshot.versions:
        raise Expired(
            f"snapshot {snapshot.id[:12]} holds {snapshot.versions} versions, and {table!r} has "
            f"{data_versions(chosen)} of them: they were expired, or the snapshot is of another table"
        )
    if snapshot_id(chosen) != snapshot.id:
        raise NotFound(f"snapshot {snapshot.id[:12]} is not of table {table!r}")
    return chosen


def _unzipped(coded: str) -> bytes:
    """What a token holds. Its last bytes are a checksum: one cut off or altered is a `ValueError`."""
    data = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    unzip = zlib.decompressobj()
    body = unzip.decompress(data, _TOKEN_BYTES_MAX)
    if not unzip.eof or unzip.unused_data:
        raise ValueError("a part is missing, or there is more than a token")
    if _coded(data) != coded:  # the decoder passes over what is no letter of its own, and over spare bits
        raise ValueError("letters that no token has")
    return body


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _id(value: Any) -> str:
    if not isinstance(value, bytes) or len(value) != 32:
        raise ValueError("a snapshot's id is 32 bytes")
    return value.hex()


def _version(value: Any) -> bytes:
    if not isinstance(value, bytes) or len(value) not in (0, ID_BYTES):
        raise ValueError("a version's id is 36 bytes")
    return value


def _count(value: Any, most: int = 2**64 - 1) -> int:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{value!r} is no count")
    return value


def _clock(seen: dict[Any, Any]) -> VectorClock:
    return VectorClock({_count(writer): _count(seq, SEQ_MAX) for writer, seq in seen.items()})
