"""Lists of condemned segments: "nothing referred to these when this file was stored".

A collector writes one before it deletes anything; when the file is old enough, and still nothing refers to a
segment in it, the segment goes. The file's age is what counts, by the store's clock. A list is advice that
only ever delays: losing one means condemning again.

The file is a frame of kind "G" around the segments' names, 24 bytes each (16 of the first chunk's hash, 8
random), rising.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crdtcat.errors import Corrupt
from crdtcat.format.frame import seal, unseal

FOLDER: Final = "garbage/"
TITLE_BYTES: Final = 24
TITLES_MAX: Final = 100_000  # in one list: 2.4 MB


def condemned_name(unique: bytes) -> str:
    """The name of a list, from 8 random bytes."""
    return f"{FOLDER}{unique.hex()}.g"


def encode_condemned(titles: Iterable[bytes]) -> bytes:
    """The file that holds a list."""
    return seal(b"G", b"".join(sorted(titles)))


def decode_condemned(data: bytes, name: str) -> list[bytes]:
    """The names in a list. Raises `Corrupt`, `UnsupportedFormat`."""
    body = bytes(unseal(b"G", data, name))
    if len(body) % TITLE_BYTES:
        raise Corrupt(name, "a segment's name is 24 bytes")
    return [body[at : at + TITLE_BYTES] for at in range(0, len(body), TITLE_BYTES)]
