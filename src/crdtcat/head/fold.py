"""The fold: from a set of versions to what the table is.

A pure function of the log and the settings, computed with lattices so that grouping and order cannot
matter: chunks are an OR-set by tag, properties a map of LWW registers, counters are G-counters summed over
standing versions, overwrite epochs the greatest overwrite per scope. Chunks are handled as arrays; the few
versions that carry ops are decoded one by one.

Rules, as in the design: of the versions with one idempotency key the smallest stands and the others are
void; a chunk is alive when no standing version removed it and, if it was born in an overwrite, no greater
standing overwrite's scope contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.clock import VersionId
from crdtcat.clock.version_id import ID_BYTES
from crdtcat.format.ops import ColumnId, Definition, DefinitionId, Ops, decode_ops
from crdtcat.format.row_ids import Tags
from crdtcat.format.row_ops import Insertion
from crdtcat.format.sections import Array
from crdtcat.format.settings import Settings
from crdtcat.head.clocks import Clocks, KnownClock, Members
from crdtcat.head.columns import Columns
from crdtcat.head.compactions import compactions
from crdtcat.head.conflicts import Conflict
from crdtcat.head.insertions import insertions, twins
from crdtcat.head.keyed import KeyedRows
from crdtcat.head.resolve import resolve_columns
from crdtcat.head.row_conflicts import row_conflicts
from crdtcat.head.rows import Rows
from crdtcat.head.stragglers import lost_stragglers, stragglers
from crdtcat.head.tags import TagIndex
from crdtcat.lattice.lattice_map import LatticeMap
from crdtcat.lattice.lww import LWWRegister
from crdtcat.log.log import NONE, Log
from crdtcat.support.cached import cached_property

KEPT_BYTES_MAX: Final = 2048
KEPT_OPS_MAX: Final = 4096  # of a process, a few megabytes


@dataclass(frozen=True, eq=False)
class Folded:
    """What a set of versions amounts to.

    Attributes:
        standing: per version, whether it counts (false: void under its idempotency key, or a straggler).
        rows: where the rows of the table are.
        columns: the resolved columns.
        properties: name to value.
        clocks: who had seen what.
        ops: decoded ops of standing versions, by index.
        list_conflicts: lists every loser.
    """

    standing: Array
    rows: Rows
    columns: Columns
    properties: Mapping[str, Any]
    clocks: Clocks
    ops: Mapping[int, Ops]
    list_conflicts: Callable[[], Iterable[Conflict]]

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Every loser, sorted. Worked out when asked for: it looks at pairs of versions."""
        return tuple(sorted(self.list_conflicts(), key=str))


def fold(log: Log, settings: Settings, known: KnownClock | None = None) -> Folded:
    """Fold a log. O(versions + chunks) in arrays, plus O(ops) in Python. `known`: a clock to go on from.

    Theorems: `strong_eventual_consistency`; of the rules, one for each: `alive_exactly`, `append_survives`,
    `greater_overwrite_wins`, `cell_greatest_stamp`, `idempotency_smallest_stands`.
    """
    clocks = Clocks(log, known)
    straggling = stragglers(log, clocks)
    standing = standing_versions(log, straggling)
    ops = _decoded_ops(log, standing)
    overwrites = {at: op.scope for at, op in ops.items() if op.is_overwrite}
    if settings.key:
        rows = _keyed_rows(log, standing, ops, overwrites)
    else:
        rows = _rows(log, standing, ops, overwrites, clocks)
    used = standing & ~log.is_upkeep
    used[[at for at, op in ops.items() if op.rows.copies]] = False  # a clustering writes nothing new
    columns = _columns(log, settings, used, ops, clocks)

    def conflicts() -> list[Conflict]:
        lost = _lost_overwrites(log, overwrites, clocks)
        cells = row_conflicts(log, ops, rows, columns, clocks)
        late = lost_stragglers(log, straggling)
        return [*lost, *_lost_properties(log, ops, clocks), *columns.conflicts, *cells, *late]

    return Folded(standing & ~log.is_upkeep, rows, columns, _properties(log, ops), clocks, ops, conflicts)


