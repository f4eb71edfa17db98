"""Lists of segments that may be garbage: what `garbage/` holds. Two kinds of them.

- *condemned*: "nothing referred to these when this file was stored". A collector writes one before it deletes
  anything; when the file is old enough, and still nothing refers to a segment in it, the segment goes. Such a
  list is advice that only ever delays: losing one means condemning again.
- *let go*: "these were referred to until about now". Whoever takes references away, an expiry or the deletion
  of a branch, writes one before it does. It makes older lists count for nothing, and is as good as a new one.

A file's age is what counts, by the store's clock. The file is a frame of kind "G" or "L" around the segments'
names, 24 bytes each (16 of the first chunk's hash, 8 random), rising.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtcat.errors import Corrupt
from crdtcat.format.frame import seal, unseal
from crdtcat.support.object_bytes import ObjectBytes

FOLDER: Final = "garbage/"
TITLE_BYTES: Final = 24
TITLES_MAX: Final = 100_000  # in one list: 2.4 MB


def condemned_name(unique: bytes) -> str:
    """The name of a list of condemned segments, from 8 random bytes."""
    return f"{FOLDER}{unique.hex()}.g"


def let_go_name(unique: bytes) -> str:
    """The name of a list of segments that are let go, from 8 random bytes."""
    return f"{FOLDER}{unique.hex()}.l"


def is_let_go(name: str) -> bool:
    """Whether a name is that of a list of segments that were let go."""
    return name.endswith(".l")


def encode_condemned(titles: Iterable[bytes]) -> bytes:
    """The file that holds a list of condemned segments."""
    return seal(b"G", b"".join(sorted(titles)))


def encode_let_go(titles: Iterable[bytes]) -> bytes:
    """The file that holds a list of segments that are let go."""
    return seal(b"L", b"".join(sorted(titles)))


def decode_titles(data: ObjectBytes, name: str) -> list[bytes]:
    """The segments in a list of either kind. Raises `Corrupt`, `UnsupportedFormat`."""
    body = bytes(unseal(b"L" if is_let_go(name) else b"G", data, name))
    if len(body) % TITLE_BYTES:
        raise Corrupt(name, "a segment's name is 24 bytes")
    return [body[at : at + TITLE_BYTES] for at in range(0, len(body), TITLE_BYTES)]
