"""Where tables live while they are measured: local disk, a real S3 server, and the same server 20 ms
further away."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from benchmarks.engines.base import Place
from benchmarks.latency_proxy import Proxy, delayed
from crdtcat.testing.s3_server import S3Server, real_s3

WARMING_THREADS, WARMING_PUTS = 10, 300
LOCAL, NEAR, FAR = "local disk", "S3", "S3 + 20 ms each way"


class Server:
    """An S3 server that starts when it is first needed, is made warm once, and has one bucket."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._server: S3Server | None = None
        self.bucket = ""

    def running(self) -> S3Server:
        if self._server is None:
            self._server = self._stack.enter_context(real_s3())
            self.bucket = self._server.fresh_bucket().removeprefix("s3://")
            _warm(self._server, self.bucket)
        return self._server


class Places:
    """Fresh places to put a table."""

    def __init__(self, stack: ExitStack, server: Server, delay_seconds: float = 0.020) -> None:
        self._stack = stack
        self._server = server
        self._delay = delay_seconds
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-bench-")))
        self._proxies: dict[float, Proxy] = {}

    def fresh(self, kind: str) -> Place:
        """A place of one of the three kinds that nothing else uses."""
        token = secrets.token_hex(6)
        aside = str(self._folder / token / "aside")
        if kind == LOCAL:
            return Place(aside, path=str(self._folder / token / "table"))
        server = self._server.running()
        place = Place(
            aside, "", self._server.bucket, f"table-{token}", server.endpoint_url, server.key, server.secret
        )
        return self.far(place) if kind == FAR else place

    def far(self, place: Place, delay_seconds: float | None = None) -> Place:
        """The same place, seen through a proxy that delays (and counts); not at all on local disk."""
        return replace(place, endpoint=self.proxy(delay_seconds).endpoint) if place.is_s3 else place

    def proxy(self, delay_seconds: float | None = None) -> Proxy:
        delay = self._delay if delay_seconds is None else delay_seconds
        if delay not in self._proxies:
            endpoint = self._server.running().endpoint_url
            self._proxies[delay] = self._stack.enter_context(delayed(endpoint, delay))
        return self._proxies[delay]

    def forget(self, place: Place) -> None:
        """Free the disk that a local place took."""
        shutil.rmtree(Path(place.aside).parent, ignore_errors=True)


def _warm(server: S3Server, bucket: str) -> None:
    """The server makes volumes when they are first needed: whoever is measured first must not pay for it."""
    client = server.client()
    with ThreadPoolExecutor(WARMING_THREADS) as threads:
        for number in range(WARMING_PUTS):
            threads.submit(client.put_object, Bucket=bucket, Key=f"warm/{number}", Body=bytes(20_000))
    client.close()


_shared: list[Server] = []


@contextmanager
def one_server() -> Iterator[None]:
    """All suites in this block use one S3 server: starting one and making it warm takes seconds."""
    with ExitStack() as stack:
        _shared.append(Server(stack))
        try:
            yield
        finally:
            _shared.pop()


@contextmanager
def places() -> Iterator[Places]:
    with nullcontext() if _shared else one_server(), ExitStack() as stack:
        yield Places(stack, _shared[-1])
