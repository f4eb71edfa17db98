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

from collections.abc import Iterable, Sequence
from typing import Final

from crdtcat.errors import Corrupt
from crdtcat.format.frame import (
    CARRYING_NUMBER,
    FORMAT_NUMBER,
    HEADER_BYTES,
    MAGIC,
    TRAILER_BYTES,
    seal,
    unseal,
)
from crdtcat.format.version import as_bytes, pack, unpack
from crdtcat.limits import CARRIED_BYTES_MAX, CARRIED_CLAIMS_MAX, VERSION_FILE_BYTES_MAX
from crdtcat.support.object_bytes import ObjectBytes

_FRAMING_BYTES: Final = 1024  # more than the frame and the list around version files take
_VERSION: Final = MAGIC + b"V" + FORMAT_NUMBER.to_bytes(2, "big")
_CARRYING: Final = MAGIC + b"V" + CARRYING_NUMBER.to_bytes(2, "big")


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


def _is_version(frame: bytes) -> bool:
    """Whether it begins as a version file does; one that carries others does not."""
    return frame.startswith(_VERSION) and len(frame) >= HEADER_BYTES + TRAILER_BYTES
