"""Requests that go straight to aiohttp's session: the same answers, the same faults, and proxies kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.asyn import sync
from moto.server import ThreadedMotoServer

from crdtcat.errors import Missing, StoreUnavailable
from crdtcat.store import RetryPolicy
from crdtcat.store.s3 import S3Store
from crdtcat.store.s3_connection import client_of
from crdtcat.store.s3_sending import Received, send
from crdtcat.testing.s3_server import S3Server

QUICK = RetryPolicy(attempts=3, base_ms=1, max_ms=1)


@pytest.fixture(scope="module")
def targets() -> list[str]:
    """What requests named, as they came over the wire."""
    return []


@pytest.fixture(scope="module")
def server(targets: list[str]) -> Iterator[S3Server]:
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    inner = running._server.app

    def record(environ: dict[str, Any], start: Any) -> Any:
        targets.append(environ["RAW_URI"])
        return inner(environ, start)

    running._server.app = record
    host, port = running.get_host_and_port()
    try:
        yield S3Server(f"http://{host}:{port}", "key-id", "secret")
    finally:
        running.stop()


@pytest.fixture
def store(server: S3Server) -> S3Store:
    store = S3Store(server.fresh_bucket(), server.storage_options, retry=QUICK)
    store.put("first", b"1")  # the long way, which is learned from
    return store


def count_of_sent(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requests that aiobotocore's session sends from now on."""
    session = sync(store._filesystem().loop, client_of, store._filesystem())._endpoint.http_session
    inner, sent = session.send, []

    async def count(request: Any) -> Any:
        sent.append(request.method)
        return await inner(request)

    monkeypatch.setattr(session, "send", count)
    return sent


def test_small_requests_go_to_the_session_itself(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = count_of_sent(store, monkeypatch)
    store.put("a", bytes(100_000))
    assert store.get("a", 5, 8) == bytes(3)
    assert [item.name for item in store.list("")] == ["a", "first"]
    assert store.skew_ms() is not None
    assert not store.put_if_absent("a", b"other")
    with pytest.raises(Missing):
        store.get("none")
    assert sent == []


def test_a_proxy_is_gone_through(
    server: S3Server, targets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is its own proxy here: it is asked for whole URLs then."""
    proxies = {"proxies": {"http": server.endpoint_url}}
    store = S3Store(server.fresh_bucket(), {**server.storage_options, "config_kwargs": proxies}, retry=QUICK)
    targets.clear()
    store.put("first", b"1")
    sent = count_of_sent(store, monkeypatch)
    store.put("second", b"2")
    assert store.get("second") == b"2"
    assert sent == ["PUT", "GET"]
    assert len(targets) == 3
    assert all(target.startswith(server.endpoint_url) for target in targets)


def test_a_server_that_is_gone_is_a_transient_fault(store: S3Store) -> None:
    ways = store._filesystem().ways
    key = store._bucket, "put_object"
    ways[key] = replace(ways[key], base="http://127.0.0.1:9/nothing/")  # the port `discard`: nobody listens
    before = store.requests.put
    with pytest.raises(StoreUnavailable, match="3 times"):
        store.put("a", b"x")
    assert store.requests.put - before == 3


def test_sessions_that_were_closed_are_made_anew(store: S3Store) -> None:
    filesystem = store._filesystem()

    async def close() -> None:
        client = await client_of(filesystem)
        for session in client._endpoint.http_session._sessions.values():
            await session.close()

    sync(filesystem.loop, close)
    store.put("a", b"x")
    assert store.get("a") == b"x"


def test_sessions_of_another_make_are_asked_to_send() -> None:
    async def answer(request: Any) -> Any:
        asked.append((request.method, request.url, request.body))

        async def content() -> bytes:
            return b"body"

        return SimpleNamespace(status_code=200, headers={"date": "now"}, content=content())

    asked: list[tuple[str, str, bytes]] = []
    client = SimpleNamespace(_endpoint=SimpleNamespace(http_session=SimpleNamespace(send=answer)))
    received = asyncio.run(send(client, "PUT", "http://h/b/k", {"x": "y"}, b"data"))
    assert received == Received(200, {"date": "now"}, b"body")
    assert asked == [("PUT", "http://h/b/k", b"data")]
