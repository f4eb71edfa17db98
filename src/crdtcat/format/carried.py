"""Files of claims that carry the claims before them.

A claim's file is a version file. Whoever has met others lately stores more in it: after its own version file
those of the claims right below its number, the highest first, each as it was under its own name. So whoever
reads the newest claim has those before it for the same request. Version files in it are what they are
elsewhere, to the byte: ids, digests and clocks know nothing of it.

::

    offset  bytes  what
    0       7      "CRDTCAT"
    7       1      "V"
    8       2      2, big-endian
    10      n      MessagePack list of version files, as bytes: its own, then those carried
    10+n    32     BLAKE3 of everything before

The number is what tells it from a version file, so that a release that reads only those says that it is too
old, and not that the file is damaged. `own_frame` is what everybody asks who wants a claim's version. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt, DataError
from crdtcat.format.frame import (
    CARRYING_NUMBER,
    FORMAT_NUMBER,
    HEADER_BYTES,
    MAGIC,
    TRAILER_BYTES,
    seal,
    unseal,
)
from crdtcat.format.version import as_bytes, decode_version, pack, unpack
from crdtcat.limits import CARRIED_BYTES_MAX, CARRIED_CLAIMS_MAX, VERSION_FILE_BYTES_MAX
from crdtcat.support.object_bytes import ObjectBytes

_FRAMING_BYTES: Final = 1024  # more than the frame and the list around version files take
_VERSION: Final = MAGIC + b"V" + FORMAT_NUMBER.to_bytes(2, "big")
_CARRYING: Final = MAGIC + b"V" + CARRYING_NUMBER.to_bytes(2, "big")


class Link(NamedTuple):
    """A claim in the chain of claims.

    Attributes:
        id: by which a later one names it; `None`: it holds nothing that can be named.
        follows: the id that it names itself; `None`: it names none.
        may_be_void: whether later ones name it only if a decision says that it counts.
    """

    id: bytes | None
    follows: bytes | None
    may_be_void: bool = False


def carrying(own: bytes, below: Iterable[ObjectBytes]) -> bytes:
    """The file of a claim that carries version files of those right below it, the highest first.

    As many as limits allow, from the highest on; where that is none, the version file itself.
    """
    carried: list[bytes] = []
    room = min(CARRIED_BYTES_MAX, VERSION_FILE_BYTES_MAX - _FRAMING_BYTES - len(own))
    for frame in below:
        room -= len(frame)
        if room < 0 or len(carried) == CARRIED_CLAIMS_MAX:
            break
        carried.append(bytes(frame))
    return seal(b"V", pack([own, *carried]), CARRYING_NUMBER) if carried else own


def own_frame(data: ObjectBytes, name: str) -> ObjectBytes:
    """The version file of a claim, whether or not its file carries others. Raises as `frames_of` does."""
    return frames_of(data, name)[0]


def frames_of(data: ObjectBytes, name: str) -> Sequence[ObjectBytes]:
    """The version file of a claim, and those that its file carries: of the numbers below it, downwards.

    What a claim's file holds that is no carrying one is taken for its version file, and checked by whoever
    decodes that, as each of these is. Raises:
        Corrupt: truncated, damaged, or holding what no claim's file does.
    """
    if bytes(data[:HEADER_BYTES]) != _CARRYING:
        return (data,)
    if len(data) > VERSION_FILE_BYTES_MAX:
        raise Corrupt(name, f"{len(data):,} bytes are over the limit of {VERSION_FILE_BYTES_MAX:,}")
    frames = unpack(unseal(b"V", data, name, CARRYING_NUMBER), name)
    try:
        held = [as_bytes(frame) for frame in frames]
    except TypeError as error:
        raise Corrupt(name, "carries something else than version files") from error
    if not 2 <= len(held) <= 1 + CARRIED_CLAIMS_MAX:
        raise Corrupt(name, f"holds {len(held)} version files, where 2 to {1 + CARRIED_CLAIMS_MAX} may be")
    if any(not _is_version(frame) for frame in held):
        raise Corrupt(name, "carries something else than version files")
    if (size := sum(map(len, held[1:]))) > CARRIED_BYTES_MAX:
        raise Corrupt(name, f"carries {size:,} bytes, over the limit of {CARRIED_BYTES_MAX:,}")
    return held


def proven_frames(data: ObjectBytes, name: str) -> Sequence[ObjectBytes]:
    """As `frames_of`, without what is not known to be the log's: carried ones from the first on that another
    one is named in the place of. Claims of transactions are not named if these were aborted."""
    frames, follows = frames_of(data, name), None
    for at, frame in enumerate(frames if len(frames) > 1 else ()):
        try:
            link = link_of(*decode_version(frame, name))
        except DataError:
            return frames[: max(1, at)]  # whoever reads it where it belongs says what is wrong with it
        if at and follows is not None and link.id != follows:
            if link.may_be_void:
                continue
            return frames[:at]
        follows = link.follows or follows
    return frames


def link_of(id: VersionId, body: Mapping[str, Any]) -> Link:
    """What a claim's version file says of the chain. Raises `Corrupt` for parts that are no version files."""
    if "t" not in body:
        return Link(id.to_bytes(), body.get("p"))
    held, folder = body["t"], body.get("l")
    parts = held.get(folder) if isinstance(held, dict) and isinstance(folder, str) else None
    if not isinstance(parts, list) or not parts:
        return Link(None, None, may_be_void=True)
    if not all(isinstance(part, bytes) for part in parts):
        raise Corrupt(str(id), "the parts of a transaction are version files")
    (_, first), (last, _) = (decode_version(part, str(id)) for part in (parts[0], parts[-1]))
    return Link(last.to_bytes(), first.get("p"), may_be_void=True)


def _is_version(frame: bytes) -> bool:
    """Whether it begins as a version file does; one that carries others does not."""
    return frame.startswith(_VERSION) and len(frame) >= HEADER_BYTES + TRAILER_BYTES
