"""Small log folders and actors for the scheduler: versions, transactions, bundlers, collectors, readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from blake3 import blake3

from crdtcat.chunks.segment import segment_name
from crdtcat.clock import VersionId
from crdtcat.format.frame import digest
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.schema_code import StoredField, encode_schema
from crdtcat.format.version import encode_version
from crdtcat.log import State, Summary, encode_bundle, read_summary
from crdtcat.log.horizon import below
from crdtcat.maintenance.bundling import FilesPlan
from crdtcat.maintenance.checkpoint import CheckpointPlan
from crdtcat.maintenance.upkeep import block_plan, claims_block, versions_blocks
from crdtcat.protocol import (
    Collector,
    Get,
    ListPage,
    Object,
    Outcome,
    Publish,
    Put,
    Reader,
    Request,
    base_name,
    boundary_name,
    bundle_name,
    is_bundle,
    is_version,
    mark_name,
    version_name,
)
from crdtcat.protocol.bundler import Bundler
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


def warm_reader(name: str = "warm reader", kind: Any = Reader) -> Actor:
    """Reads twice, as a handle does that is kept: the second time with what it knows."""
    return Actor(
        name,
        kind(FOLDER, State(FOLDER)),
        (lambda done: kind(FOLDER, done.state, marked=done.marked),),
    )


def checkpoints(done: Reader[State]) -> Bundler[CheckpointPlan]:
    """What `Table.checkpoint` does with a full view of the log."""
    return Bundler.begin(CheckpointPlan(done.state, tuple(item.name for item in done.listing)))


def bundles_files(done: Reader[State]) -> Bundler[FilesPlan]:
    """What a task of a distributed checkpoint does with its files: rank 1, in place of none."""
    return Bundler.begin(
        FilesPlan(FOLDER, tuple(item.name for item in done.listing if is_version(item.name)))
    )


@dataclass(frozen=True)
class Looking:
    """What a writer sees before it bundles a block: a listing of the folder, and what bundles say of
    themselves."""

    listed: tuple[Object, ...] = ()
    after: str | None = ""
    summaries: tuple[tuple[str, Summary], ...] | None = None

    @property
    def bundles(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.listed if is_bundle(item.name))

    @property
    def wants(self) -> tuple[Request, ...]:
        if self.after is not None:
            return (ListPage(FOLDER, self.after),)
        return () if self.summaries is not None else tuple(Get(name) for name in self.bundles)

    def take(self, answers: Sequence[Any]) -> Looking:
        if self.after is not None:
            (page,) = answers
            return replace(self, listed=self.listed + page.objects, after=page.after)
        found = zip(self.bundles, answers, strict=True)
        known = tuple((name, read_summary(got.data, name)) for name, got in found if got.data is not None)
        return replace(self, summaries=known)


def bundles_block(done: Looking) -> Bundler[FilesPlan] | None:
    """What a writer does after its commit, if it is chosen; everybody is, here."""
    listed, summaries = cast("Any", done.listed), dict(done.summaries or ())
    ids = [VersionId.parse(item.name.rsplit("/")[-1][:-2]) for item in done.listed if is_version(item.name)]
    block = versions_blocks(listed, [max(ids)], 1, summaries.values(), 0) if ids else claims_block(listed, 1)
    names = [item.name for item in done.listed]
    return (
        Bundler.begin(block_plan(FOLDER, names, [item.name for item in block], summaries)) if block else None
    )


def bundle(state: State, replaces: list[str], rank: int) -> tuple[str, bytes]:
    data = encode_bundle(state.log, FOLDER, replaces)
    return bundle_name(FOLDER, rank, digest(data), int(state.log.number.max(initial=0))), data


def bundler(name: str = "bundler", plan: Any = checkpoints, kind: Any = Reader) -> Actor:
    return Actor(name, kind(FOLDER, State(FOLDER)), (plan,))


def collect_with(kind: Any = Collector) -> Stage:
    return lambda done: kind(done.state, done.listing, done.now_ms, 0)


def expirer(name: str = "expirer", *, above: int = 0, bounds: bool = True, kind: Any = Collector) -> Actor:
    """Folds all claims but the newest, or with `above` all below that time; reads again, collects."""

    def based(done: Reader[State]) -> Publish | None:
        log = done.state.log
        horizon = above or int(log.id_fields["hlc"][int(np.argmax(log.number))])
        folded = below(log, horizon)
        if done.state.base or not len(folded):
            return None
        number = int(folded.number.max())  # of the base, too: the scheduler knows one object of each name
        data = encode_bundle(folded.with_(horizon=horizon), FOLDER, number=number)
        boundary = Put(boundary_name(FOLDER, number), b"")
        return Publish((Put(base_name(FOLDER, number), data), boundary)[: 2 if bounds else 1])

    return Actor(name, Reader(FOLDER, State(FOLDER)), (based, read_again, collect_with(kind)))


def collector(name: str = "collector", kind: Any = Collector, reads: Any = Reader) -> Actor:
    """Without any grace period: whatever may happen, happens."""
    return Actor(name, reads(FOLDER, State(FOLDER)), (collect_with(kind),))


def upkeep(name: str = "upkeep", plan: Any = checkpoints, kind: Any = Collector) -> Actor:
    """Bundles, then reads again and collects."""
    return Actor(name, Reader(FOLDER, State(FOLDER)), (plan, read_again, collect_with(kind)))


def block_upkeep(name: str = "upkeep") -> Actor:
    """Bundles a block as a writer does after its commit, then reads and collects."""
    return Actor(name, Looking(), (bundles_block, read_again, collect_with()))


def read_again(_: Any) -> Reader[State]:
    return Reader(FOLDER, State(FOLDER))
