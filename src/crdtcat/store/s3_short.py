"""The short way to S3: the same requests with a fifth of the processor time.

botocore works out anew for every request where a bucket is and how requests to it are signed, and parses
answers into shapes nobody here looks at: some two milliseconds of Python for each object and ten for a page
of a listing, which is most of what reading a few hundred small files costs. None of it changes from one
object to the next. So the first request for an object goes the long way, and what was sent then is looked at:
if it was an ordinary one, signed with version 4 and without headers that mean something special (encryption
with the caller's key, access lists, a payer), further ones are built and signed here, and sent through the
same session, with its proxies, certificates and timeouts. Anything else keeps the long way, for ever. Pages
are listed, and objects put, as those were got: what botocore would send follows from that.

Credentials are asked for each time, so those that rotate do. Where the server points elsewhere, or does not
like the request, it is made again the long way, and that one is learned from; where its answer cannot be
understood here, the long way is kept. A success whose body is an error is none: S3 may answer so.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Self
from urllib.parse import quote, unquote_plus, urlsplit
from xml.etree import ElementTree as ET

from crdtcat.store.requests import Kind
from crdtcat.store.s3_sending import send

OPERATIONS: Final[Mapping[str, Kind]] = {"get_object": "get", "put_object": "put", "list_objects_v2": "list"}
"""What can go the short way, and how it is counted."""
BODY_BYTES_MAX: Final = 2**20 - 1
"""Larger bodies go the long way, where the time per request does not matter."""
_METHODS: Final = {"get_object": "GET", "put_object": "PUT", "list_objects_v2": "GET"}
_ERRORS, _INTERNAL_ERROR = 300, 500
_ELSEWHERE: Final = frozenset({301, 302, 307, 308, 400})
"""Statuses that may be about the way and not about the object: the long way finds out."""
_HEADERS: Final = {"Range": "range", "IfNoneMatch": "if-none-match"}
_QUERY: Final = {
    "Prefix": "prefix",
    "Delimiter": "delimiter",
    "MaxKeys": "max-keys",
    "StartAfter": "start-after",
    "ContinuationToken": "continuation-token",
}
_KNOWN: Final = frozenset({"Key", "Body", *_HEADERS, *_QUERY})
_SCHEME: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/([^/]+)/s3/aws4_request")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_USUAL: Final = re.compile(
    r"x-amz-(date|content-sha256|security-token|checksum-.*|sdk-checksum-algorithm|trailer"
    r"|decoded-content-length)"
)
_IS_ERROR: Final = re.compile(rb"\s*(<\?xml[^>]*>\s*)?<Error\b")
_CODE, _MESSAGE = re.compile(rb"<Code>([^<]*)</Code>"), re.compile(rb"<Message>([^<]*)</Message>")
_sent: ContextVar[list[Any] | None] = ContextVar("sent", default=None)


def noted(*, wanted: bool) -> list[Any]:
    """A list that the requests of the task at hand will be in, in the order they are sent, if wanted."""
    requests: list[Any] = []
    _sent.set(requests if wanted else None)
    return requests


def note_sent(request: Any, **_: Any) -> None:
    """A handler of botocore's event `before-send`."""
    requests = _sent.get()
    if requests is not None:
        requests.append(request)


class NotThisWay(Exception):
    """The request must go the long way. `again`: whether a way may be learned from it."""

    def __init__(self, *, again: bool) -> None:
        super().__init__()
        self.again = again


def takes(arguments: Mapping[str, Any]) -> bool:
    """Whether a request with these arguments may go the short way."""
    return arguments.keys() <= _KNOWN and len(arguments.get("Body", b"")) <= BODY_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Way:
    """How one bucket is asked for one operation.

    Attributes:
        base: the URL, up to an object's key or the query.
        region: that signatures name.
        agent: the header `User-Agent`.
        checksum: whether bodies are sent with a checksum.
    """

    base: str
    region: str
    agent: str
    checksum: bool

    @classmethod
    def learned(cls, request: Any, arguments: Mapping[str, Any]) -> Self | None:
        """The way a request went, None if no other should go it without botocore's help."""
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        scheme = _SCHEME.match(headers.get("authorization", ""))
        special = [name for name in headers if name.startswith("x-amz-") and not _USUAL.fullmatch(name)]
        url, path = str(request.url).partition("?")[0], quoted(arguments.get("Key", ""))
        if scheme is None or special or not url.endswith(path):
            return None
        sums = [name for name in headers if name.startswith(("x-amz-checksum-", "x-amz-trailer"))]
        checksum = sums not in ([], ["x-amz-checksum-mode"])  # the mode is about answers
        return cls(url.removesuffix(path), scheme[1], headers.get("user-agent", ""), checksum)

    def to(self, operation: str, client: Any) -> Self:
        """The way of another operation, given that of one for an object: what botocore would have sent."""
        config = client.meta.config
        checksum = getattr(config, "request_checksum_calculation", None) == "when_supported"
        in_path = operation == "list_objects_v2" and urlsplit(self.base).path != "/"
        base = self.base.removesuffix("/") if in_path else self.base
        return replace(self, base=base, checksum=checksum and operation == "put_object")

    def headers(
        self, method: str, path: str, query: str, body: bytes | None, *, credentials: Any, now: datetime
    ) -> dict[str, str]:
        """The headers that sign a request. `credentials` are frozen ones of botocore."""
        digest = hashlib.sha256(body or b"")
        moment = now.strftime("%Y%m%dT%H%M%SZ")
        signed = {
            "host": _host(self.base),
            "x-amz-content-sha256": digest.hexdigest(),
            "x-amz-date": moment,
        }
        if body is not None and self.checksum:
            signed["x-amz-checksum-sha256"] = b64encode(digest.digest()).decode()
        if credentials.token:
            signed["x-amz-security-token"] = credentials.token
        names = ";".join(sorted(signed))
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        where = (urlsplit(self.base).path + path) or "/"
        request = f"{method}\n{where}\n{query}\n{lines}\n{names}\n{digest.hexdigest()}"
        scope = f"{moment[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = _hmac(_signing_key(credentials.secret_key, moment[:8], self.region), text).hex()
        del signed["host"]  # the session's own
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return signed


