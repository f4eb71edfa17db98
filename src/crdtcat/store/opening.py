"""From a URL to the store that serves it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from crdtcat.errors import InvalidArgument
from crdtcat.store.base import Store
from crdtcat.store.places import require_slashes
from crdtcat.support.showing import shown

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(?:://|::)")


def open_store(url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Store:
    """The store for a path, `file://`, `memory://`, `s3://` or any other URL fsspec knows. No request.

    Args:
        url: the root below which all objects live. It need not exist; a bucket must.
        storage_options: what the filesystem needs, credentials for example. Kept for copies of the store in
            other processes, never shown.

    Raises:
        InvalidArgument: an empty URL, or one no filesystem serves, or a path that no folder can have;
            something else than a URL and a map.
        CapabilityMissing: the filesystem's package is not installed.
    """
    if not isinstance(url, str | os.PathLike):
        raise InvalidArgument(f"{shown(url)} is no place: pass a path, or a URL such as 's3://bucket/lake'")
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidArgument(
            f"storage_options is a map, such as {{'key': ...}}, not {type(storage_options).__name__}"
        )
    text = os.fspath(url)
    if not text:
        raise InvalidArgument("the URL of a store is empty: give a path or a URL such as s3://bucket/prefix")
    match = _SCHEME.match(text)
    if match is None:
        require_slashes(text)
    scheme = match[1].lower() if match else "file"
    if scheme in ("file", "local"):
        from crdtcat.store.local import LocalStore  # noqa: PLC0415 (each backend is loaded where it is used)

        return LocalStore(text, storage_options)
    if scheme == "memory":
        from crdtcat.store.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore(text, storage_options)
    if scheme in ("s3", "s3a"):
        from crdtcat.store.s3 import S3Store  # noqa: PLC0415

        return S3Store(text, storage_options)
    from crdtcat.store.generic import FsspecStore  # noqa: PLC0415

    return FsspecStore(text, storage_options)
