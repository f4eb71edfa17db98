"""A loopback TCP proxy that adds a fixed delay each way, and counts: a network between a client and a
local server.

Bytes are delivered `delay` after they arrive, in order, without holding up those behind them, so bandwidth
is not touched, only latency. It listens on loopback, talks to loopback, and ends with its context.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlparse

from benchmarks.http_count import RequestCount


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        endpoint: where it listens.
        requests: HTTP requests that went to the server, by kind.
        traffic: bytes that went `up` to the server and `down` from it.
    """

    endpoint: str
    requests: Counter[str] = field(default_factory=Counter)
    traffic: Counter[str] = field(default_factory=Counter)

    def since(self, before: tuple[Counter[str], Counter[str]]) -> tuple[Counter[str], Counter[str]]:
        return self.requests - before[0], self.traffic - before[1]

    def now(self) -> tuple[Counter[str], Counter[str]]:
        return self.requests.copy(), self.traffic.copy()


@contextmanager
def delayed(endpoint: str, delay_seconds: float = 0.020) -> Iterator[Proxy]:
    """A proxy of `endpoint`, `delay_seconds` further away in each direction."""
    target = urlparse(endpoint)
    assert target.hostname in {"127.0.0.1", "localhost"}, "benchmarks talk to loopback only"
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    proxy = Proxy("")

    async def serve() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
            count = RequestCount(proxy.requests)

            def up(data: bytes) -> None:
                count.take(data)
                proxy.traffic["up"] += len(data)

            def down(data: bytes) -> None:
                proxy.traffic["down"] += len(data)

            with suppress(asyncio.CancelledError):
                await asyncio.gather(
                    _carry(reader, far_writer, delay_seconds, up),
                    _carry(far_reader, writer, delay_seconds, down),
                )
            for side in (writer, far_writer):
                side.close()
                with suppress(OSError, asyncio.CancelledError):
                    await side.wait_closed()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        proxy.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        async with server:
            await server.serve_forever()

    def run() -> None:
        asyncio.set_event_loop(loop)
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serve())
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop)
        thread.join(5)


async def _cancel_all() -> None:
    """End every connection, and wait until each has ended."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay: float, look: Callable[[bytes], None]
) -> None:
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def deliver() -> None:
        while True:
            due, data = await queue.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            if not data:
                break
            sink.write(data)
            await sink.drain()
        with suppress(OSError):
            sink.close()

    delivery = asyncio.create_task(deliver())
    with suppress(OSError):
        while data := await source.read(1 << 16):
            look(data)
            queue.put_nowait((loop.time() + delay, data))
    queue.put_nowait((loop.time() + delay, b""))
    with suppress(OSError):
        await delivery
