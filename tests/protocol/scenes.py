"""Small log folders and actors for the scheduler: versions, transactions, bundlers, collectors, readers."""

from __future__ import annotations

from typing import Any

import numpy as np
from blake3 import blake3

from crdtcat.chunks.segment import segment_name
from crdtcat.format.frame import digest
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.schema_code import StoredField, encode_schema
from crdtcat.format.version import encode_version
from crdtcat.log import State, encode_bundle, select
from crdtcat.log.state import ids_of
from crdtcat.protocol import (
    Collector,
    Outcome,
    Publish,
    Put,
    Reader,
    bundle_name,
    bundle_rank,
    is_bundle,
    is_commit,
    is_version,
    mark_name,
    version_name,
)
from crdtcat.testing.scheduler import Actor, Stage

FOLDER = "tables/t/main/"
OTHER = "tables/other/main/"
MARK = (mark_name(FOLDER), b"")
MARKS = {mark_name(FOLDER): b"", mark_name(OTHER): b""}


def version(hlc: int, writer: int = 1, seq: int = 1, **more: Any) -> tuple[str, bytes]:
    """A version without rows: it sets a property."""
    id, data = encode_version(_body(hlc, writer, seq) | {"x": Ops(properties={"p": hlc}).encode()} | more)
    return version_name(FOLDER, id), data


def _body(hlc: int, writer: int, seq: int) -> dict[str, Any]:
    return {"h": hlc, "w": writer, "s": seq, "l": FOLDER, "o": 0}


def version_with_segment(hlc: int, writer: int) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """A segment (any bytes: nobody looks inside here) and the version that makes it visible."""
    hash, unique = blake3(bytes([hlc])).digest(), bytes([hlc]) * 8
    segment = [hash[:16] + unique, 4, bytes(32), 1]
    rows = {"f": [encode_schema([StoredField("a", ColumnId("a"), "int64")])], "y": hash, "n": [1], "z": [8]}
    id, data = encode_version(_body(hlc, writer, 1) | rows | {"g": [segment], "a": [0, 0, 0]})
    return (segment_name(hash[:16], unique), b"rows"), (version_name(FOLDER, id), data)


def transaction(hlc: int, writer: int, *folders: str) -> tuple[str, bytes]:
    """A version that touches several logs, in one file."""
    stamp = {"h": hlc, "w": writer, "s": 1}
    part = {**stamp, "o": 0, "x": Ops(properties={"t": hlc}).encode()}
    parts = {folder: [encode_version({**part, "l": folder})[1]] for folder in folders}
    id, data = encode_version({**stamp, "t": parts})
    return f"transactions/{id}.v", data


def writer(name: str, *files: tuple[str, bytes]) -> Actor:
    """Commits files one after the other, each when the one before was acknowledged."""
    first, *rest = (Publish((Put(*file),)) for file in files)

    def after(then: Publish) -> Stage:
        return lambda done: then if done.outcome is Outcome.DONE else None

    return Actor(name, first, tuple(after(then) for then in rest))


def reader(name: str = "reader", kind: Any = Reader) -> Actor:
    return Actor(name, kind(FOLDER, State(FOLDER)))


def bundle_everything(done: Reader[State]) -> Publish | None:
    """One bundle of all there is, in place of all bundles listed."""
    bundles = [item.name for item in done.listing if is_bundle(item.name)]
    files = [item.name for item in done.listing if is_commit(item.name)]
    if len(bundles) + len(files) < 2:
        return None
    rank = 1 + max(map(bundle_rank, bundles), default=0)
    return Publish((Put(*bundle(done.state, bundles, rank)),))


def bundle_versions(done: Reader[State]) -> Publish | None:
    """A first bundle of the versions whose files are listed; rank 1, in place of none."""
    files = [item.name for item in done.listing if is_version(item.name)]
    if not files:
        return None
    chosen = np.zeros(len(done.state.log), bool)
    found = done.state.log.find(ids_of(files))
    chosen[found[found >= 0]] = True
    return Publish((Put(*bundle(State(FOLDER, select(done.state.log, chosen)), [], 1)),))


def bundle(state: State, replaces: list[str], rank: int) -> tuple[str, bytes]:
    data = encode_bundle(state.log, FOLDER, replaces)
    return bundle_name(FOLDER, rank, digest(data), int(state.log.number.max(initial=0))), data


def bundler(name: str = "bundler", plan: Any = bundle_everything, kind: Any = Reader) -> Actor:
    return Actor(name, kind(FOLDER, State(FOLDER)), (plan,))


def collect_with(kind: Any = Collector) -> Stage:
    return lambda done: kind(done.state, done.listing, done.now_ms, 0)


def collector(name: str = "collector", kind: Any = Collector, reads: Any = Reader) -> Actor:
    """Without any grace period: whatever may happen, happens."""
    return Actor(name, reads(FOLDER, State(FOLDER)), (collect_with(kind),))


def upkeep(name: str = "upkeep", plan: Any = bundle_everything, kind: Any = Collector) -> Actor:
    """Bundles, then reads again and collects."""

    def read_again(_: Publish) -> Reader[State]:
        return Reader(FOLDER, State(FOLDER))

    return Actor(name, Reader(FOLDER, State(FOLDER)), (plan, read_again, collect_with(kind)))
