"""Uploading one large object to S3 in parts, several at once, and perhaps before the last is known.

The object appears when the upload is completed, whole, and not before. A part that was not clearly stored is
sent again, the same bytes under the same number; one that was stored need not be kept. Completing may be
repeated too, and where its answer stays unclear (a server that has completed an upload need not know it any
more), the object itself is looked at: nobody else has its name.

An upload that fails is aborted, so that its parts are not kept (and charged) for ever; one whose process is
killed is not: give the bucket a lifecycle rule that aborts incomplete uploads.

Requests: one to begin, one for each part, one to complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from crdtcat.errors import StoreUnavailable
from crdtcat.store.requests import Kind
from crdtcat.support.scattered import Scattered

PART_BYTES = 16 * 2**20
PARTS_MAX = 10_000
"""S3 allows no more parts than this; objects known to be larger get larger parts."""
PART_CONCURRENCY = 8
_LAST_BYTES = 2**16
"""So many tell a completed object."""
_T = TypeVar("_T")


class Attempt(Protocol):
    """Makes one request, counted and repeated as the store's policy says."""

    async def __call__(self, kind: Kind, name: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """Await `call` until it succeeds or shall not be repeated."""


class Upload:
    """One object on its way. For one task at a time.

    Args:
        request: makes one request.
        attempt: makes it as often as it takes.
        read: the object's bytes from one place to before another, one request.
        key: the object's.
        part_bytes: of each part but the last.

    Attributes:
        sent: how many of the object's first bytes the store has.
    """

    def __init__(
        self,
        request: Callable[..., Awaitable[dict[str, Any]]],
        attempt: Attempt,
        read: Callable[[int, int], Awaitable[bytes]],
        key: str,
        part_bytes: int,
    ) -> None:
        self._request, self._attempt, self._read = request, attempt, read
        self._key, self._part_bytes = key, part_bytes
        self._same: dict[str, str] | None = None
        self._parts: list[dict[str, Any]] = []
        self.sent = 0

    async def send(self, data: Scattered, *, last: bool) -> None:
        """Send what of `data` was not sent: whole parts, or all of it. Begins the upload if need be.

        After a failure it is over: abort it.
        """
        if self._same is None:
            begun = await self._put("create_multipart_upload", {"Key": self._key})
            self._same = {"Key": self._key, "UploadId": begun["UploadId"]}
        free = asyncio.Semaphore(PART_CONCURRENCY)
        size, end = self._part_bytes, len(data)
        stop = end if last else end - (end - self.sent) % size
        same = self._same

        async def send(number: int, start: int) -> dict[str, Any]:
            async with free:
                body = b"".join(data.between(start, min(start + size, stop)))
                answer = await self._put("upload_part", {"PartNumber": number, "Body": body, **same})
            return {"PartNumber": number, "ETag": answer["ETag"]}

        tasks = [
            asyncio.ensure_future(send(number, start))
            for number, start in enumerate(range(self.sent, stop, size), start=len(self._parts) + 1)
        ]
        try:
            self._parts += await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        self.sent = stop

    async def complete(self, data: Scattered) -> None:
        """Let the object be there, once all of it was sent."""
        assert self._same is not None, "an upload is begun before it is completed"
        try:
            await self._put(
                "complete_multipart_upload", {"MultipartUpload": {"Parts": self._parts}, **self._same}
            )
        except StoreUnavailable:
            if not await self._is_there(data):
                raise

    async def _is_there(self, data: Scattered) -> bool:
        """Whether the object is: its end, and nothing behind it. Only a clear answer counts."""
        start, end = max(data.gone, len(data) - _LAST_BYTES), len(data)
        last = b"".join(data.between(start))
        with suppress(Exception):
            found = await self._attempt("get", self._key, lambda: self._read(start, end + 1))
            return found == last
        return False

    async def abort(self) -> None:
        """Have the store forget the parts. One DELETE if it was begun; a failure is kept quiet."""
        same = self._same
        if same is not None:
            with suppress(Exception):  # what failed first is what the caller must hear of
                await self._attempt(
                    "delete", self._key, lambda: self._request("abort_multipart_upload", **same)
                )

    async def _put(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await self._attempt("put", self._key, lambda: self._request(operation, **arguments))


def part_size(size: int, part_bytes: int) -> int:
    """Of the parts of an object of a known size: larger if there would be too many."""
    return max(part_bytes, -(-size // PARTS_MAX))
