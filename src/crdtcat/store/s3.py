"""Objects in an S3 bucket, each operation exactly the requests it names.

s3fs is used for its session, its credentials and its event loop; the requests themselves are made one by
one, so that a put is one PUT, a get one GET and a page one LIST, with no probes of buckets or folders
before them. The retries of the layers below are switched off for the same reason: those of `Store` are
counted, theirs would not be. What is asked most, objects and pages, is asked for the short way
(`crdtcat.store.s3_short`).

Each process builds its own connection where it is first used, because event loops and sockets do not
survive a fork. The server's clock is learned from the `Date` of every answer.

Buckets are never created or looked for. Directory buckets (S3 Express) list in no order and are refused.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from fsspec.asyn import sync

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import CapabilityMissing, InvalidArgument, Missing
from crdtcat.store import naming, s3_faults, s3_short, values
from crdtcat.store.base import Store
from crdtcat.store.exclusion import creates_exclusively
from crdtcat.store.requests import Kind
from crdtcat.store.retry import Fault, RetryPolicy
from crdtcat.store.s3_connection import client_of, connect, import_s3fs
from crdtcat.store.s3_multipart import PART_BYTES, Upload
from crdtcat.store.s3_uploads import Uploads
from crdtcat.store.skew import SkewEstimate, moment_ms
from crdtcat.store.values import Answers, Content, Data, Names, NameTaken, ObjectInfo, Page, Range
from crdtcat.support.scattered import Scattered

DELETE_NAMES_MAX = 1000
"""The most names one multi-object delete may carry."""
_DATE_RESOLUTION_MS = 1000
_URL = re.compile(r"s3a?://([^/?#@]+)(?:/([^?#]*))?")
_T = TypeVar("_T")


class S3Store(Store):
    """Objects below `s3://bucket/prefix`. Options are those of `s3fs.S3FileSystem`.

    Raises `InvalidArgument` for a URL of another shape, `CapabilityMissing` without s3fs.
    """

    _live = (*Store._live, "_connections", "_skew", "_uploads")

    def __init__(
        self,
        url: str,
        storage_options: Mapping[str, Any] | None = None,
        *,
        retry: RetryPolicy | None = None,
        multipart_bytes: int = values.MULTIPART_BYTES,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._part_bytes = part_bytes
        super().__init__(url, storage_options, retry=retry, multipart_bytes=multipart_bytes)
        match = _URL.fullmatch(url)
        if match is None:
            raise InvalidArgument(naming.why_no_bucket(url))
        self._bucket = match[1]
        path = (match[2] or "").strip("/")
        naming.check_path(self.url, path)
        self._root = f"{path}/" if path else ""
        self._exclusive: bool | None = None
        if self._bucket.endswith("--x-s3"):
            raise CapabilityMissing(
                f"{self.url} is a directory bucket, which lists in no order; use a general purpose bucket"
            )
        import_s3fs()

    @property
    def place(self) -> str:
        """`s3://bucket/prefix`, also where it was called `s3a`."""
        return f"s3://{self._bucket}/{self._root}".rstrip("/")

    def _start(self) -> None:
        super()._start()
        self._connections: dict[int, Any] = {}
        self._skew = SkewEstimate()
        self._uploads = Uploads(self._upload, self._wait, self._part_bytes)

    @property
    def can_create_exclusively(self) -> bool:
        """True on AWS. Other servers are asked once: two PUTs, two GETs, one DELETE."""
        if self._exclusive is None:
            client = self._wait(self._filesystem().set_session)
            host = str(client.meta.endpoint_url).split("://")[-1].split("/")[0].split(":")[0]
            aws = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
            self._exclusive = aws or creates_exclusively(self, rounds=1, racers=1)
        return self._exclusive

    def skew_ms(self) -> int | None:
        """The server's clock minus this machine's."""
        return self._skew.milliseconds

    # Requests.

    def _filesystem(self) -> Any:
        process = os.getpid()
        if process not in self._connections:
            # A parent's connection stays referenced, so that no finalizer of it runs in a child.
            self._connections.setdefault(process, connect(self._options))
        return self._connections[process]

    def _wait(self, function: Callable[..., Coroutine[Any, Any, _T]], *arguments: Any) -> _T:
        answer: _T = sync(self._filesystem().loop, function, *arguments)
        return answer

    async def _request(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One request of botocore's, the short way if there is one. The body of an object is bytes then."""
        filesystem = self._filesystem()
        client = await client_of(filesystem)
        ways, key = filesystem.ways, (self._bucket, operation)
        way = s3_short.way_to(ways, self._bucket, operation, client)
        sent_ms = wall_ms()
        if way is not None and s3_short.takes(arguments):
            try:
                answer = await s3_short.answer(client, way, operation, arguments)
            except s3_short.NotThisWay as left:
                if left.again:
                    ways.pop(key, None)
                else:
                    ways[key] = None
                self.requests.add(s3_short.OPERATIONS[operation])
            else:
                self._learn_clock(answer, sent_ms)
                return answer
        special = filesystem.s3_additional_kwargs or filesystem.req_kw
        known = special or operation not in s3_short.OPERATIONS or key in ways
        noted = s3_short.noted(wanted=not known)
        found: dict[str, Any] = await filesystem._call_s3(
            operation, filesystem.s3_additional_kwargs, filesystem.req_kw, Bucket=self._bucket, **arguments
        )
        if noted:
            ways[key] = s3_short.Way.learned(noted[-1], arguments)
        self._learn_clock(found, sent_ms)
        return found

    def _learn_clock(self, answer: dict[str, Any], sent_ms: int) -> None:
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        date_ms = None if date is None else moment_ms(date)
        if date_ms is not None:
            self._skew.observe(date_ms, _DATE_RESOLUTION_MS, sent_ms, wall_ms())

    async def attempt(self, kind: Kind, name: str, call: Callable[[], Awaitable[_T]]) -> _T:
        """`_attempt` for requests that are under way together on the event loop."""
        failures = 0
        while True:
            self.requests.add(kind)
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 (translated like every other)
                failures += 1
                pause = self._after_failure(kind, name, failures, error)
            await asyncio.sleep(pause)

    def _classify(self, error: Exception) -> Fault:
        return s3_faults.classify(error)

    # Operations.

    def _put(self, name: str, data: Data) -> None:
        async def put() -> None:
            await self._request("put_object", Key=self._root + name, Body=bytes(data))

        self._wait(put)

    def write_ahead(self, name: str, data: Scattered) -> int:
        """Sends whole parts of what will be uploaded in parts: requests of the put, made early."""
        return self._uploads.send_ahead(name, data) if len(data) > self.multipart_bytes else 0

    def forget(self, name: str, *, requests: bool = True) -> None:
        """Aborts its upload, if one was begun: one DELETE."""
        self._uploads.forget(name, abort=requests)

    def _put_large(self, name: str, data: Content) -> None:
        self._uploads.put(name, data if isinstance(data, Scattered) else Scattered([data]))

    def _upload(self, name: str, part_bytes: int) -> Upload:
        read = partial(self._fetch, name)
        return Upload(self._request, self.attempt, read, self._root + name, part_bytes)

    def _put_if_absent(self, name: str, data: Data) -> None:
        async def put() -> None:
            await self._request("put_object", Key=self._root + name, Body=bytes(data), IfNoneMatch="*")

        try:
            self._wait(put)
        except Exception as error:
            if s3_faults.says_taken(error):
                raise NameTaken(name) from error
            raise

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        return self._wait(self._fetch, name, start, stop)

    def _get_many(self, ranges: Sequence[Range]) -> Answers:
        async def fetch_all() -> Answers:
            free = asyncio.Semaphore(values.GET_CONCURRENCY)

            async def fetch(name: str, start: int, stop: int | None) -> bytes | None:
                async with free:
                    try:
                        data = await self.attempt("get", name, lambda: self._fetch(name, start, stop))
                    except Missing:
                        return None
                self.requests.add(bytes_in=len(data))
                return data

            return list(await asyncio.gather(*(fetch(*each) for each in ranges)))

        return self._wait(fetch_all)

    async def _fetch(self, name: str, start: int, stop: int | None) -> bytes:
        part = {}
        if start or stop is not None:
            part["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        try:
            answer = await self._request("get_object", Key=self._root + name, **part)
        except Exception as error:
            if s3_faults.status(error) == s3_faults.RANGE_NOT_SATISFIABLE:  # it begins behind the end
                return b""
            raise
        body = answer["Body"]
        data: bytes = body if isinstance(body, bytes) else await _all_of(body)
        whole = answer["ResponseMetadata"]["HTTPStatusCode"] == s3_faults.OK
        return data[start:stop] if part and whole else data

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        more = {"StartAfter": self._root + after} if after else {}
        answer = self._wait(self._list, prefix, limit, more)
        keys = [entry for entry in answer.get("Contents", ()) if not entry["Key"].endswith("/")]
        objects = tuple(self._info(entry) for entry in keys)
        if not answer.get("IsTruncated"):
            return Page(objects, None)
        if objects:
            return Page(objects, objects[-1].name)
        folders = [entry["Prefix"] for entry in answer.get("CommonPrefixes", ())]
        markers = [entry["Key"] for entry in answer.get("Contents", ())]  # empty objects consoles make
        return Page((), max(folders + markers)[len(self._root) :] + naming.beyond(foreign=self.foreign))

    def _info(self, entry: dict[str, Any]) -> ObjectInfo:
        modified: datetime = entry["LastModified"]
        name = entry["Key"][len(self._root) :]
        return ObjectInfo(name, entry["Size"], int(modified.astimezone(UTC).timestamp() * 1000))

    def _folders(self, prefix: str) -> Names:
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            answer = self._attempt(
                "list",
                prefix,
                lambda: self._wait(self._list, prefix, self.page_limit, more),  # noqa: B023
            )
            found.extend(entry["Prefix"] for entry in answer.get("CommonPrefixes", ()))
            if not answer.get("IsTruncated"):
                return [each[len(self._root + prefix) : -1] for each in found]
            more = {"ContinuationToken": answer["NextContinuationToken"]}

    async def _list(self, prefix: str, limit: int, more: dict[str, str]) -> dict[str, Any]:
        return await self._request(
            "list_objects_v2", Prefix=self._root + prefix, Delimiter="/", MaxKeys=limit, **more
        )

    def _delete(self, names: Names) -> None:
        for start in range(0, len(names), DELETE_NAMES_MAX):
            batch = names[start : start + DELETE_NAMES_MAX]
            self._attempt("delete", batch[0], lambda: self._wait(self._delete_batch, batch))  # noqa: B023

    async def _delete_batch(self, names: Names) -> None:
        if len(names) == 1:
            await self._request("delete_object", Key=self._root + names[0])
            return
        keys = [{"Key": self._root + name} for name in names]
        answer = await self._request("delete_objects", Delete={"Objects": keys, "Quiet": True})
        s3_faults.raise_for_deletions(answer.get("Errors", ()))


async def _all_of(stream: Any) -> bytes:
    async with stream as body:
        data: bytes = await body.read()
    return data
