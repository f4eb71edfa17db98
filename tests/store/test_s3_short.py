"""The short way to S3: signed as botocore signs, and taken only where nothing special is asked."""

from __future__ import annotations

import string
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import botocore.session
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.errors import Missing
from crdtcat.store import s3_short
from crdtcat.store.s3 import S3Store
from crdtcat.store.s3_short import Way, Ways, quoted, way_to
from crdtcat.testing.s3_server import S3Server

ORDINARY = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=id/20300102/eu-west-1/s3/aws4_request, SignedHeaders=host",
    "X-Amz-Date": "20300102T030405Z",
    "X-Amz-Content-SHA256": "00",
    "User-Agent": "agent",
}
keys = st.text(
    st.characters(codec="utf-8", exclude_characters="?#", exclude_categories=["Cs", "Cc"]), min_size=1
)
texts = st.text(string.ascii_letters + string.digits + "/+=", min_size=1)


@given(
    key=keys,
    body=st.none() | st.binary(max_size=100),
    base=st.sampled_from(
        ["https://bucket.example.com/", "http://localhost:8333/bucket/", "https://h:443/b/"]
    ),
    query=st.dictionaries(
        st.sampled_from(["prefix", "list-type", "max-keys"]), st.text("az~/ +%é", max_size=5)
    ),
    secret=texts,
    token=st.none() | texts,
    moment=st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)),  # noqa: DTZ001 (made aware below)
)
def test_signatures_are_those_of_botocore(
    key: str,
    body: bytes | None,
    base: str,
    query: dict[str, str],
    secret: str,
    token: str | None,
    moment: datetime,
) -> None:
    now = moment.replace(microsecond=0, tzinfo=UTC)
    credentials = ReadOnlyCredentials("the-id", secret, token)
    way, path = Way(base, "eu-central-1", "agent", checksum=True), quoted(key)
    method = "GET" if body is None else "PUT"
    line = "&".join(f"{name}={quote(query[name], safe='-._~')}" for name in sorted(query))
    ours = way.headers(method, path, line, body, credentials=credentials, now=now)
    url = f"{base}{path}?{line}" if line else base + path
    theirs = AWSRequest(method, url, data=body or b"")
    theirs.context["timestamp"] = now.strftime("%Y%m%dT%H%M%SZ")
    if body is not None:
        theirs.headers["x-amz-checksum-sha256"] = ours["x-amz-checksum-sha256"]
    signer = S3SigV4Auth(credentials, "s3", "eu-central-1")
    theirs.headers["X-Amz-Date"] = theirs.context["timestamp"]
    theirs.headers["X-Amz-Content-SHA256"] = signer.payload(theirs)
    if token:
        theirs.headers["X-Amz-Security-Token"] = token
    text = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    assert ours["authorization"].endswith(f"Signature={signer.signature(text, theirs)}")


@pytest.mark.parametrize(
    ("headers", "ordinary"),
    [
        ({}, True),
        ({"X-Amz-Checksum-Crc32": "x", "X-Amz-Security-Token": "t"}, True),
        ({"x-amz-server-side-encryption-customer-key": "k"}, False),
        ({"x-amz-request-payer": "requester"}, False),
        ({"x-amz-acl": "private"}, False),
        ({"Authorization": "AWS id:signature"}, False),
        ({"Authorization": "AWS4-ECDSA-P256-SHA256 Credential=id/20300102/s3/aws4_request"}, False),
    ],
)
def test_only_ordinary_requests_are_learned_from(headers: Mapping[str, str], ordinary: bool) -> None:
    request = SimpleNamespace(url="https://h/b/a%20b?x-id=GetObject", headers={**ORDINARY, **headers})
    way = Way.learned(request, {"Key": "a b"})
    assert (way is not None) == ordinary
    if way is not None:
        assert (way.base, way.region, way.agent) == ("https://h/b/", "eu-west-1", "agent")
    del request.headers["Authorization"]
    assert Way.learned(request, {"Key": "a b"}) is None


def test_a_way_that_names_another_object_is_not_learned() -> None:
    request = SimpleNamespace(url="https://h/b/other", headers=ORDINARY)
    assert Way.learned(request, {"Key": "a"}) is None


@pytest.mark.parametrize("style", ["path", "virtual"])
@pytest.mark.parametrize("checksums", ["when_supported", "when_required"])
@pytest.mark.parametrize("known", ["get_object", "put_object"])
def test_a_way_that_follows_from_another_is_the_one_botocore_takes(
    style: str, checksums: str, known: str
) -> None:
    """No request is sent: each operation is stopped where botocore is about to, and learned from."""
    config = Config(s3={"addressing_style": style}, request_checksum_calculation=checksums)
    client = botocore.session.get_session().create_client(
        "s3",
        region_name="eu-west-1",
        endpoint_url="http://127.0.0.1:9" if style == "path" else None,
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        config=config,
    )
    learned: dict[str, Way | None] = {}
    for operation, arguments in (
        ("get_object", {"Key": "a/b c"}),
        ("put_object", {"Key": "a/b c", "Body": b"x"}),
        ("list_objects_v2", {"Prefix": "a/", "Delimiter": "/", "MaxKeys": 7}),
    ):
        sent: list[Any] = []

        def stop(request: Any, sent: list[Any] = sent, **_: Any) -> AWSResponse:
            sent.append(request)
            return AWSResponse(request.url, 200, {}, SimpleNamespace(stream=lambda: iter(())))

        client.meta.events.register_first("before-send.s3", stop)
        with suppress(ClientError, ResponseParserError):
            getattr(client, operation)(Bucket="bucket", **arguments)
        client.meta.events.unregister("before-send.s3", stop)
        learned[operation] = Way.learned(sent[-1], arguments)
    first = learned[known]
    assert first is not None
    ways: Ways = {("bucket", known): first}
    for operation, way in learned.items():
        found = way_to(ways, "bucket", operation, client)
        assert found is not None
        assert way is not None
        assert (found.base, found.region, found.checksum) == (way.base, way.region, way.checksum)
    assert way_to({("bucket", known): None}, "bucket", "list_objects_v2", client) is None
    assert way_to({}, "bucket", known, client) is None
    client.close()


@pytest.mark.s3
def test_further_requests_go_the_short_way(
    s3_server: S3Server, s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store(f"{s3_url}/sp ace+%2B~ü", s3_server.storage_options)
    store.put("a/1", b"one")
    long: list[str] = []
    filesystem = store._filesystem()
    inner = filesystem._call_s3

    async def call(operation: str, *arguments: Any, **named: Any) -> Any:
        long.append(operation)
        return await inner(operation, *arguments, **named)

    monkeypatch.setattr(filesystem, "_call_s3", call)
    assert store.get("a/1") == b"one"
    assert [item.name for item in store.list("a/")] == ["a/1"]
    store.put("a/0-x", b"two")
    store.put("a/b/c", b"three")
    assert store.get_many([("a/0-x", 0, None), ("a/1", 1, 2), ("a/none", 0, None)]) == [
        b"two",
        b"n",
        None,
    ]
    with pytest.raises(Missing):
        store.get("a/none")
    assert store.put_if_absent("a/1", b"x") is False
    names = [item.name for item in store.list("a/")]
    assert names == ["a/0-x", "a/1"]
    assert store.folders("a/") == ["b"]
    assert long == []
    store.put("a/large", bytes(s3_short.BODY_BYTES_MAX + 1))
    assert long == ["put_object"]
