"""Ways to break bytes and values, and what a decoder may answer: a value, or an error of ours.

Mutations of the bytes of a sealed file are caught by its checksum, so the deeper ones are *re-sealed*: the
checksum is right and the inside is wrong, as a faulty or hostile writer would make it.
"""

from __future__ import annotations

import random
from typing import Any, Final, Literal

import msgpack

from crdtcat.format.frame import HEADER_BYTES, TRAILER_BYTES, seal

STRANGE: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**32 - 1,
    2**32,
    2**63,
    2**64 - 1,
    -(2**63),
    0.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "x",
    "\0" * 40,
    b"",
    b"\0",
    b"\xff" * 32,
    b"\0" * 36,
    [],
    [[]],
    [None],
    [1, 2, 3],
    {},
    {"": None},
    {1: 2},
    {"v": b"", "i": b"\0"},
)


def body_of(data: bytes) -> bytes:
    return data[HEADER_BYTES:-TRAILER_BYTES]


def resealed(kind: Literal[b"V", b"B"], body: bytes) -> bytes:
    return seal(kind, body)


def mutated_bytes(data: bytes, rnd: random.Random) -> bytes:
    """One to a few random edits: flips, overwrites, cuts, insertions, repetitions."""
    out = bytearray(data)
    for _ in range(rnd.randint(1, 4)):
        at = rnd.randrange(len(out) + 1)
        match rnd.randrange(6):
            case 0 if at < len(out):
                out[at] ^= 1 << rnd.randrange(8)
            case 1 if at < len(out):
                out[at] = rnd.choice((0, 0x7F, 0x80, 0xC0, 0xC6, 0xDB, 0xDD, 0xDF, 0xFF))
            case 2:
                del out[at : at + rnd.randint(1, 8)]
            case 3:
                out[at:at] = rnd.randbytes(rnd.randint(1, 8))
            case 4:
                out[at:at] = out[at : at + rnd.randint(1, 40)]
            case _:
                out[at : at + 4] = rnd.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
    return bytes(out)


def mutated_value(value: Any, rnd: random.Random) -> Any:
    """The value with one thing somewhere inside replaced, left out, doubled, or moved."""
    if isinstance(value, dict) and value and rnd.random() < 0.85:
        key = rnd.choice(list(value))
        changed = dict(value)
        match rnd.randrange(6):
            case 0:
                del changed[key]
            case 1:
                changed[rnd.choice(list(value))] = value[key]
            case _:
                changed[key] = mutated_value(value[key], rnd)
        return changed
    if isinstance(value, list) and value and rnd.random() < 0.85:
        at = rnd.randrange(len(value))
        changed_list = list(value)
        match rnd.randrange(6):
            case 0:
                del changed_list[at]
            case 1:
                changed_list.insert(at, value[at])
            case _:
                changed_list[at] = mutated_value(value[at], rnd)
        return changed_list
    if isinstance(value, bytes) and value and rnd.random() < 0.7:
        nested = _nested(value, rnd)
        return mutated_bytes(value, rnd) if nested is None else nested
    return rnd.choice(STRANGE)


def _nested(value: bytes, rnd: random.Random) -> bytes | None:
    """Packed values inside packed values are broken from the inside, too."""
    try:
        inner = msgpack.unpackb(value, strict_map_key=False)
    except (ValueError, msgpack.UnpackException):
        return None
    if not isinstance(inner, dict | list):
        return None
    try:
        packed: bytes = msgpack.packb(mutated_value(inner, rnd))
    except (ValueError, OverflowError, TypeError):
        return None
    return packed
