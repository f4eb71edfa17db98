"""A head that travels: pinned on the driver, read in tasks, the same everywhere.

A DataFrame must read one snapshot, however late its tasks start and whatever is committed meanwhile. So the
head itself is sent along, as a bundle with the rows that are still inside version files, and tasks make no
request for metadata. Its name would not do: after a compaction the same snapshot is read from other chunks,
and the shares dealt out on the driver would mean others. A process that takes many tasks unpacks a head once.

About 200 bytes travel for each chunk, with every task: 8 MB for a table of 40,000 chunks."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from blake3 import blake3

from crdtcat import Catalog
from crdtcat.chunks.read import FooterCache, Verify
from crdtcat.errors import Corrupt, CrdtcatError, Expired
from crdtcat.format.settings import Settings
from crdtcat.head import Head
from crdtcat.log import decode_bundle, encode_bundle
from crdtcat.scan.execute import Execution
from crdtcat.scan.merge_plan import Group, MergePlan
from crdtcat.scan.plan import Plan, make_plan
from crdtcat.scan.units import UNIT_BYTES, Unit, units
from crdtcat.session import Session
from crdtcat.spark.worker import SentAhead
from crdtcat.table import Table
from crdtcat.verbs.travel import At, head_at

HEADS_KEPT: Final = 4  # per process
_FOOTERS: Final = FooterCache()  # for all tables: segments have unique names


Readable = Unit | slice | Group
"""What a task reads at a time: a unit; in a keyed table a run of chunks, or a group merged by key."""


@dataclass(frozen=True, eq=False)
class Pinned(SentAhead):
    """One snapshot of one table, and where it is. Pickles; credentials travel with the catalog.

    Attributes:
        catalog: where the table is.
        table: its name.
        branch: which branch of it.
        packed: the head.
        digest: names these bytes.
    """

    catalog: Catalog = field(repr=False)
    table: str
    branch: str
    packed: bytes = field(repr=False)
    digest: bytes

    def head(self) -> Head:
        """The head. No request."""
        return _unpacked(_Key((self.table, self.digest), self))

    def session(self) -> Session:
        """A session on the table, for what writes. One GET, the first time in a process."""
        return self.catalog.table(self.table, self.branch)._session

    def plan(
        self, columns: tuple[str, ...] | None, filter: Any, within: tuple[int, ...] | None
    ) -> tuple[Plan, tuple[Readable, ...]]:
        """The plan of a scan of it, perhaps of some chunks only, and its units: the same wherever it is
        made."""
        name = (self.table, self.digest, columns, pickle.dumps(filter), within)
        return _planned(_Key(name, (self, columns, filter, within)))

    def execution(self, plan: Plan, *, verify: Verify | None = None) -> Execution:
        """What reads the units of a plan of this head; checks what the catalog's options say by default."""
        depth = self.catalog.options.verify if verify is None else verify
        return Execution(plan, self.catalog.store, _FOOTERS, verify=depth)

    def outlived(self, error: Corrupt, *, of_feed: bool = False) -> CrdtcatError:
        """What to raise for a file that cannot be read: `error`, or `Expired` if nothing needs it any more.

        With `of_feed` it was wanted for changes, which a query that starts again plans anew. A refresh of the
        log."""
        if error.name not in _files(self.head()):
            return error
        snapshot = self.head().snapshot
        remedy = "load it again, or start the query again" if of_feed else "load it again"
        since = f"{error.name} was collected after table {self.table!r} was loaded: {remedy}"
        try:
            now = head_at(self.session(), snapshot)
        except Expired as expired:
            return Expired(f"{expired.args[0]}; {since}")
        except CrdtcatError:
            return error
        if error.name in _files(now):
            return error
        if of_feed:
            return Expired(f"{since}; its rows were compacted since")
        return Expired(f"{since}; at={str(snapshot)!r} has the same rows, which were compacted since")


def pin(catalog: Catalog, table: Table, at: At | None) -> Pinned:
    """Pin a table as it is now, or as it was. Costs what a head costs. Raises as `head_at` does."""
    return pinned_head(catalog, head_at(table._session, at), table._session.branch)


def pinned_head(catalog: Catalog, head: Head, branch: str) -> Pinned:
    """Pin a head that was loaded before. No request."""
    log = head.log
    bundle = encode_bundle(log.with_(inline={}), head.table)
    packed = zlib.compress(pickle.dumps((bundle, dict(log.inline), head.settings)), 1)
    return Pinned(catalog, head.table, branch, packed, blake3(packed).digest())


def _files(head: Head) -> set[str]:
    """The segments that a head names."""
    plan = make_plan(head, None, None)
    return {plan.segment_file(at) for at in range(len(head.log.segment_name))}


class _Key:
    """Something to compute with, compared by what names it."""

    def __init__(self, name: tuple[Any, ...], value: Any) -> None:
        self.name, self.value = name, value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@lru_cache(HEADS_KEPT)
def _unpacked(key: _Key) -> Head:
    pinned: Pinned = key.value
    bundle, inline, settings = pickle.loads(zlib.decompress(pinned.packed))  # noqa: S301 (made by `pin`)
    assert isinstance(settings, Settings)
    log = decode_bundle(bundle, pinned.table, f"pinned head of {pinned.table}").log
    return Head(pinned.table, log.with_(inline=inline), settings)


@lru_cache(HEADS_KEPT)
def _planned(key: _Key) -> tuple[Plan, tuple[Readable, ...]]:
    pinned, columns, filter, within = key.value
    plan = make_plan(pinned.head(), columns, filter)
    if plan.merge is not None and plan.merge.groups:
        return plan, tuple(_by_key(plan, plan.merge))
    if within is not None:
        kept = np.isin(plan.chunks, within)
        plan = replace(plan, chunks=plan.chunks[kept], whole=plan.whole[kept])
    return plan, tuple(units(plan))


def _by_key(plan: Plan, merge: MergePlan) -> Iterator[Readable]:
    """A keyed table's groups, and its straight chunks in runs that one task can hold."""
    nbytes = plan.head.log.nbytes
    for item in merge.items:
        if isinstance(item, Group):
            yield item
            continue
        start, size = item.start, 0
        for at in range(item.start, item.stop):
            size += int(nbytes[plan.chunks[at]])
            if size >= UNIT_BYTES:
                yield slice(start, at + 1)
                start, size = at + 1, 0
        if start < item.stop:
            yield slice(start, item.stop)
