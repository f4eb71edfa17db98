"""Staged versions, stamped when they are committed.

While a transaction is open, each of its versions has an id, because later ones name its rows and columns.
When it is committed all of them get new ids: one writer, numbers from 1 in every log, stamps later than
everything seen. Wherever a version names an earlier one it does so by 36 bytes that occur nowhere else, in
a field that keeps its length, so giving it another name is replacing these bytes. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crdtcat.clock import VersionId
from crdtcat.format.version import decode_version, encode_version
from crdtcat.log import Log
from crdtcat.log.build import LogBuilder


@dataclass(frozen=True, slots=True)
class StagedVersion:
    """A version that is not committed: its id so far, and its file."""

    id: VersionId
    data: bytes


def staged_log(folder: str, staged: Iterable[StagedVersion]) -> Log:
    """The log of some versions, under the ids that they have so far."""
    builder = LogBuilder(folder)
    for item in staged:
        builder.add(item.id, decode_version(item.data, str(item.id))[1], str(item.id))
    return builder.build()


def restamped(
    staged: Iterable[StagedVersion],
    writer: int,
    hlc: int,
    *,
    follow: bool = False,
    parent: bytes | None = None,
    after: int = 0,
) -> list[StagedVersion]:
    """The versions of one log, in order, under one writer, with stamps from `hlc` on.

    Args:
        staged: the versions.
        writer: who commits them.
        hlc: the stamp of the first.
        follow: whether each has seen the one before it, and the first `parent`, as in CAS mode.
        parent: id of the version that the first follows.
        after: how many of that writer are there already.
    """
    old = list(staged)
    strangers = {item.id.writer for item in old}
    names: dict[bytes, bytes] = {}
    made: list[StagedVersion] = []
    for at, item in enumerate(old):
        _, body = decode_version(item.data, str(item.id))
        body |= {"h": hlc + at, "w": writer, "s": after + at + 1}
        for key in ("p", "x", "f"):
            if key in body:
                body[key] = renamed(body[key], names)
        if "c" in body:
            body["c"] = {who: seq for who, seq in body["c"].items() if who not in strangers}
        if follow:
            body |= {"p": made[-1].id.to_bytes() if made else parent, "c": body.get("c") or {}}
        id, data = encode_version(body)
        names[item.id.to_bytes()] = id.to_bytes()
        made.append(StagedVersion(id, data))
    return made


def renamed(value: Any, names: Mapping[bytes, bytes]) -> Any:
    """Part of a body with other names for versions: 36 bytes for 36 bytes, wherever they occur."""
    if isinstance(value, list):
        return [renamed(item, names) for item in value]
    if isinstance(value, bytes):
        for old, new in names.items():
            value = value.replace(old, new)
    return value