def standing_versions(log: Log, straggling: Mapping[int, int]) -> Array:
    """Per version whether it stands: no straggler, and the first of its idempotency key, or without one."""
    standing = np.ones(len(log), bool)
    standing[list(straggling)] = False
    if log.key.null_count == len(log):
        return standing
    keyed = np.flatnonzero(np.asarray(log.key.is_valid()) & standing)
    codes = np.asarray(pc.dictionary_encode(log.key.take(keyed)).indices)
    _, first = np.unique(codes, return_index=True)  # versions rise by id: the first of a key is the smallest
    standing[keyed] = False
    standing[keyed[first]] = True
    return standing


def _decoded_ops(log: Log, standing: Array) -> dict[int, Ops]:
    if log.ops.null_count == len(log):
        return {}
    found = np.flatnonzero(np.asarray(log.ops.is_valid()) & standing).tolist()
    ops = log.ops.take(pa.array(found, pa.int64())).to_pylist()
    authors = (log.id_bytes[at * ID_BYTES : (at + 1) * ID_BYTES] for at in found)
    return {at: _decoded(data, author) for at, data, author in zip(found, ops, authors, strict=True)}


def _decoded(data: bytes, author: bytes) -> Ops:
    """A handle that follows a table folds nearly the same versions again and again: small ops are kept."""
    return _kept(data, author) if len(data) <= KEPT_BYTES_MAX else _decode(data, author)


def _decode(data: bytes, author: bytes) -> Ops:
    id = VersionId.from_bytes(author)
    return decode_ops(data, id, str(id))


_kept: Final = lru_cache(KEPT_OPS_MAX)(_decode)


def _rows(
    log: Log,
    standing: Array,
    ops: Mapping[int, Ops],
    overwrites: Mapping[int, frozenset[bytes] | None],
    clocks: Clocks,
) -> Rows:
    changes = {at: op.rows for at, op in ops.items() if op.rows}
    inserted = insertions(log, changes)
    twin = twins(log, inserted, clocks)
    tags = TagIndex(log, standing).with_twins(twin)
    judged = compactions(log, standing, ops, tags)
    judged.is_entry[list(twin)] = False
    gone = _removed(log, ops, tags) | _outdated(log, overwrites)
    removers = [
        at for at, op in ops.items() if op.is_overwrite or len(op.removed_versions) or op.removed_keyed
    ]
    return Rows(
        log,
        judged,
        gone=gone,
        changes=changes,
        tags=tags,
        inserted=_without(inserted, twin),
        removers=np.array(removers, np.int64),
    )


def _keyed_rows(
    log: Log, standing: Array, ops: Mapping[int, Ops], overwrites: Mapping[int, frozenset[bytes] | None]
) -> Rows:
    tags = TagIndex(log, standing)
    return KeyedRows(
        log,
        compactions(log, standing, ops, tags),
        standing=standing,
        removers={
            at: np.flatnonzero(_removed(log, {at: op}, tags))
            for at, op in ops.items()
            if len(op.removed_versions) or op.removed_keyed
        },
        outdated=_outdated(log, overwrites),
        tags=tags,
    )


def _without(inserted: Mapping[int, Insertion], twin: Mapping[int, int]) -> dict[int, Insertion]:
    return {chunk: item for chunk, item in inserted.items() if chunk not in twin}


def _removed(log: Log, ops: Mapping[int, Ops], tags: TagIndex) -> Array:
    """Per chunk whether a standing version removed it. One that this snapshot does not have may be named."""
    removed = np.zeros(log.chunk_count, bool)
    for op in ops.values():
        if len(op.removed_versions) or op.removed_keyed:
            chunks = tags.chunks(Tags(op.removed_versions, op.removed_ordinals, op.removed_keyed))
            removed[chunks[chunks >= 0]] = True
    return removed


