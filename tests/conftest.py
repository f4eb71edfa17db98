"""Fixtures for everybody: a real S3 server and a mocked one, both on loopback, and a clock."""

from __future__ import annotations

import ast
import gc
import os
import secrets
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from crdtcat.store import memory
from crdtcat.testing.s3_server import S3Server, real_s3
from tests.bounds import given_time
from tests.clocks import HandClock

# A change lands or not by what it changed: CI draws the same examples every time. Elsewhere they are new.
# How long an example takes says nothing: the machine may be busy.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("anywhere", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")


pytest.register_assert_rewrite("crdtcat.testing.store_conformance", "crdtcat.testing.store_concurrency")


SESSIONS = {"spark", "registered"}
"""Fixtures that are a Spark session."""


@lru_cache
def with_session(file: str) -> frozenset[str]:
    """The tests of a file that take the Spark session, by name: read, since who deals out imports nothing."""
    tree = ast.parse((Path(__file__).parents[1] / file).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return frozenset(node.name for node in functions if SESSIONS & {arg.arg for arg in node.args.args})


class OneForSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Test by test to whichever process is free; those on Spark all to one, which has the only session."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        on_spark = file.startswith("tests/spark/") and name.partition("[")[0] in with_session(file)
        return "spark" if on_spark else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> OneForSpark:
    """Deal tests out to processes. What has most tests in it goes first, and that is Spark."""
    return OneForSpark(config, log)


def pytest_collectstart() -> None:
    """What is collected, nearly ten thousand tests, stays until the end: there is no garbage to look for."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """How long each may take."""
    given_time(items)


def pytest_collection_finish() -> None:
    """Have the garbage collector pass by what stays: to look through that again and again takes as long as a
    tenth of the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Where tests of the proofs ran: which parts of the proofs were left out, and why."""
    passed = [report.nodeid for report in terminalreporter.stats.get("passed", ())]
    if not any(test.startswith("tests/proofs/") for test in passed):
        return
    from proofs.left_out import left_out  # noqa: PLC0415 - for these runs only
    from tests.bounds import FULL  # noqa: PLC0415

    models = sum(test.startswith("tests/proofs/test_tla.py::test_a_model") for test in passed)
    terminalreporter.section("left out of the proofs here")
    for what, why in left_out(full=FULL, models_run=models):
        terminalreporter.write_line(f"{what} ({why})")


@pytest.fixture(autouse=True)
def emptied_memory() -> Iterator[None]:
    """What a test leaves in `memory://` goes with it: all that is one dict, which every listing reads."""
    files = fsspec.filesystem("memory").store
    before = set(files)
    yield
    with memory._lock:
        for path in files.keys() - before:
            del files[path]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A real S3 server (SeaweedFS), one for each test process. Mark what uses it with `s3`."""
    with real_s3() as server:
        yield server


@pytest.fixture(scope="session")
def moto_server() -> Iterator[S3Server]:
    """A mocked S3 server: quick and countable, but no proof of exclusion."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (slow to import, and few tests need it)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(f"http://{host}:{port}", "moto-key-id", "moto-secret-value")
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3_bucket(s3_server: S3Server) -> str:
    """The URL of one bucket on the real server, for everybody."""
    return s3_server.fresh_bucket()


@pytest.fixture
def s3_url(s3_bucket: str) -> str:
    """A prefix on the real server that nothing else uses."""
    return f"{s3_bucket}/prefix-{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def moto_bucket(moto_server: S3Server) -> str:
    """The URL of one bucket on the mocked server, for everybody."""
    return moto_server.fresh_bucket()


@pytest.fixture
def moto_url(moto_bucket: str) -> str:
    """A prefix on the mocked server that nothing else uses."""
    return f"{moto_bucket}/prefix-{secrets.token_hex(6)}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """By it handles tell how long ago they looked, and how long a commit took."""
    made = HandClock()
    for module in ("cas.claiming", "cas.standing_back", "session", "catalog.catalog"):
        monkeypatch.setattr(f"crdtcat.{module}.elapsed_clock", made)
    return made
