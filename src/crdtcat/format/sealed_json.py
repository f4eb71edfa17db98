"""Small files in JSON that carry their own checksum: settings and tags.

A file is one JSON object in one line, keys sorted, with one more key, `blake3`: the hash of the same line
without that key. So it can be read by eye and by any tool, equal values give equal bytes, and a flipped bit
is noticed before any value is used. Changing one by hand makes it invalid, on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from blake3 import blake3

from crdtcat.errors import Corrupt, LimitExceeded, UnsupportedFormat
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.limits import SETTINGS_FILE_BYTES_MAX, SETTINGS_NESTING_MAX
from crdtcat.support.object_bytes import ObjectBytes

CHECKSUM: Final = "blake3"


def seal_json(content: Mapping[str, Any]) -> bytes:
    """The file that holds `content`, which has a key `format`. Raises `LimitExceeded`: no reader takes it."""
    data = _line({**content, CHECKSUM: blake3(_line(content)).hexdigest()})
    if len(data) > SETTINGS_FILE_BYTES_MAX:
        raise LimitExceeded(
            f"settings or tag of {len(data):,} bytes; at most {SETTINGS_FILE_BYTES_MAX:,} "
            "(SETTINGS_FILE_BYTES_MAX): declare fewer columns, or smaller types"
        )
    return data


def unseal_json(data: ObjectBytes, name: str) -> dict[str, Any]:
    """The content of a file, once its checksum has been checked.

    Raises:
        Corrupt: damaged, truncated, too large, too deep, or something else.
        UnsupportedFormat: written by a newer release.
    """
    if len(data) > SETTINGS_FILE_BYTES_MAX:
        raise Corrupt(name, f"{len(data):,} bytes are over the limit of {SETTINGS_FILE_BYTES_MAX:,}")
    try:
        content = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise Corrupt(name, f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise Corrupt(name, "not a JSON object")
    if _is_nested_deeper(content, SETTINGS_NESTING_MAX):  # before anything that walks it by recursion
        raise Corrupt(name, f"nested deeper than {SETTINGS_NESTING_MAX} levels")
    number = content.get("format")
    if isinstance(number, int) and number > FORMAT_NUMBER:
        raise UnsupportedFormat(
            f"{name}: format {number}, and this release reads {FORMAT_NUMBER}; upgrade crdtcat"
        )
    checksum = content.pop(CHECKSUM, None)
    if checksum != blake3(_line(content)).hexdigest():
        raise Corrupt(name, "damaged: the content does not match its checksum")
    return content


def _is_nested_deeper(content: dict[str, Any], levels: int) -> bool:
    """Whether there are more lists and objects inside each other than so many. Level by level."""
    inside: list[Any] = [content]
    for _ in range(levels):
        items = (item.values() if isinstance(item, dict) else item for item in inside)
        inside = [inner for item in items for inner in item if isinstance(inner, dict | list)]
    return bool(inside)


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"
