"""The frame around every metadata file: magic, format number, body, BLAKE3 trailer.

::

    offset  bytes  what
    0       7      "CRDTCAT"
    7       1      kind: "V" version, "B" bundle, "G" list of condemned segments, "L" of such as were let go,
                   "T" transactions that were closed
    8       2      format number, big-endian: 1; 2 for a claim's file that carries others
    10      n      body
    10+n    32     BLAKE3 of everything before

A frame is checked whole before anything inside is looked at, so that no later code ever sees a truncated
or flipped byte. The magic and the number come first, so that a file of a newer release is refused by name
rather than reported as damaged.
"""

from __future__ import annotations

import os
from typing import Literal

from blake3 import blake3

from crdtcat.errors import Corrupt, UnsupportedFormat
from crdtcat.support.object_bytes import ObjectBytes

MAGIC = b"CRDTCAT"
FORMAT_NUMBER = 1
CARRYING_NUMBER = 2  # of kind "V": a claim's file that carries others, see crdtcat.format.carried
HEADER_BYTES = 10
TRAILER_BYTES = 32
LARGE_BYTES = 2**24  # below this, starting threads takes what they gain
THREADS_MAX = 4

Kind = Literal[b"V", b"B", b"G", b"L", b"T"]


def seal(kind: Kind, body: bytes | bytearray, number: int = FORMAT_NUMBER) -> bytes:
    """The file that holds `body`. Cost: one BLAKE3 pass and one copy."""
    framed = b"".join((MAGIC, kind, number.to_bytes(2, "big"), body))
    return framed + blake3(framed).digest()


def unseal(kind: Kind, data: ObjectBytes, name: str, expected: int = FORMAT_NUMBER) -> memoryview:
    """The body of a file, without a copy, once its trailer has been checked.

    Args:
        kind: what the caller expects to find.
        data: the whole file.
        name: the file's name, for the error.
        expected: the format number that belongs there.

    Raises:
        Corrupt: truncated, damaged, or not a file of this kind.
        UnsupportedFormat: written by a newer release.
    """
    if len(data) < HEADER_BYTES + TRAILER_BYTES:
        raise Corrupt(name, f"truncated: {len(data)} bytes are fewer than the smallest metadata file")
    if data[:7] != MAGIC:
        raise Corrupt(name, "not a crdtcat metadata file: its first bytes are not CRDTCAT")
    view = memoryview(data)
    end = len(data) - TRAILER_BYTES
    if _hash(view[:end]) != view[end:]:
        raise Corrupt(name, "damaged: the content does not match its BLAKE3 trailer")
    if data[7:8] != kind:
        raise Corrupt(name, f"holds a file of kind {bytes(data[7:8])!r} where {kind!r} belongs")
    number = int.from_bytes(data[8:10], "big")
    if number != expected and kind == b"V" and number in (FORMAT_NUMBER, CARRYING_NUMBER):
        raise Corrupt(name, f"holds a file of format {number} where format {expected} belongs")
    if number != expected:
        raise UnsupportedFormat(
            f"{name}: format {number}, and this release reads format {FORMAT_NUMBER}; upgrade crdtcat"
        )
    return view[HEADER_BYTES:end]


def _hash(data: memoryview) -> bytes:
    """BLAKE3, of large files on several cores. A pool of its own each time: one that is kept would not be
    there after a fork."""
    threads = min(THREADS_MAX, os.cpu_count() or 1) if len(data) >= LARGE_BYTES else 1
    return blake3(data, max_threads=threads).digest()


def digest(data: ObjectBytes) -> bytes:
    """The first 16 bytes of a sealed file's trailer: what its version id carries."""
    return bytes(data[-TRAILER_BYTES:-16])
