"""A loopback proxy in front of a real S3 server that notes every HTTP request that really goes by.

A store counts what it believes it asks for. Libraries below it may ask for more: a HEAD before a GET, a look
at the bucket, a directory probe. Here nothing is believed: bytes are passed on unchanged, and the request
lines in them are read on the way.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)


@dataclass
class Wire:
    """Where the proxy listens, and what went by."""

    endpoint_url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)

    def taken(self) -> list[str]:
        """Methods of the requests since the last call, listings as LIST."""
        seen, self.requests = self.requests, []
        return ["LIST" if "list-type=2" in path else method for method, path in seen]


class _Requests:
    """Reads the requests of one connection out of the bytes its client sends."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self._buffer, self._body = wire, b"", 0

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while self._buffer:
            if self._body:
                skipped = min(self._body, len(self._buffer))
                self._body -= skipped
                self._buffer = self._buffer[skipped:]
                continue
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            line = _REQUEST.match(head + b"\r\n")
            assert line is not None, head
            self._wire.requests.append((line[1].decode(), line[2].decode()))
            length = _LENGTH.search(head)
            self._body = int(length[1]) if length else 0


@contextmanager
def watched(endpoint_url: str) -> Iterator[Wire]:
    """A proxy to the server at `endpoint_url`, for as long as the block lasts."""
    host, port = endpoint_url.removeprefix("http://").split(":")
    wire = Wire()
    sockets: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire.endpoint_url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    server = socket.create_connection((host, int(port)))
                    sockets.extend((client, server))
                    requests = _Requests(wire)
                    for source, goal, feed in ((client, server, requests.feed), (server, client, None)):
                        threading.Thread(target=_copy, args=(source, goal, feed), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield wire
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in sockets:
                each.close()


def _copy(source: socket.socket, goal: socket.socket, feed: object) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if callable(feed):
                feed(data)
            goal.sendall(data)
        goal.shutdown(socket.SHUT_WR)
