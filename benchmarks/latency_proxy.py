"""A TCP proxy on loopback that delivers every byte later, in both directions, and counts what passes.

What arrives is put off to its moment and delivered in order, without holding up what comes behind it, so
bandwidth is not touched, only latency. Everything waits equally long, so one queue is enough for all
connections, and one thread with one `epoll`: whoever is measured shares the processor with it. It listens on
loopback, talks to loopback, and ends with its context.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from benchmarks.request_count import Questions, RequestCount

PIECE_BYTES = 1 << 18
Address = tuple[str, int]


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        address: where it listens.
        requests: what was asked of the server, by kind: HTTP requests, or `QUERY` for every time that
            the client spoke and waited.
        traffic: bytes that went `up` to the server and `down` from it.
    """

    address: Address
    requests: Counter[str] = field(default_factory=Counter)
    traffic: Counter[str] = field(default_factory=Counter)

    @property
    def endpoint(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"


@contextmanager
def delayed(target: Address, delay_seconds: float = 0.020, *, http: bool = True) -> Iterator[Proxy]:
    """A proxy of the server at `target`, `delay_seconds` further away in each direction."""
    assert target[0] in {"127.0.0.1", "localhost"}, "benchmarks talk to loopback only"
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        proxy = Proxy(listener.getsockname()[:2])
        loop = _Loop(listener, target, delay_seconds, proxy, http=http)
        thread = threading.Thread(target=loop.run, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            loop.end()
            thread.join(5)


class _Side:
    """One end of a connection.

    Attributes:
        take: sees what this end says.
        far: the end that is told what this one says.
        unsent: what was due and did not fit.
        is_read: whether it may still say something.
        is_ended: whether everything it will ever be told has arrived here.
        is_watched: whether `epoll` knows it.
    """

    def __init__(self, sock: socket.socket, take: Callable[[bytes], None]) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.number = sock, sock.fileno()
        self.take = take
        self.far: _Side = self
        self.unsent = bytearray()
        self.is_read, self.is_ended, self.is_watched = True, False, False

    @property
    def events(self) -> int:
        return (select.EPOLLIN if self.is_read else 0) | (select.EPOLLOUT if self.unsent else 0)


class _Loop:
    """The thread's work: read what is there, deliver what is due."""

    def __init__(
        self, listener: socket.socket, target: Address, delay: float, proxy: Proxy, *, http: bool
    ) -> None:
        self._listener, self._target, self._delay, self._proxy = listener, target, delay, proxy
        self._http = http
        self._sides: dict[int, _Side] = {}
        self._queue: deque[tuple[float, _Side, bytes]] = deque()
        self._poll = select.epoll()
        self._waker, self._woken = socket.socketpair()
        listener.setblocking(False)
        self._poll.register(listener, select.EPOLLIN)
        self._poll.register(self._woken, select.EPOLLIN)

    def end(self) -> None:
        """From another thread: no further byte is carried."""
        self._waker.close()

    def run(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            for sock in (self._woken, *(side.sock for side in self._sides.values())):
                sock.close()
            self._poll.close()

    def _turn(self) -> bool:
        """Wait for something to read, to send or to deliver, and do it; whether to go on."""
        left = max(0.0, self._queue[0][0] - time.monotonic()) if self._queue else None
        for number, event in self._poll.poll(left):
            if side := self._sides.get(number):
                if event & select.EPOLLOUT:
                    self._send(side)
                if event & ~select.EPOLLOUT and side.is_read:
                    self._read(side)
            elif number == self._listener.fileno():
                self._accept()
            elif number == self._woken.fileno():
                return False
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, side, data = self._queue.popleft()
            self._deliver(side, data)
        return True

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:  # it left before it was let in
            return
        try:
            far = socket.create_connection(self._target)
        except OSError:  # the server is gone, and so is this
            near.close()
            return
        count = RequestCount if self._http else Questions
        one, other = self._counted(near, far, count(self._proxy.requests))
        one.far, other.far = other, one
        for side in (one, other):
            self._sides[side.number] = side
            self._watch(side)

    def _counted(
        self, near: socket.socket, far: socket.socket, count: RequestCount | Questions
    ) -> tuple[_Side, _Side]:
        traffic = self._proxy.traffic

        def up(data: bytes) -> None:
            count.take(data)
            traffic["up"] += len(data)

        def down(data: bytes) -> None:
            count.answered()
            traffic["down"] += len(data)

        return _Side(near, up), _Side(far, down)

    def _read(self, side: _Side) -> None:
        try:
            data = side.sock.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            side.take(data)
        else:
            side.is_read = False
            self._watch(side)
        self._queue.append((time.monotonic() + self._delay, side.far, data))

    def _deliver(self, side: _Side, data: bytes) -> None:
        """What is due now; nothing is the end."""
        side.is_ended = not data
        if side.unsent or not data:
            side.unsent += data
            self._send(side)
            return
        try:
            sent = side.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:  # it left: there is nobody to tell
            sent = len(data)
        if sent < len(data):
            side.unsent += data[sent:]
            self._watch(side)

    def _send(self, side: _Side) -> None:
        """What did not fit before; and the end, after it."""
        try:
            if side.unsent:
                del side.unsent[: side.sock.send(side.unsent)]
        except BlockingIOError:
            return
        except OSError:
            side.unsent.clear()
        if side.is_ended and not side.unsent:
            with suppress(OSError):
                side.sock.shutdown(socket.SHUT_WR)
        self._watch(side)

    def _watch(self, side: _Side) -> None:
        """Wait for what is still to come; close both ends when nothing is, on either."""
        if side.events and side.is_watched:
            self._poll.modify(side.number, side.events)
        elif side.events:
            self._poll.register(side.number, side.events)
        elif side.is_watched:
            self._poll.unregister(side.number)
        side.is_watched = bool(side.events)
        pair = (side, side.far)
        if all(one.is_ended and not one.unsent for one in pair):
            for one in pair:
                del self._sides[one.number]
                one.sock.close()