def _outdated(log: Log, overwrites: Mapping[int, frozenset[bytes] | None]) -> Array:
    """Per chunk whether it was born in an overwrite and a greater overwrite's scope contains it."""
    if not overwrites:
        return np.zeros(log.chunk_count, bool)
    born = np.zeros(len(log), bool)
    born[list(overwrites)] = True
    born_here = born[log.chunk_version]
    whole = max((at for at, scope in overwrites.items() if scope is None), default=-1)
    dead = born_here & (log.chunk_version.astype(np.int64) < whole)
    latest = np.full(len(log.partitions) + 1, -1, np.int64)  # per partition; the last stands for "none"
    places = {values: at for at, values in enumerate(log.partitions)}
    for at, scope in overwrites.items():
        for values in scope or ():
            if values in places:
                latest[places[values]] = max(latest[places[values]], at)
    partition = np.where(log.partition == NONE, len(log.partitions), log.partition)
    dead |= born_here & (log.chunk_version.astype(np.int64) < latest[partition])
    outdated: Array = dead
    return outdated


def _lost_overwrites(
    log: Log, overwrites: Mapping[int, frozenset[bytes] | None], clocks: Clocks
) -> list[Conflict]:
    """Each overwrite that a greater one of overlapping scope had not seen, with the greatest of those.

    That another overwrite saw it later changes nothing: what it lost, it lost unseen. For each overwrite one
    clock and one comparison, in arrays, with the earlier ones of overlapping scope. Memory: O(k + scopes).
    """
    order = sorted(overwrites)
    members = Members(log, np.array(order, np.int64))
    winner = np.full(len(order), -1, np.int64)
    whole: list[int] = []  # places in `order` seen so far, by what their scope contains
    holding: dict[bytes, list[int]] = {}
    for place, at in enumerate(order):
        scope = overwrites[at]
        unseen = ~members.seen_by(clocks.of(at))
        if scope is None:
            winner[:place][unseen[:place]] = place
            whole.append(place)
            continue
        for earlier in (whole, *(holding.setdefault(values, []) for values in scope)):
            met = np.array(earlier, np.int64)
            winner[met[unseen[met]]] = place
        for values in scope:
            holding[values].append(place)
    return [
        _lost_overwrite(log.id_at(order[loser]), log.id_at(order[winner[loser]]))
        for loser in np.flatnonzero(winner >= 0).tolist()
    ]


def _lost_overwrite(loser: VersionId, winner: VersionId) -> Conflict:
    message = f"overwrite {loser} met {winner}, which had not seen it and wins where they overlap"
    return Conflict("overwrite", "", winner, loser, message)


def _properties(log: Log, ops: Mapping[int, Ops]) -> dict[str, Any]:
    registers: LatticeMap[str, LWWRegister[Any]] = LatticeMap()
    for at, op in ops.items():
        for name, value in op.properties.items():
            registers = registers.update(name, LWWRegister(log.id_at(at), value))
    return {name: register.value for name, register in registers.items() if register.value is not None}


def _lost_properties(log: Log, ops: Mapping[int, Ops], clocks: Clocks) -> Iterator[Conflict]:
    writes: dict[str, list[int]] = {}
    for at, op in ops.items():
        for name in op.properties:
            writes.setdefault(name, []).append(at)
    for name, versions in writes.items():
        order = np.array(sorted(versions), np.int64)
        members = Members(log, order)
        replaced = np.zeros(len(order), bool)  # knowingly, by some other write: not lost
        for place, at in enumerate(order.tolist()):
            seen = members.seen_by(clocks.of(at))
            seen[place] = False
            replaced |= seen
        winner = log.id_at(int(order[-1]))
        for at in order[:-1][~replaced[:-1]].tolist():
            message = f"property {name!r} set by {log.id_at(at)} lost to {winner}"
            yield Conflict("property", name, winner, log.id_at(at), message)


def _columns(
    log: Log, settings: Settings, standing: Array, ops: Mapping[int, Ops], clocks: Clocks
) -> Columns:
    definitions: dict[DefinitionId, Definition] = {}
    drops: list[tuple[int, ColumnId]] = []
    for at, op in ops.items():
        if op.definitions:
            id = log.id_at(at)
            definitions.update((DefinitionId(id, place), item) for place, item in enumerate(op.definitions))
        drops += [(at, column) for column in op.drops]
    return resolve_columns(
        log, settings, standing=standing, definitions=definitions, drops=drops, clocks=clocks
    )
