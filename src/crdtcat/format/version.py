"""Version files: one commit, as a delta, in one immutable self-verifying file.

The body is one MessagePack map with short keys, laid out in columns (one list per attribute, not one map
per chunk), because a reader appends columns to columns: ten thousand small commits decode in the time their
bytes take to read. Absent keys mean empty. The meaning of each key is in `KEYS` and in docs/format.md.

Two nested maps are kept packed. The *schema* is the same bytes in commit after commit, so a reader compares
bytes and decodes it once. The *ops* hold everything rare, and most versions have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgpack

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt, LimitExceeded, UnsupportedFormat
from crdtcat.format.frame import digest, seal, unseal
from crdtcat.limits import VERSION_FILE_BYTES_MAX
from crdtcat.support.object_bytes import ObjectBytes

FEATURES: Final = frozenset({"horizon", "modes"})  # required features this release understands

KEYS: Final[Mapping[str, str]] = {
    "!": "features a reader must understand, list of text",
    "h": "hybrid logical timestamp",
    "w": "writer",
    "s": "sequence number of the writer, from 1",
    "l": "folder of the log this version belongs to",
    "#": "number of a claim, from 1; absent in merge mode",
    "o": "operation, an index into OPERATIONS",
    "p": "version id, 36 bytes, whose clock `c` is the difference to",
    "c": "what the writer had seen beyond `p`: map of writer to sequence number; absent in a blind commit",
    "k": "idempotency key",
    "m": "user metadata, map",
    "r": "[least, greatest] microseconds since 1970 in the table's time column",
    "f": "packed schemas of the rows, see crdtcat.format.schema_code; nearly always one",
    "j": "per chunk, which of them; absent where all chunks have the first",
    "b": "per chunk, its kind, see crdtcat.format.kinds; absent where all are rows",
    "y": "chunk hashes, 32 bytes each, concatenated",
    "n": "rows per chunk",
    "z": "bytes of Arrow content per chunk",
    "q": "packed partition values per chunk; absent in an unpartitioned table",
    "g": "segments: [name, 24 bytes; size; BLAKE3, 32 bytes; footer length]",
    "a": "places: chunk index, segment index, row group, flattened",
    "i": "inlined rows per chunk: bytes or nil",
    "e": "statistics: map of column to [domain, minima, maxima, null counts]",
    "x": "packed ops: map, see crdtcat.format.ops",
    "D": "of a claim of a transaction, the folders of all logs it touches",
    "t": "of a transaction, map of log folder to the version files it adds to that log, in order",
}

OPERATIONS: Final = (
    "append",
    "overwrite",
    "restore",
    "schema",
    "properties",
    "upsert",
    "update",
    "delete",
    "write",
    "compact",
    "merge",
    "transaction",
    "cluster",
    "cas mode",
    "merge mode",
)
TO_CAS: Final = OPERATIONS.index("cas mode")
TO_MERGE: Final = OPERATIONS.index("merge mode")
UPKEEP: Final = OPERATIONS.index("compact")
"""Changes where rows are stored and nothing else: no part of history, counts, clocks or snapshots."""


def pack(value: Any) -> bytes:
    """Canonical MessagePack: maps sorted by key, the shortest encoding of everything."""
    return bytes(msgpack.packb(_ordered(value), use_bin_type=True))


_SCALARS: Final = frozenset({int, float, str, bytes, bool, type(None)})


def _ordered(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, list | tuple):
        if _SCALARS.issuperset(map(type, value)):
            return value
        return [item if type(item) in _SCALARS else _ordered(item) for item in value]
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 (an abstract class is asked last)
        keys = sorted(value) if len({*map(type, value)}) <= 1 else sorted(value, key=_by_type)
        return {key: _ordered(value[key]) for key in keys}
    return value


def _by_type(key: Any) -> tuple[str, Any]:
    return str(type(key)), key


def unpack(data: ObjectBytes, name: str) -> Any:
    """The value in `data`. Raises `Corrupt`, naming the file, for anything but one MessagePack value."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False, use_list=True)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise Corrupt(name, f"not MessagePack: {error or type(error).__name__}") from error


def as_bytes(value: object) -> bytes:
    """The value, if it is bytes, else `TypeError`: `bytes(n)` would allocate what a bad file asks for."""
    if not isinstance(value, bytes):
        raise TypeError(f"bytes expected, not {type(value).__name__}")
    return value


def encode_version(body: Mapping[str, Any]) -> tuple[VersionId, bytes]:
    """Seal a version and name it. `body` uses `KEYS`; empty values may be left out.

    Raises:
        LimitExceeded: the file would be larger than VERSION_FILE_BYTES_MAX; nothing was written.
    """
    data = seal(b"V", pack({key: value for key, value in body.items() if value is not None}))
    if len(data) > VERSION_FILE_BYTES_MAX:
        raise LimitExceeded(
            f"a version file of {len(data):,} bytes is over the limit of {VERSION_FILE_BYTES_MAX:,}; "
            "commit fewer chunks at a time or use less metadata"
        )
    return VersionId(body["h"], body["w"], body["s"], digest(data)), data


def decode_version(data: ObjectBytes, name: str) -> tuple[VersionId, dict[str, Any]]:
    """The version in a file, checked against its trailer. The inner lists are checked by whoever uses them.

    Raises:
        Corrupt: damaged, or not a version.
        UnsupportedFormat: needs a feature this release does not have.
    """
    if len(data) > VERSION_FILE_BYTES_MAX:
        raise Corrupt(name, f"{len(data):,} bytes are over the limit of {VERSION_FILE_BYTES_MAX:,}")
    body = unpack(unseal(b"V", data, name), name)
    if not isinstance(body, dict):
        raise Corrupt(name, "a version's body must be a map")
    require_features(body.get("!"), name)
    try:
        id = VersionId(body["h"], body["w"], body["s"], digest(data))
        id.to_bytes()
    except Exception as error:
        raise Corrupt(name, "no valid version id inside") from error
    return id, body


def require_features(needed: object, name: str) -> None:
    """Refuse, by name, a file that needs what this release does not know."""
    if not needed:
        return
    if not isinstance(needed, list):
        raise Corrupt(name, "the list of required features is not a list")
    unknown = [feature for feature in needed if feature not in FEATURES]
    if unknown:
        raise UnsupportedFormat(f"{name}: needs {unknown}, which this release does not have; upgrade crdtcat")
