"""Where tables live while they are measured: local disk, a real S3 server, and the same server 20 ms
further away."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.engines import Entrant
from benchmarks.engines.base import Place
from benchmarks.latency_proxy import Address, Proxy, delayed
from benchmarks.postgres import postgres
from crdtcat.testing.s3_server import S3Server, real_s3

WARMING_THREADS, WARMING_PUTS = 10, 300
LOCAL, NEAR, FAR = "local disk", "S3", "S3 + 20 ms each way"
DELAY_SECONDS = 0.020
MUCH_BYTES = 2**28
Passed = tuple[Counter[str], Counter[str]]


class Server:
    """An S3 server that starts when it is first needed, is made warm once, and has one bucket. And a
    database, if anybody needs one."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._server: S3Server | None = None
        self._database: Address | None = None
        self.bucket = ""

    def database(self) -> Address:
        """A PostgreSQL server, started when it is first needed."""
        if self._database is None:
            self._database = self._stack.enter_context(postgres())
        return self._database

    def running(self) -> S3Server:
        if self._server is None:
            self._server = self._stack.enter_context(real_s3())
            self.bucket = self._server.fresh_bucket().removeprefix("s3://")
            _warm(self._server, self.bucket)
        return self._server


class Places:
    """Fresh places to put a table, and what passed the proxies on the way there."""

    def __init__(self, stack: ExitStack, server: Server) -> None:
        self._stack = stack
        self._server = server
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-bench-")))
        self._proxies: dict[Address, Proxy] = {}

    def fresh(self, kind: str, entrant: Entrant | None = None) -> Place:
        """A place of one of the three kinds that nothing else uses; with a database, as far away as the
        rows, if the entrant's catalog lives in one."""
        token = secrets.token_hex(6)
        aside = str(self._folder / token / "aside")
        database = self._server.database() if entrant and entrant.in_database else None
        if kind == LOCAL:
            return Place(aside, path=str(self._folder / token / "table"), database=database)
        server = self._server.running()
        place = Place(
            aside,
            "",
            self._server.bucket,
            f"table-{token}",
            server.endpoint_url,
            server.key,
            server.secret,
            database,
        )
        return self.far(place) if kind == FAR else place

    def far(self, place: Place) -> Place:
        """The same place, seen through proxies that delay and count; not at all on local disk."""
        if not place.is_s3:
            return place
        server = urlsplit(place.endpoint)
        endpoint = self._proxy((server.hostname or "", server.port or 0), http=True).endpoint
        database = self._proxy(place.database, http=False).address if place.database else None
        return replace(place, endpoint=endpoint, database=database)

    def _proxy(self, target: Address, *, http: bool) -> Proxy:
        if target not in self._proxies:
            self._proxies[target] = self._stack.enter_context(delayed(target, DELAY_SECONDS, http=http))
        return self._proxies[target]

    def now(self) -> Passed:
        """What passed all proxies until now: requests by kind, and bytes."""
        found: Passed = Counter(), Counter()
        for proxy in self._proxies.values():
            found[0].update(proxy.requests)
            found[1].update(proxy.traffic)
        return found

    def since(self, before: Passed) -> Passed:
        requests, traffic = self.now()
        return requests - before[0], traffic - before[1]

    def forget(self, place: Place) -> None:
        """Free the disk that a local place took, if it is much; the rest goes when the run ends.

        ext4 looks past the inodes of files that were deleted in the last minutes, one by one, whenever a file
        is made: after many small files were deleted, whoever commits next makes half as many commits."""
        folder = Path(place.aside).parent
        if sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) > MUCH_BYTES:
            shutil.rmtree(folder, ignore_errors=True)


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
