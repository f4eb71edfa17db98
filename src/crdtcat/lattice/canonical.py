"""One byte string per value: MessagePack with everything that could vary pinned down.

Theory. Replicas compare hashes, so equal values must have equal bytes on every machine. MessagePack leaves
open the order of map keys; here keys are sorted by their own encoding. Not-a-number has one bit pattern,
integers take the shortest form, text is UTF-8, tuples (so version ids too) are arrays. In the other
direction, values that Python calls equal but that are different data (`True`, `1` and `1.0`; `0.0` and
`-0.0`) have different bytes, and the lattices compare by bytes, so nothing is ever merged by accident.

Pure: no I/O, no Arrow, no numpy. It only writes; reading bytes back is the business of the format layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgpack

from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown

NESTING_MAX = 64
"""Containers within containers; deeper values are refused rather than overflowing somebody's stack."""


def canonical_bytes(value: Any) -> bytes:
    """The only encoding of `value`: None, bool, int, float, str, bytes, list, tuple or mapping of those.

    Cost: O(size), plus sorting the keys of each mapping. Lists and tuples encode alike.

    Raises:
        InvalidArgument: another type, an integer beyond 64 bits, nesting deeper than `NESTING_MAX`, text
            that is not valid Unicode, or a mapping key that is not an int, str, bytes or tuple of those.
    """
    packer = msgpack.Packer(use_bin_type=True, autoreset=False)
    try:
        _pack(packer, value, NESTING_MAX)
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"a value cannot be encoded: {error}; integers go up to 64 bits") from error
    return bytes(packer.bytes())


def key_bytes(key: Any) -> bytes:
    """The encoding of a mapping key, writer id or dot.

    Raises:
        InvalidArgument: a bool or float (Python takes `1`, `True` and `1.0` for one key), or another type
            that has no canonical bytes.
    """
    _check_key(key, NESTING_MAX)
    return canonical_bytes(key)


def _check_key(key: Any, depth: int) -> None:
    if isinstance(key, tuple) and depth:
        for part in key:
            _check_key(part, depth - 1)
    elif isinstance(key, bool) or not isinstance(key, int | str | bytes):
        raise InvalidArgument(
            f"{shown(key)} cannot be a key: use an int, str, bytes or a tuple of those"
            if depth
            else f"a key is nested deeper than {NESTING_MAX} levels; flatten it"
        )


def _pack(packer: msgpack.Packer, value: Any, depth: int) -> None:
    if value is None or isinstance(value, bool | int | str | bytes):
        packer.pack(value)
    elif isinstance(value, float):
        packer.pack(math.nan if math.isnan(value) else value)
    elif depth == 0:
        raise InvalidArgument(f"a value is nested deeper than {NESTING_MAX} levels; flatten it")
    elif isinstance(value, list | tuple):
        packer.pack_array_header(len(value))
        for item in value:
            _pack(packer, item, depth - 1)
    elif isinstance(value, Mapping):
        packer.pack_map_header(len(value))
        for key in sorted(value, key=key_bytes):
            _pack(packer, key, depth - 1)
            _pack(packer, value[key], depth - 1)
    else:
        raise InvalidArgument(f"a value of type {type(value).__name__} has no canonical bytes")
