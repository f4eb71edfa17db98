"""Large objects of one S3 store: uploads that are under way before all of their bytes are known.

A store is told of an object's first bytes while the others are made. What is enough for parts is sent then,
and is the store's for good: whoever makes the object may let go of it, however large it becomes. What an
upload is, is in `crdtcat.store.s3_multipart`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any, Final

from crdtcat.store.begun import lost
from crdtcat.store.s3_multipart import Upload, part_size
from crdtcat.support.scattered import Scattered

UPLOADS_MAX: Final = 64
"""Who begins an object and neither puts nor forgets it must not pile them up; no more are begun early."""
Wait = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Has the event loop do something, and waits for it."""


class Uploads:
    """The uploads one process has begun, by name. Thread-safe; one thread for each name.

    Args:
        new: an upload of a name, with parts of a size.
        wait: see `Wait`.
        part_bytes: of each part but the last.
    """

    def __init__(self, new: Callable[[str, int], Upload], wait: Wait, part_bytes: int) -> None:
        self._new, self._wait, self._part_bytes = new, wait, part_bytes
        self._process = os.getpid()
        self._begun: dict[str, Upload] = {}

    def send_ahead(self, name: str, data: Scattered) -> int:
        """Send whole parts. How many of the first bytes the store has; nothing was begun if none.

        Raises what the store does, once bytes are gone: before, the put begins anew, and tells what is wrong.
        """
        upload = self._take(name, data)
        if upload is None:
            if len(self._begun) >= UPLOADS_MAX:
                return 0
            upload = self._new(name, self._part_bytes)
        try:
            self._wait(lambda: upload.send(data, last=False))
        except BaseException as error:
            self._wait(upload.abort)
            if data.gone or not isinstance(error, Exception):
                raise
            return 0
        self._begun[name] = upload
        return upload.sent

    def put(self, name: str, data: Scattered) -> None:
        """Send what was not sent, and let the object be there."""
        upload = self._take(name, data) or self._new(name, part_size(len(data), self._part_bytes))

        async def send() -> None:
            try:
                await upload.send(data, last=True)
                await upload.complete(data)
            except BaseException:
                await upload.abort()
                raise

        self._wait(send)

    def forget(self, name: str, *, abort: bool) -> None:
        """Abort an upload, if it was begun, or leave it to the bucket's rules."""
        upload = self._pop(name)
        if upload is not None and abort:
            self._wait(upload.abort)

    def _take(self, name: str, data: Scattered) -> Upload | None:
        """The upload that was begun. Raises `StoreUnavailable` if there is none and bytes are gone."""
        upload = self._pop(name)
        if upload is None and data.gone:
            raise lost(name)
        return upload

    def _pop(self, name: str) -> Upload | None:
        """A forked child leaves its parent's alone."""
        return self._begun.pop(name, None) if self._process == os.getpid() else None
