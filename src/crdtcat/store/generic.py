"""Objects over any other fsspec filesystem: Google Cloud Storage, Azure, and whatever else has a URL.

Only `pipe_file`, `cat_file`, `ls` and `rm_file` are used, with the cache of listings off. What one call
costs is the filesystem's affair; it is counted as one request. A put is as atomic as the filesystem's own:
object stores are, file servers often are not, and there a torn object is found by its checksum, not
prevented.

A listing is sorted here, in one page, but was read in no known order, and `lists_in_order` says so. Exclusive
creation is believed of those whose servers decide it, and is tried there too; most others look first and
write then, which a trial finds out only by luck.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fsspec.core import url_to_fs

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import InvalidArgument, StoreUnavailable
from crdtcat.store.base import Store
from crdtcat.store.exclusion import creates_exclusively
from crdtcat.store.naming import hide_secrets
from crdtcat.store.retry import RetryPolicy
from crdtcat.store.values import Data, Names, ObjectInfo, Page

_STAMPS = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")
"""Where filesystems say when a file was written; there is no agreed name."""
_EXCLUSIVE = {"gs", "gcs", "abfs", "abfss", "az"}
"""Filesystems that let the server refuse a name that is taken: gcsfs by `ifGenerationMatch=0`, adlfs by
`If-None-Match`."""


class FsspecStore(Store):
    """Objects below the URL of any fsspec filesystem. Options are those of the filesystem.

    Raises `InvalidArgument` where fsspec knows no such filesystem, or that cannot be opened so;
    `StoreUnavailable` where it connects at once, and nobody answers.
    """

    lists_in_order = False
    page_limit = 1_000_000
    _live = (*Store._live, "_connections")

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(url, storage_options, retry=retry)
        self._exclusive: bool | None = None
        self._filesystem()

    def _start(self) -> None:
        super()._start()
        self._connections: dict[int, tuple[Any, str]] = {}

    def _filesystem(self) -> tuple[Any, str]:
        """This process's filesystem and the root's path in it; connections do not survive a fork."""
        process = os.getpid()
        if process not in self._connections:
            options = {"use_listings_cache": False, "skip_instance_cache": True, **self._options}
            try:
                filesystem, root = url_to_fs(self._target, **options)
            except Exception as error:  # noqa: BLE001 (each filesystem has errors of its own for that)
                why = hide_secrets(f"{error}", {**self._options, "url": self._target})
                if isinstance(error, ConnectionError | TimeoutError):
                    raise StoreUnavailable(f"{self.url} cannot be reached: {why}; try again later") from None
                raise InvalidArgument(f"fsspec cannot open {self.url}: {why}") from None
            self._connections.setdefault(process, (filesystem, root.rstrip("/")))
        return self._connections[process]

    @property
    def place(self) -> str:
        """The URL with the first of the names that the filesystem gives its scheme."""
        scheme, separator, rest = self.url.partition("://")
        known = self._filesystem()[0].protocol
        known = (known,) if isinstance(known, str) else known
        if separator and scheme.lower() in known:
            return f"{known[0]}://{rest.rstrip('/')}"
        return super().place

    @property
    def can_create_exclusively(self) -> bool:
        """False but for filesystems known for it, which race a few exclusive creations, once."""
        if self._exclusive is None:
            protocol = self._filesystem()[0].protocol
            protocols = {protocol} if isinstance(protocol, str) else set(protocol)
            self._exclusive = not protocols.isdisjoint(_EXCLUSIVE) and creates_exclusively(self)
        return self._exclusive

    def _put(self, name: str, data: Data) -> None:
        self._pipe(name, data, "overwrite")

    def _put_if_absent(self, name: str, data: Data) -> None:
        self._pipe(name, data, "create")

    def _pipe(self, name: str, data: Data, mode: str) -> None:
        filesystem, root = self._filesystem()
        path = f"{root}/{name}"
        try:
            filesystem.pipe_file(path, bytes(data), mode=mode)
        except FileNotFoundError:  # a filesystem with real folders
            filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            filesystem.pipe_file(path, bytes(data), mode=mode)

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        filesystem, root = self._filesystem()
        limits = {"start": start, "end": stop} if start or stop is not None else {}
        return bytes(filesystem.cat_file(f"{root}/{name}", **limits))

    def _entries(self, prefix: str) -> list[dict[str, Any]]:
        filesystem, root = self._filesystem()
        try:
            found: list[dict[str, Any]] = filesystem.ls(f"{root}/{prefix}".rstrip("/"), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return found

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        objects = sorted(
            (_info(prefix, entry) for entry in self._entries(prefix) if entry.get("type") == "file"),
            key=lambda info: info.name,
        )
        wanted = [
            info for info in objects if info.name > after and not info.name[len(prefix) :].startswith(".")
        ]
        return Page(tuple(wanted[:limit]), wanted[limit - 1].name if len(wanted) > limit else None)

    def _folders(self, prefix: str) -> Names:
        entries = self._attempt("list", prefix, lambda: self._entries(prefix))
        return [_last(entry) for entry in entries if entry.get("type") == "directory"]

    def _delete(self, names: Names) -> None:
        filesystem, root = self._filesystem()

        def remove() -> None:
            for name in names:
                try:
                    filesystem.rm_file(f"{root}/{name}")
                except FileNotFoundError:
                    continue

        self._attempt("delete", names[0], remove)


def _last(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]


def _info(prefix: str, entry: dict[str, Any]) -> ObjectInfo:
    return ObjectInfo(prefix + _last(entry), int(entry.get("size") or 0), _modified_ms(entry))


def _modified_ms(entry: dict[str, Any]) -> int:
    """When the object was written; *now* where the filesystem does not say, so that it never looks old."""
    for key in _STAMPS:
        stamp = entry.get(key)
        if isinstance(stamp, str):
            try:
                stamp = datetime.fromisoformat(stamp)
            except ValueError:
                continue
        if isinstance(stamp, datetime):
            return int((stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp() * 1000)
        if isinstance(stamp, int | float):
            return int(stamp * 1000)
    return wall_ms()
