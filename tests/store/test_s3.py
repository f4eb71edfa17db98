"""S3: what goes over the wire, what an unclear answer means, what is never shown."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import secrets
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from moto.server import ThreadedMotoServer

from crdtcat.errors import (
    AccessDenied,
    CapabilityMissing,
    InvalidArgument,
    RequestRefused,
    StoreUnavailable,
)
from crdtcat.store import Missing, RequestCounts, RetryPolicy
from crdtcat.store.retry import Fault
from crdtcat.store.s3 import S3Store
from crdtcat.store.s3_connection import CONNECTIONS_MAX, _connections, connect
from crdtcat.store.s3_faults import classify
from crdtcat.testing.s3_server import S3Server

QUICK = RetryPolicy(attempts=3, base_ms=1, max_ms=1)


class Wire:
    """A mocked server that remembers every request that reached it."""

    def __init__(self, server: ThreadedMotoServer) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.answer: Callable[[dict[str, Any]], int | None] = lambda _: None
        self.body = b""
        host, port = server.get_host_and_port()
        self.server = S3Server(f"http://{host}:{port}", "wire-key-id", "wire-secret-value")
        inner = server._server.app

        def record(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
            condition = environ.get("HTTP_IF_NONE_MATCH", "")
            self.seen.append((environ["REQUEST_METHOD"], environ.get("QUERY_STRING", ""), condition))
            status = self.answer(environ)
            if status is None:
                return inner(environ, start)
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start(f"{status} Injected", [("Content-Length", str(len(self.body)))])
            return [self.body]

        server._server.app = record

    def methods(self) -> list[str]:
        found = [method for method, _, _ in self.seen]
        self.seen.clear()
        return found


@pytest.fixture(scope="module")
def running() -> Iterator[Wire]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield Wire(server)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def bucket(running: Wire) -> str:
    return running.server.fresh_bucket()


@pytest.fixture
def wire(running: Wire) -> Iterator[Wire]:
    running.seen.clear()
    yield running
    running.answer, running.body = lambda _: None, b""


@pytest.fixture
def store(wire: Wire, bucket: str) -> S3Store:
    url = f"{bucket}/{secrets.token_hex(6)}"
    return S3Store(
        url, wire.server.storage_options, retry=QUICK, multipart_bytes=6 * 2**20, part_bytes=5 * 2**20
    )


# Requests.


@pytest.mark.parametrize("status", [301, 307, 400])
def test_what_the_short_way_is_refused_is_asked_the_long_way_and_learned_again(
    store: S3Store, wire: Wire, status: int
) -> None:
    store.put("t/1", b"one")
    assert store.get("t/1") == b"one"
    wire.methods()
    ways, key = store._filesystem().ways, (store._bucket, "get_object")
    way = ways[key]
    assert way is not None
    ways[key] = replace(way, agent="of the short way")  # so that the server can tell
    wire.answer = lambda environ: status if environ["HTTP_USER_AGENT"] == "of the short way" else None
    before = store.requests.snapshot()
    assert store.get("t/1") == b"one"
    assert wire.methods() == ["GET", "GET"]
    assert store.requests.since(before).get == 2
    learned = ways[key]
    assert learned is not None
    assert learned.agent.startswith("aiobotocore/")
    assert replace(learned, agent=way.agent) == way


def test_a_success_that_is_an_error_is_none(store: S3Store, wire: Wire) -> None:
    """S3 may begin its answer before it knows: 200, and an error in the body."""
    store.put("t/1", b"one")
    store.put("t/2", b"two")
    assert len(list(store.list("t/"))) == 2
    assert len(list(store.list("t/"))) == 2
    wire.methods()
    refused = iter([True, False, True, False])
    wire.body = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>InternalError</Code></Error>'
    wire.answer = lambda _: 200 if next(refused) else None
    store.put("t/3", b"three")
    assert wire.methods() == ["PUT", "PUT"]
    assert [item.name for item in store.list("t/")] == ["t/1", "t/2", "t/3"]
    assert wire.methods() == ["GET", "GET"]


def test_what_is_no_listing_is_not_an_empty_one(store: S3Store, wire: Wire) -> None:
    store.put("t/1", b"one")
    for _ in range(2):
        assert len(list(store.list("t/"))) == 1
    wire.methods()
    answers = iter([200, None, None])
    wire.body = b"<html><body>please log in</body></html>"
    wire.answer = lambda _: next(answers)
    assert [item.name for item in store.list("t/")] == ["t/1"]
    assert store._filesystem().ways[store._bucket, "list_objects_v2"] is None  # the long way from now on
    assert [item.name for item in store.list("t/")] == ["t/1"]
    assert wire.methods() == ["GET", "GET", "GET"]


def test_what_the_caller_wants_in_every_request_is_in_every_request(wire: Wire, bucket: str) -> None:
    options = {**wire.server.storage_options, "s3_additional_kwargs": {"CacheControl": "no-store"}}
    store = S3Store(f"{bucket}/{secrets.token_hex(6)}", options, retry=QUICK)
    for number in range(3):
        store.put(f"t/{number}", b"x")
    client = wire.server.client()
    for number in range(3):
        found = client.head_object(Bucket=store._bucket, Key=f"{store._root}t/{number}")
        assert found["CacheControl"] == "no-store"


def test_every_request_on_the_wire_is_one_we_counted(store: S3Store, wire: Wire) -> None:
    store.put("t/1", b"first request of a fresh connection")
    assert wire.methods() == ["PUT"]
    store.put_if_absent("t/2", b"x")
    assert wire.seen == [("PUT", "", "*")]
    assert wire.methods() == ["PUT"]
    assert store.put_if_absent("t/2", b"y") is False
    assert wire.methods() == ["PUT", "GET"]
    store.get("t/1")
    store.get("t/1", 3, 5)
    assert wire.methods() == ["GET", "GET"]
    with pytest.raises(Missing):
        store.get("t/none")
    assert wire.methods() == ["GET"]
    store.get_many([("t/1", 0, None)] * 40)
    assert wire.methods() == ["GET"] * 40
    list(store.list("t/"))
    store.folders("")
    assert wire.methods() == ["GET", "GET"]
    store.delete(["t/1"])
    assert wire.methods() == ["DELETE"]
    store.delete(["t/1", "t/2"])
    assert wire.methods() == ["POST"]
    counted = store.requests.snapshot()
    assert (counted.put, counted.get, counted.list, counted.delete, counted.head) == (3, 44, 2, 2, 0)


def test_a_fresh_handle_puts_with_one_request_and_nothing_else(store: S3Store, wire: Wire) -> None:
    for _ in range(3):
        fresh = pickle.loads(pickle.dumps(store))
        fresh.put("one", b"x")
        assert wire.methods() == ["PUT"]
        assert fresh.requests.snapshot() == RequestCounts(put=1, bytes_out=1)


def test_bodies_are_sent_without_asking_first(store: S3Store, wire: Wire) -> None:
    asked: list[str] = []

    def look(environ: dict[str, Any]) -> None:
        if environ["REQUEST_METHOD"] == "PUT":
            asked.append(environ.get("HTTP_EXPECT", ""))

    wire.answer = look
    store.put("small", b"x" * 100)
    store.put_if_absent("new", b"x" * 100)
    store.put("large", b"x" * (11 << 20))  # in parts
    assert len(asked) >= 4
    assert not any(asked)


def test_large_objects_go_in_parts(store: S3Store, wire: Wire) -> None:
    store.put("small", bytes(6 * 2**20))
    assert wire.methods() == ["PUT"]
    store.put("large", bytes(6 * 2**20 + 1))
    assert sorted(wire.methods()) == ["POST", "POST", "PUT", "PUT"]
    assert store.requests.snapshot().put == 5
    assert store.get("large") == bytes(6 * 2**20 + 1)


def test_a_failed_upload_is_aborted(store: S3Store, wire: Wire) -> None:
    wire.answer = lambda environ: 403 if "partNumber=2" in environ["QUERY_STRING"] else None
    with pytest.raises(AccessDenied):
        store.put("large", bytes(11 * 2**20))
    assert "DELETE" in wire.methods()
    client = wire.server.client()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=store._bucket)
    client.close()
    with pytest.raises(Missing):
        store.get("large")


def test_many_names_are_deleted_a_thousand_at_a_time(store: S3Store, wire: Wire) -> None:
    store.put("d/0001", b"x")
    wire.seen.clear()
    store.delete([f"d/{i:04}" for i in range(2001)])
    assert wire.methods() == ["POST", "POST", "DELETE"]
    assert list(store.list("d/")) == []


def test_listings_of_more_than_a_page(store: S3Store, wire: Wire) -> None:
    store.page_limit = 10
    for i in range(25):
        store.put(f"l/{i:02}", b"x")
        store.put(f"f{i:02}/x", b"x")
    wire.seen.clear()
    assert len(list(store.list("l/"))) == 25
    assert wire.methods() == ["GET"] * 3
    assert store.folders("") == [*(f"f{i:02}" for i in range(25)), "l"]
    assert wire.methods() == ["GET"] * 3


# Unclear answers.


def test_transient_answers_are_repeated_and_counted(store: S3Store, wire: Wire) -> None:
    for status in (500, 503, 429, 409):
        failures = iter([status, status])
        wire.answer = lambda _, failures=failures: next(failures, None)  # type: ignore[misc]
        before = store.requests.snapshot()
        store.put("again", b"x")
        assert wire.methods() == ["PUT"] * 3
        assert store.requests.since(before) == RequestCounts(put=3, bytes_out=1)


def test_an_outage_ends_in_a_typed_error(store: S3Store, wire: Wire) -> None:
    wire.answer = lambda _: 503
    for call in (
        lambda: store.put("a", b"x"),
        lambda: store.put_if_absent("a", b"x"),
        lambda: store.get("a"),
        lambda: store.get_many([("a", 0, None), ("b", 0, None)]),
        lambda: store.list_page(""),
        lambda: store.folders(""),
        lambda: store.delete(["a"]),
        lambda: store.delete(["a", "b"]),
        lambda: store.put("a", bytes(7 * 2**20)),
    ):
        wire.seen.clear()
        with pytest.raises(StoreUnavailable, match="3 times"):
            call()
        assert 3 <= len(wire.methods()) <= 6


def test_denial_is_not_repeated(store: S3Store, wire: Wire) -> None:
    wire.answer = lambda _: 403
    with pytest.raises(AccessDenied, match="check the credentials"):
        store.get("a")
    assert wire.methods() == ["GET"]


def test_an_exclusive_creation_whose_answer_was_lost_was_ours(store: S3Store, wire: Wire) -> None:
    def create_then_fail(name: str, data: bytes) -> None:
        original(name, data)
        if not failed:
            failed.append(True)
            raise ConnectionResetError

    failed: list[bool] = []
    original = store._put_if_absent
    store._put_if_absent = create_then_fail  # type: ignore[method-assign, assignment]
    assert store.put_if_absent("claim", b"ours") is True
    assert wire.methods() == ["PUT", "PUT", "GET"]
    assert store.put_if_absent("claim", b"theirs") is False


@pytest.mark.parametrize("error", [OSError(errno.EINVAL, "Bad"), FileExistsError("there")])
def test_a_refused_condition_may_come_as_another_error(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    store.put("claim", b"theirs")

    async def refuse(method: str, **arguments: Any) -> dict[str, Any]:
        if method == "put_object":
            raise error
        return await original(method, **arguments)

    original = store._request
    monkeypatch.setattr(store, "_request", refuse)
    assert store.put_if_absent("claim", b"ours") is False
    assert store.put_if_absent("claim", b"theirs") is True


def test_a_conflict_with_nothing_there_is_repeated(store: S3Store, wire: Wire) -> None:
    answers = iter([409])
    wire.answer = lambda _: next(answers, None)
    assert store.put_if_absent("claim", b"ours") is True
    assert wire.methods() == ["PUT", "GET", "PUT"]
    wire.answer = lambda environ: 412 if environ["REQUEST_METHOD"] == "PUT" else None
    with pytest.raises(StoreUnavailable, match="nothing is there"):
        store.put_if_absent("never", b"ours")


def test_a_server_that_ignores_ranges_is_understood(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("r", b"0123456789")

    async def ignore(method: str, **arguments: Any) -> dict[str, Any]:
        arguments.pop("Range", None)
        return await original(method, **arguments)

    original = store._request
    monkeypatch.setattr(store, "_request", ignore)
    assert store.get("r", 2, 5) == b"234"


def test_deletions_refused_one_by_one_are_reported(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(method: str, **arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"Errors": [{"Key": "a", "Code": "NoSuchKey"}, {"Key": "b", "Code": code}]}

    monkeypatch.setattr(store, "_request", answer)
    code = "AccessDenied"
    with pytest.raises(AccessDenied):
        store.delete(["a", "b"])
    code = "InternalError"
    with pytest.raises(StoreUnavailable, match="3 times"):
        store.delete(["a", "b"])


def _client_error(status: int, code: str = "") -> Exception:
    answer = {"Error": {"Code": code or str(status)}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = ClientError(answer, "Get")
    return error


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (_client_error(404, "NoSuchKey"), Fault.MISSING),
        (_client_error(404), Fault.MISSING),
        (_client_error(404, "NoSuchBucket"), Fault.REFUSED),
        (_client_error(404, "NoSuchUpload"), Fault.UNAVAILABLE),
        (_client_error(403, "AccessDenied"), Fault.DENIED),
        (_client_error(400, "ExpiredToken"), Fault.DENIED),
        (_client_error(400, "RequestTimeout"), Fault.TRANSIENT),
        (_client_error(400, "InvalidArgument"), Fault.REFUSED),
        (_client_error(503, "SlowDown"), Fault.TRANSIENT),
        (_client_error(599), Fault.TRANSIENT),
        (_client_error(501, "NotImplemented"), Fault.UNSUPPORTED),
        (NoCredentialsError(), Fault.DENIED),
        (EndpointConnectionError(endpoint_url="x"), Fault.TRANSIENT),
        (ReadTimeoutError(endpoint_url="x"), Fault.TRANSIENT),
        (TimeoutError(), Fault.TRANSIENT),
        (_client_error(403, "RequestTimeTooSkewed"), Fault.REFUSED),
        (TypeError("bad option"), Fault.ODD),
    ],
)
def test_what_errors_mean(error: Exception, fault: Fault) -> None:
    assert classify(error) is fault


# Opening.


@pytest.mark.parametrize(
    "url", ["s3://", "s3:///path", "s3://user:pass@bucket/x", "s3://bucket/x?versionId=1"]
)
def test_urls_of_another_shape_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        S3Store(url)
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "s3://bucket/x?versionId=1",
            "'s3://bucket/x' has a '?' behind it: .* no versionId .* at= reads the past",
        ),
        ("s3://bucket?a=b#c", "'s3://bucket' has a '\\?' behind it"),
        ("s3://bucket/x#part?", "'s3://bucket/x' has a '#' behind it"),
        ("s3a://user:word@bucket/x", "'s3a://bucket/x' .* before an '@': .* storage_options"),
        ("s3://", "not of the form s3://bucket/prefix"),
        ("s3://bucket/a//lake", "'s3://bucket/a//lake' has an empty part, .* end it in 'a/lake'"),
        ("s3://bucket/a/../lake", "has an empty part, '.', '..' or a backslash in its path"),
        ("s3://bucket/./lake", "end it in 'lake'"),
        ("s3://bucket/a\\\\lake", "end it in 'a/lake'"),
    ],
)
def test_what_is_wrong_with_a_url_is_told(url: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told.replace("'?'", "'\\?'")) as caught:
        S3Store(url)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("path", ["", "/", "a/", "//a//", "a.b/..c/d..", "a b/+/%41/ü/'/\"/&=/*"])
def test_other_prefixes_are_taken(path: str) -> None:
    assert S3Store(f"s3://bucket/{path}").place == f"s3://bucket/{path.strip('/')}".rstrip("/")


def test_directory_buckets_are_refused() -> None:
    with pytest.raises(CapabilityMissing, match="no order"):
        S3Store("s3://fast--use1-az4--x-s3/lake")


def test_without_s3fs_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(CapabilityMissing, match=r"crdtcat\[s3\]"):
        S3Store("s3://bucket")


def test_a_server_that_ignores_conditions_is_found_out(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pickle.loads(pickle.dumps(store)).can_create_exclusively is True

    async def ignore(method: str, **arguments: Any) -> dict[str, Any]:
        arguments.pop("IfNoneMatch", None)
        return await original(method, **arguments)

    original = store._request
    monkeypatch.setattr(store, "_request", ignore)
    assert store.can_create_exclusively is False
    before = store.requests.snapshot()
    assert store.can_create_exclusively is False
    assert store.requests.since(before).total == 0
    assert list(store.list("")) == []


def test_aws_itself_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store("s3://bucket", {"key": "k", "secret": "s", "client_kwargs": {"region_name": "eu-west-1"}})
    assert store.can_create_exclusively is True
    assert store.requests.snapshot() == RequestCounts()


def test_the_settings_of_the_caller_win() -> None:
    options = {"config_kwargs": {"max_pool_connections": 3}, "anon": True}
    filesystem = connect(options)
    assert filesystem.config_kwargs["max_pool_connections"] == 3
    assert filesystem.retries == 1
    assert options == {"config_kwargs": {"max_pool_connections": 3}, "anon": True}


def test_equal_options_share_a_connection_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    first = connect({"key": "a", "secret": "b"})
    assert connect({"key": "a", "secret": "b"}) is first
    assert connect({"key": "a", "secret": "c"}) is not first
    for i in range(CONNECTIONS_MAX + 5):
        connect({"key": "a", "secret": f"rotated {i}"})
    assert len(_connections) == CONNECTIONS_MAX
    assert connect({"key": "a", "secret": "b"}) is not first
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert connect({"key": "a", "secret": "b"}) is not connect({"key": "a", "secret": "d"})
    assert len(_connections) == CONNECTIONS_MAX + 2


# The real server.


@pytest.mark.s3
def test_the_real_server_excludes_and_its_clock_is_learned(s3_server: S3Server, s3_url: str) -> None:
    store = S3Store(s3_url, s3_server.storage_options)
    assert store.skew_ms() is None
    assert store.can_create_exclusively is True
    skew_ms = store.skew_ms()
    assert skew_ms is not None
    assert abs(skew_ms) < 2000


@pytest.mark.s3
def test_secrets_are_never_shown(s3_server: S3Server, s3_url: str) -> None:
    secret = "very-secret-" + secrets.token_hex(8)
    options = {**s3_server.storage_options, "secret": secret}
    store = S3Store(s3_url, options, retry=QUICK)
    calls: list[Callable[[], Any]] = [
        lambda: store.put("a", b"x"),
        lambda: store.get("a"),
        lambda: store.list_page(""),
        lambda: store.get_many([("a", 0, None), ("b", 0, None)]),
    ]
    for call in calls:
        with pytest.raises(AccessDenied) as caught:
            call()
        error = caught.value
        shown = (
            "".join(traceback.format_exception(error)) + repr(error) + repr(store) + str(store) + store.url
        )
        assert secret not in shown
        assert secret.encode() not in pickle.dumps(error)


@pytest.mark.s3
def test_a_bucket_that_does_not_exist_is_no_missing_object(s3_server: S3Server) -> None:
    store = S3Store("s3://no-such-bucket/x", s3_server.storage_options, retry=QUICK)
    calls: list[Callable[[], Any]] = [
        lambda: store.get("a"),
        lambda: store.put("a", b"x"),
        lambda: store.list_page(""),
        lambda: store.get_many([("a", 0, None)]),
    ]
    for call in calls:
        with pytest.raises(RequestRefused, match="check the URL"):
            call()


def test_nobody_listening_is_unavailable() -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "key-of-nobody", "secret": "secret-of-nobody"}
    store = S3Store("s3://bucket/x", options, retry=QUICK)
    with pytest.raises(StoreUnavailable, match="3 times") as caught:
        store.put("a", b"x")
    assert "127.0.0.1:9" in str(caught.value)
    assert "of-nobody" not in "".join(traceback.format_exception(caught.value))
