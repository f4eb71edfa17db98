"""A loopback TCP proxy that adds a fixed delay each way: a network between a client and a local server.

Bytes are delivered `delay` after they arrive, in order, without holding up those behind them, so bandwidth
is not touched, only latency. It listens on loopback, talks to loopback, and ends with its context.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlparse


@contextmanager
def delayed(endpoint: str, delay_seconds: float = 0.020) -> Iterator[str]:
    """An endpoint URL like `endpoint`, `delay_seconds` further away in each direction."""
    target = urlparse(endpoint)
    assert target.hostname in {"127.0.0.1", "localhost"}, "benchmarks talk to loopback only"
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    ports: list[int] = []

    async def serve() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
            with suppress(asyncio.CancelledError):
                await asyncio.gather(
                    _carry(reader, far_writer, delay_seconds), _carry(far_reader, writer, delay_seconds)
                )

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
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
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop)
        thread.join(5)


async def _cancel_all() -> None:
    """End every connection, and wait until each has ended."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay: float) -> None:
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def deliver() -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            sink.write(data)
            await sink.drain()
        with suppress(OSError):
            sink.close()

    delivery = asyncio.create_task(deliver())
    with suppress(OSError):
        while data := await source.read(1 << 16):
            queue.put_nowait((loop.time() + delay, data))
    queue.put_nowait((loop.time() + delay, b""))
    with suppress(OSError):
        await delivery
