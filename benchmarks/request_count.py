"""Counts the requests in a stream of bytes, as they pass.

Of HTTP only what S3 clients send is understood: HTTP/1.1, `Content-Length` or chunked bodies, pipelined or
not. Bodies are skipped by their length, never searched. Of other protocols round trips are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import parse_qs, urlsplit

HEAD_BYTES_MAX = 1 << 16
_LENGTH = re.compile(r"^content-length:\s*(\d+)", re.IGNORECASE | re.MULTILINE)
_CODING = re.compile(r"^transfer-encoding:.*$", re.IGNORECASE | re.MULTILINE)


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
        method, target, _ = head.split(" ", 2)
        self._counts[kind(method, target)] += 1
        self._chunked = "chunked" in (_CODING.search(head) or [""])[0].lower()
        if not self._chunked and (length := _LENGTH.search(head)):
            self._pass_over(int(length[1]))
        return True

    def answered(self) -> None:
        """The server said something: not needed, as a request is known by its head."""

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
    if method != "GET" or "?" not in target:
        return method
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    in_bucket_only = parts.path.strip("/").count("/") == 0
    return "LIST" if "list-type" in query or (in_bucket_only and "prefix" in query) else "GET"


class Questions:
    """One connection of any protocol that asks and waits: how often the client spoke after it had been
    answered."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._is_answered = True

    def take(self, _: bytes) -> None:
        self._counts["QUERY"] += self._is_answered
        self._is_answered = False

    def answered(self) -> None:
        self._is_answered = True
