"""Parts: rows staged in many processes, made visible by one.

A `Staging` says how the rows of one commit are staged, and pickles: send it to any number of workers. Each
stores the segments of its share and returns a `Part`, which says all that a version file will say about them
and holds no rows but the few that would ride inside it. Nobody sees a part until one version names it; a part
that is never committed is garbage for the collector. Parts of one staging are joined in the order given, so
the version is the same whoever finished first.

Staging stores segments and nothing else: it reads nothing and never commits.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crdtcat.chunks.entry_order import add_order
from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.chunks.segment import encode_segment
from crdtcat.errors import InvalidArgument, LimitExceeded
from crdtcat.format.kinds import ROWS
from crdtcat.format.schema_code import encode_schema
from crdtcat.head.snapshot import Snapshot
from crdtcat.limits import PARTITION_VALUES_PER_COMMIT_MAX
from crdtcat.options import Options
from crdtcat.protocol import Put
from crdtcat.store import Store
from crdtcat.writing.fit import Fit
from crdtcat.writing.reuse import Lookup, nowhere
from crdtcat.writing.stage import Stager
from crdtcat.writing.staged import Staged


@dataclass(frozen=True, eq=False)
class Part:
    """Rows that are staged and not yet visible. Pickles; small whatever the rows are.

    Attributes:
        staging: which staging it belongs to.
        staged: what a version file will say about its chunks.
    """

    staging: bytes
    staged: Staged

    @property
    def rows(self) -> int:
        """How many rows."""
        return sum(self.staged.rows)

    def __repr__(self) -> str:
        return f"Part({self.rows:,} rows, {len(self.staged.segments)} segments)"


@dataclass(frozen=True, eq=False)
class Staging:
    """How rows of one commit are staged, in whatever process. Pickles; credentials travel with the store.

    Attributes:
        store: where segments go.
        fit: how rows go into the table.
        partition_by: how the table is partitioned.
        options: sizes.
        time_column: the column whose range history shows.
        replaces: the snapshot whose rows the commit replaces; `None` for an append.
        key: the table's key columns.
        id: drawn at random, so that parts of different stagings are never mixed.
    """

    store: Store
    fit: Fit
    partition_by: tuple[str, ...]
    options: Options
    time_column: str | None
    replaces: Snapshot | None = None
    key: tuple[str, ...] = ()
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def stager(
        self,
        reuse: Lookup = nowhere,
        kind: int = ROWS,
        *,
        segment_bytes: int | None = None,
        full: frozenset[str] = frozenset(),
    ) -> Stager:
        """A stager that stores full segments at once, but for chunks that `reuse` finds. No request yet."""

        def put(full: Put) -> None:
            self.store.put(full.name, full.data)

        return Stager(
            self.fit,
            parse_partitioning(self.partition_by),
            self.options,
            time_column=self.time_column,
            put=put,
            ahead=self.store,
            reuse=reuse,
            key=self.key,
            kind=kind,
            segment_bytes=segment_bytes,
            full=full,
        )

    def stage(self, batches: Iterable[pa.RecordBatch]) -> Part:
        """Store rows. One PUT per `segment_bytes` of Arrow content, none for rows few enough to be inlined.

        Memory: what is on its way to the store, 512 MiB at most, and a stretch per core. Raises
        `SchemaMismatch`, `LimitExceeded`, `StoreUnavailable`; nothing is visible then.
        """
        stager = self.stager().add_all(batches)
        stager.finish()
        if stager.puts:
            stager.staged.begin()
        for last in stager.puts:
            self.store.put(last.name, last.data)
        return Part(self.id, stager.staged)


@dataclass(frozen=True, eq=False)
class Joined:
    """Parts as one: what the version file says, and a segment that must be stored before it.

    Attributes:
        body: keys of the version file.
        partitions: partition values of the chunks.
        puts: segments to store before the version.
    """

    body: dict[str, Any]
    partitions: frozenset[bytes]
    puts: tuple[Put, ...]


def join_parts(staging: Staging, parts: Sequence[Part]) -> Joined:
    """All chunks of all parts, in the order given. No request.

    Inlined rows stay inlined while they are few enough together, else they move into one segment.

    Raises:
        InvalidArgument: a part of another staging.
        LimitExceeded: more partitions than one commit may touch, or staged too long ago.
    """
    if any(part.staging != staging.id for part in parts):
        raise InvalidArgument("a part was staged for another commit: join only parts of one staging")
    whole = Staged()
    for part in parts:
        part.staged.check_in_time()
        _add(whole, part.staged)
    partitions = frozenset(whole.partitions)
    if len(partitions) > PARTITION_VALUES_PER_COMMIT_MAX:
        raise LimitExceeded(
            f"one commit touches more than {PARTITION_VALUES_PER_COMMIT_MAX:,} partitions; "
            "partition more coarsely, or commit fewer at a time"
        )
    inlined = sum(len(data) for data in whole.inline if data is not None)
    puts = (_moved(whole),) if inlined > staging.options.inline_bytes else ()
    if not any(data is not None for data in whole.inline):
        whole.inline = []
    fields = staging.fit.ordered(whole.orders)
    return Joined({"f": [encode_schema(fields)], **whole.body()}, partitions, puts)


def _add(whole: Staged, more: Staged) -> None:
    chunks, segments = len(whole.hashes), len(whole.segments)
    whole.hashes += more.hashes
    whole.rows += more.rows
    whole.nbytes += more.nbytes
    whole.partitions += more.partitions
    whole.segments += more.segments
    for at in range(0, len(more.places), 3):
        chunk, segment, group = more.places[at : at + 3]
        whole.places += (chunks + chunk, segments + segment, group)
    whole.inline += more.inline or [None] * len(more.hashes)
    for name, (code, *lists) in more.statistics.items():
        known = whole.statistics.setdefault(name, [code, [], [], []])
        for values, added in zip(known[1:], lists, strict=True):
            values.extend(added)
    for name, entries in more.orders.items():
        add_order(whole.orders, name, entries)
    if more.time_range is not None:
        known_range = whole.time_range or more.time_range
        whole.time_range = (
            min(known_range[0], more.time_range[0]),
            max(known_range[1], more.time_range[1]),
        )


def _moved(whole: Staged) -> Put:
    """Every inlined chunk in one segment, entered as its place."""
    members = [at for at, data in enumerate(whole.inline) if data is not None]
    tables = [
        decode_inline(data, "staged rows", whole.hashes[at], verify=True)
        for at, data in enumerate(whole.inline)
        if data is not None
    ]
    segment = encode_segment(tables)
    unique = secrets.token_bytes(8)
    number = len(whole.segments)
    title = whole.hashes[members[0]][:16] + unique
    whole.segments.append([title, segment.size, segment.digest, segment.footer_length])
    for group, chunk in enumerate(members):
        whole.places += (chunk, number, group)
    whole.inline = []
    return Put(segment.name(unique), segment.data)
