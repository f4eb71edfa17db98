"""Counts the HTTP requests in a stream of bytes, as they pass. Bodies are skipped by their length, never
searched.

Only what S3 clients send is understood: HTTP/1.1, `Content-Length` or chunked bodies, pipelined or not.
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qs, urlsplit

HEAD_BYTES_MAX = 1 << 16


class RequestCount:
    """One connection, client to server. `take` every piece in order; kinds of requests go to `counts`."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._rest = b""
        self._skip = 0
        self._chunked = False

    def take(self, data: bytes) -> None:
        if self._skip >= len(data):  # the middle of a long body
            self._skip -= len(data)
            return
        self._rest += data[self._skip :]
        self._skip = 0
        while self._rest and self._step():
            pass

    def _step(self) -> bool:
        """Consume one head or one piece of a body; whether to go on."""
        if self._chunked:
            return self._chunk()
        end = self._rest.find(b"\r\n\r\n")
        if end < 0:
            if len(self._rest) > HEAD_BYTES_MAX:
                raise ValueError("this is no HTTP/1.1 request")
            return False
        head, self._rest = self._rest[:end].decode("latin-1"), self._rest[end + 4 :]
        first, *lines = head.split("\r\n")
        headers = {
            key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)
        }
        method, target, _ = first.split(" ", 2)
        self._counts[kind(method, target)] += 1
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        if not self._chunked:
            self._pass_over(int(headers.get("content-length", "0")))
        return True

    def _chunk(self) -> bool:
        end = self._rest.find(b"\r\n")
        if end < 0:
            return False
        size = int(self._rest[:end].split(b";")[0], 16)
        self._rest = self._rest[end + 2 :]
        self._chunked = size > 0
        self._pass_over(size + 2)
        return True

    def _pass_over(self, size: int) -> None:
        self._skip = max(0, size - len(self._rest))
        self._rest = self._rest[size:]


def kind(method: str, target: str) -> str:
    """PUT, GET, LIST, HEAD, DELETE, POST: a listing is a GET of a bucket."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    in_bucket_only = parts.path.strip("/").count("/") == 0
    if method == "GET" and ("list-type" in query or (in_bucket_only and "prefix" in query)):
        return "LIST"
    return method
