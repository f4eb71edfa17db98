"""One connection to S3 for each process and set of options.

Loading the description of S3 takes far longer than a request, and stores are copied freely (every Spark task
unpickles one), so stores of one process with equal options share a connection. Event loops and sockets do not
survive a fork: a child makes its own, and leaves its parent's alone.

The retries of the layers below are switched off: those of `Store` are counted, theirs would not be. Options
of the caller win over the ones set here.

botocore asks the server for leave before it sends a body (`Expect: 100-continue`) and waits for the answer,
which makes every PUT two round trips. Bodies here are small or parts of bounded size: they are sent at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fsspec.utils import tokenize

from crdtcat.errors import CapabilityMissing
from crdtcat.store import s3_short
from crdtcat.store.values import GET_CONCURRENCY

CONNECTIONS_MAX = 32
"""Kept for stores to come. Credentials that rotate would otherwise pile up; stores in use keep their own."""

_connections: dict[tuple[int, str], Any] = {}


def import_s3fs() -> Any:
    """The package s3fs. Raises `CapabilityMissing`, naming the extra that brings it."""
    try:
        import s3fs  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise CapabilityMissing("s3:// URLs need s3fs: install `crdtcat[s3]`") from error
    return s3fs


def connect(options: Mapping[str, Any]) -> Any:
    """This process's `s3fs.S3FileSystem` for these options. No request."""
    config = {
        "retries": {"mode": "standard", "total_max_attempts": 1},
        "max_pool_connections": GET_CONCURRENCY,
        **options.get("config_kwargs", {}),
    }
    chosen = {**options, "config_kwargs": config, "skip_instance_cache": True}
    key = os.getpid(), tokenize(chosen)
    found = _connections.get(key)
    if found is None:
        filesystem = import_s3fs().S3FileSystem(**chosen)
        filesystem.retries = 1
        filesystem.ways = {}  # by bucket and method, see `crdtcat.store.s3_short`
        # Threads may race here: all use the one that was stored first, the others never connected.
        found = _connections.setdefault(key, filesystem)
        _forget_oldest()
    return found


async def client_of(filesystem: Any) -> Any:
    """The client that `filesystem` will use for its next request. No request."""
    client = await filesystem.set_session()
    if client is not getattr(filesystem, "sends_at_once", None):
        client.meta.events.register("before-sign.s3", _send_body_at_once)
        client.meta.events.register("before-send.s3", s3_short.note_sent)
        filesystem.sends_at_once = client
    return client


def _send_body_at_once(request: Any, **_: Any) -> None:
    del request.headers["Expect"]  # a message's header: no error where it is not there


def _forget_oldest() -> None:
    own = [key for key in tuple(_connections) if key[0] == os.getpid()]
    for key in own[:-CONNECTIONS_MAX]:
        _connections.pop(key, None)
