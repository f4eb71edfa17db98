"""Uploading one large object to S3 in parts, several at once.

The object appears when the upload is completed, whole, and not before. An upload that fails is aborted, so
that its parts are not kept (and charged) for ever; one whose process is killed is not: give the bucket a
lifecycle rule that aborts incomplete uploads.

Requests: one to begin, one for each part, one to complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from crdtcat.scattered import Scattered
from crdtcat.store.requests import Kind
from crdtcat.store.values import Content

PART_BYTES = 16 * 2**20
PARTS_MAX = 10_000
"""S3 allows no more parts than this; larger objects get larger parts."""
PART_CONCURRENCY = 8
_T = TypeVar("_T")


class Attempt(Protocol):
    """Makes one request, counted and repeated as the store's policy says."""

    async def __call__(self, kind: Kind, name: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """Await `call` until it succeeds or shall not be repeated."""


async def upload(
    request: Callable[..., Awaitable[dict[str, Any]]],
    attempt: Attempt,
    key: str,
    data: Content,
    part_bytes: int,
) -> None:
    """Store `data` under `key`, in parts of `part_bytes` (larger if there would be too many)."""
    size = max(part_bytes, -(-len(data) // PARTS_MAX))
    begun = await attempt("put", key, lambda: request("create_multipart_upload", Key=key))
    same = {"Key": key, "UploadId": begun["UploadId"]}
    free = asyncio.Semaphore(PART_CONCURRENCY)
    whole = data if isinstance(data, Scattered) else Scattered([data])

    async def send(number: int, start: int) -> dict[str, Any]:
        async with free:
            body = b"".join(whole.between(start, start + size))
            answer = await attempt(
                "put", key, lambda: request("upload_part", PartNumber=number, Body=body, **same)
            )
        return {"PartNumber": number, "ETag": answer["ETag"]}

    tasks = [
        asyncio.ensure_future(send(number, start))
        for number, start in enumerate(range(0, len(data), size), start=1)
    ]
    try:
        parts = await asyncio.gather(*tasks)
        await attempt(
            "put",
            key,
            lambda: request("complete_multipart_upload", MultipartUpload={"Parts": parts}, **same),
        )
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(Exception):  # what failed first is what the caller must hear of
            await attempt("delete", key, lambda: request("abort_multipart_upload", **same))
        raise
