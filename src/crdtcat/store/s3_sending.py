"""One signed request through the session that s3fs keeps, without what stands between it and the network.

aiobotocore's session is one of aiohttp's, with its certificates, timeouts and connections. Around it, each
request is put into a mapping of botocore's and out again, the environment is asked, and the answer becomes an
object whose parts nobody here looks at: a quarter of the processor time of a small request. So aiohttp's
session is asked directly. Where a proxy is to be gone through, or sessions are of another make, aiobotocore
sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Received(NamedTuple):
    """An answer, whole.

    Attributes:
        status: as HTTP has it.
        headers: by name, whose case does not matter if it is lower.
        body: all of it.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


async def send(client: Any, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Received:
    """What the server answers to a request that is signed already.

    `client` is the client of s3fs. Raises what aiohttp or botocore does: no answer, or half of one.
    """
    around = client._endpoint.http_session
    session = await _session(around, url)
    if session is None:
        return await _sent_by(around, method, url, headers, body)
    from botocore.exceptions import HTTPClientError  # noqa: PLC0415 (extras, present where s3fs is)
    from yarl import URL  # noqa: PLC0415

    headers["accept-encoding"] = "identity"  # else answers come packed, and are not unpacked
    try:
        response = await session.request(method, URL(url, encoded=True), headers=headers, data=body)
        return Received(response.status, response.headers, await response.read())
    except (RuntimeError, TypeError, ValueError) as error:  # closed by whoever closes: a new one may do it
        raise HTTPClientError(error=error) from error


async def _session(around: Any, url: str) -> Any:
    """The session of aiohttp's in one of aiobotocore's; None: there is none to be used by itself."""
    try:
        if around._proxy_config.proxy_url_for(url) is None:
            return around._sessions.get(None) or await around._get_session(None)
    except AttributeError:  # of another make, or closed
        pass
    return None


async def _sent_by(
    around: Any, method: str, url: str, headers: dict[str, str], body: bytes | None
) -> Received:
    from botocore.awsrequest import AWSPreparedRequest  # noqa: PLC0415 (an extra)

    response = await around.send(AWSPreparedRequest(method, url, headers, body, stream_output=False))
    return Received(response.status_code, response.headers, await response.content)
