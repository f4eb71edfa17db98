"""File names of a log, and the order they give a listing.

Version names begin with a hexadecimal digit, bundle names with `z` and their rank: in any listing by name
versions come first, then bundles by rising rank. A bundle's rank is greater than that of any it replaces.
So whatever was deleted before a page was read is covered by something on a later page.
"""

from __future__ import annotations

import re
from typing import Final

from crdtcat.clock import VersionId

TRANSACTIONS: Final = "transactions/"
_BUNDLE = re.compile(r"z([0-9]{8})-[0-9a-f]{32}\.b")
_VERSION = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-f]{32}\.v")


def version_name(folder: str, id: VersionId) -> str:
    """The name of a version file."""
    return f"{folder}{id}.v"


def bundle_name(folder: str, rank: int, hash: bytes) -> str:
    """The name of a bundle file; `hash` is the digest of the file, 16 bytes."""
    return f"{folder}z{rank:08d}-{hash.hex()}.b"


def mark_name(folder: str) -> str:
    """The file in a log's folder that says: transactions may touch this log. Stored before the first that
    does, and never deleted."""
    return f"{folder}transacted"


def last(name: str) -> str:
    """The part after the last slash."""
    return name.rsplit("/", 1)[-1]


def is_version(name: str) -> bool:
    """Whether a name is a version file's; other names in a log folder are nobody's and are passed over."""
    return _VERSION.fullmatch(last(name)) is not None


def is_bundle(name: str) -> bool:
    """Whether a name is a bundle file's."""
    return _BUNDLE.fullmatch(last(name)) is not None


def bundle_rank(name: str) -> int:
    """The rank in a bundle's name."""
    match = _BUNDLE.fullmatch(last(name))
    if match is None:
        raise ValueError(f"{name} is not a bundle")
    return int(match[1])