Ways = dict[tuple[str, str], Way | None]
"""What is known, by bucket and operation; `None`: the long way is to be kept."""


def way_to(ways: Ways, bucket: str, operation: str, client: Any) -> Way | None:
    """The way to ask a bucket for something: the one that was learned, or follows from another; `None`: none
    is known, or the long one is to be kept."""
    key = bucket, operation
    if key not in ways and operation in OPERATIONS:
        known = ways.get((bucket, "get_object")) or ways.get((bucket, "put_object"))
        if known is not None:
            ways[key] = known.to(operation, client)
    return ways.get(key)


async def answer(client: Any, way: Way, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What botocore would have answered, as far as it is looked at.

    Raises `NotThisWay`; `ClientError` as botocore does for an answer that is not a success; and whatever its
    session does.
    """
    method, path, body = _METHODS[operation], quoted(arguments.get("Key", "")), arguments.get("Body")
    query = _query(arguments) if operation == "list_objects_v2" else ""
    credentials = await client._request_signer._credentials.get_frozen_credentials()
    headers = way.headers(method, path, query, body, credentials=credentials, now=datetime.now(UTC))
    headers |= {_HEADERS[name]: value for name, value in arguments.items() if name in _HEADERS}
    headers["user-agent"] = way.agent
    url = way.base + path + (f"?{query}" if query else "")
    status, received, data = await send(client, method, url, headers, body)
    if status in _ELSEWHERE:
        raise NotThisWay(again=True)
    if status < _ERRORS and operation != "get_object" and _IS_ERROR.match(data):
        status = _INTERNAL_ERROR
    metadata = {"HTTPStatusCode": status, "HTTPHeaders": received}
    if status >= _ERRORS:
        raise _refusal(operation, metadata, data)
    try:
        found = _ANSWERS[operation](data)
    except (ET.ParseError, KeyError, ValueError) as error:
        raise NotThisWay(again=False) from error
    return {**found, "ResponseMetadata": metadata}


def _query(arguments: Mapping[str, Any]) -> str:
    """A listing's query, in the order that signatures want."""
    known = {_QUERY[name]: str(value) for name, value in arguments.items() if name in _QUERY}
    every = {"encoding-type": "url", "list-type": "2", **known}
    return "&".join(f"{name}={quote(every[name], safe='-._~')}" for name in sorted(every))


def _page(data: bytes) -> dict[str, Any]:
    """A page of a listing, as botocore gives it."""
    page: dict[str, Any] = {"Contents": [], "CommonPrefixes": []}
    root = ET.fromstring(data)  # noqa: S314 (the server's, as trusted as the data)
    if _local(root.tag) != "ListBucketResult":
        raise ValueError(f"{root.tag} is no listing")
    encoded = any(_local(each.tag) == "EncodingType" and each.text == "url" for each in root)
    name = unquote_plus if encoded else str
    for element in root:
        tag = _local(element.tag)
        if tag == "Contents":
            found = {_local(each.tag): each.text or "" for each in element}
            modified = datetime.fromisoformat(found["LastModified"])
            page["Contents"].append(
                {"Key": name(found["Key"]), "Size": int(found["Size"]), "LastModified": modified}
            )
        elif tag == "CommonPrefixes":
            page["CommonPrefixes"].append({"Prefix": name(element[0].text or "")})
        elif tag == "IsTruncated":
            page["IsTruncated"] = element.text == "true"
        elif tag == "NextContinuationToken":
            page["NextContinuationToken"] = element.text or ""
    return page


_ANSWERS: Final[Mapping[str, Callable[[bytes], dict[str, Any]]]] = {
    "get_object": lambda data: {"Body": data},
    "put_object": lambda _: {},
    "list_objects_v2": _page,
}


def _refusal(operation: str, metadata: dict[str, Any], body: bytes) -> Exception:
    from botocore.exceptions import ClientError  # noqa: PLC0415 (an extra)

    code, message = (
        found[1].decode() if found else "" for found in (_CODE.search(body), _MESSAGE.search(body))
    )
    error = {"Code": code or str(metadata["HTTPStatusCode"]), "Message": message}
    refusal: Exception = ClientError({"Error": error, "ResponseMetadata": metadata}, operation)
    return refusal


def quoted(key: str) -> str:
    """A key as URLs and signatures have it."""
    return quote(key, safe="/-._~")


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


@lru_cache(maxsize=64)
def _host(base: str) -> str:
    parts = urlsplit(base)
    default = parts.port is None or parts.port == _DEFAULT_PORTS.get(parts.scheme)
    return str(parts.hostname) if default else f"{parts.hostname}:{parts.port}"


@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
