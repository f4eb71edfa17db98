"""The detector: everything that mine and theirs both touched, exactly.

An append meets an append in nothing. Rows and cells are compared as intervals (theorem: `overlap_any_exact`);
where none overlap the two commute (theorem: `no_overlap_commutes`), and mine may follow theirs unchanged.
A column of the same name, type and nullability that both add is one column, as in merge mode. So columns are
known by the names that they were born with: no other commit can tell which of the two it writes to.
Cost: O(w log v) for the w intervals of the smaller write set and v of the larger. A write set is made a set
of rows when it is first compared, which is linear, and sorts where it is not in order. Keys: see `keys`.
Pure; no data is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from crdtcat.conflicts.keys import KEYS_NAMED_MAX, KeyValues, in_words, meeting
from crdtcat.conflicts.kinds import Kind
from crdtcat.conflicts.overlap import Overlap
from crdtcat.conflicts.tagged_rows import TaggedRows
from crdtcat.conflicts.write_set import WriteSet
from crdtcat.format.ops import EVERYTHING, ColumnId, TypeCode

DOUBTS_MAX: Final = 3  # reasons that one conflict gives for not being exact


class Seen(Protocol):
    """What mine's author knew of rows."""

    def alive(self, named: TaggedRows) -> TaggedRows:
        """Of some rows, those that were there, or came since."""
        ...

    def covered(self, named: TaggedRows, by: WriteSet) -> TaggedRows:
        """Of some rows, those that an overwrite had put there which this one prevails over."""
        ...


def overlaps(
    mine: WriteSet,
    theirs: WriteSet,
    *,
    dead: Sequence[WriteSet] = (),
    own: Sequence[TaggedRows] = (),
    covers: Sequence[TaggedRows] = (),
    seen: Seen | None = None,
) -> list[Overlap]:
    """Every conflict between a commit and one that came before it, in the order of `Kind`.

    One that removes a chunk whole does not say which of its rows were there, and one that was told of a
    delete, and yielded, still names the row. To rows that were gone nobody did anything. An overwrite that
    was moved past another one does not name what that had put there, and takes it away all the same.

    Args:
        mine: what mine writes.
        theirs: what theirs writes.
        dead: those before theirs, since mine read, that took rows away.
        own: rows that earlier versions of mine's own transaction delete.
        covers: rows that mine, an overwrite, takes away and does not name.
        seen: what mine's author knew; asked only about what mine names, or both do.

    Theorem: `disjoint_writes_commute`.
    """
    there = _There(dead, seen)

    def alive(met: TaggedRows) -> TaggedRows:
        met = there.of(met)
        for earlier in own if len(met) else ():
            met -= earlier
        return met

    rows = (
        replace(overlap, **_of(met))
        for overlap, named in _rows(mine, theirs, there, covers)
        if len(met := alive(named))
    )
    found = [*rows, *_columns(mine, theirs, there)]
    found += (overlap for part in (_scopes, _keys, _others) for overlap in part(mine, theirs))
    order = list(Kind)
    return sorted(found, key=lambda overlap: order.index(overlap.kind))


def taken(
    theirs: WriteSet, rows: TaggedRows, *, dead: Sequence[WriteSet] = (), seen: Seen | None = None
) -> TaggedRows:
    """Of some rows, those that theirs takes away, one by one or not."""
    return _There(dead, seen).taken(theirs, rows)


class _There:
    """Which rows were there when mine read, and when theirs came. See `overlaps`."""

    def __init__(self, dead: Sequence[WriteSet], seen: Seen | None) -> None:
        self._dead, self._seen = dead, seen

    def of(self, rows: TaggedRows) -> TaggedRows:
        """Some rows without those that were gone."""
        for earlier in self._dead if len(rows) else ():
            rows = self._left_by(earlier, rows)
        return rows if self._seen is None or not len(rows) else self._seen.alive(rows)

    def taken(self, theirs: WriteSet, rows: TaggedRows) -> TaggedRows:
        """Of some rows, those that theirs takes away."""
        return rows - self._left_by(theirs, rows) if theirs.ops.is_overwrite else rows & theirs.gone

    def _left_by(self, theirs: WriteSet, rows: TaggedRows) -> TaggedRows:
        rows -= theirs.gone
        if self._seen is None or not theirs.ops.is_overwrite or not len(rows):
            return rows
        return rows - self._seen.covered(rows, theirs)


def _rows(
    mine: WriteSet, theirs: WriteSet, there: _There, covers: Sequence[TaggedRows]
) -> Iterator[tuple[Overlap, TaggedRows]]:
    """Rows and cells, whether or not they were there."""
    if not ((mine.touches_rows or covers) and (theirs.touches_rows or theirs.takes_rows)):
        return

    def of(kind: Kind, columns: frozenset[ColumnId] = frozenset()) -> Overlap:
        return Overlap(kind, theirs.id, theirs.number, **_named(columns))

    for mine_columns, ours in mine.updated:
        for their_columns, others in theirs.updated:
            if common := _shared(mine_columns, their_columns):
                yield of(Kind.UPDATE_UPDATE, common), ours & others
    if not (mine.deletes or covers or theirs.takes_rows):  # most who meet only set cells
        return
    over, under = mine.ops.is_overwrite, theirs.ops.is_overwrite
    yield of(Kind.UPDATE_OVERWRITE if under else Kind.UPDATE_DELETE), there.taken(theirs, mine.touched)
    set_by_theirs = _taken_by(mine, covers, theirs.touched)
    yield of(Kind.OVERWRITE_UPDATE if over else Kind.DELETE_UPDATE), set_by_theirs
    if over and not under:
        yield of(Kind.OVERWRITE_DELETE), _taken_by(mine, covers, theirs.gone)
    elif not over:  # two overwrites are compared by scope
        yield of(Kind.DELETE_OVERWRITE if under else Kind.DELETE_DELETE), there.taken(theirs, mine.gone)


def _taken_by(mine: WriteSet, covers: Sequence[TaggedRows], rows: TaggedRows) -> TaggedRows:
    """Of some rows, those that mine takes away."""
    if not covers:
        return rows & mine.gone
    left = rows - mine.gone
    for part in covers:
        left -= part
    return rows - left


def _of(met: TaggedRows) -> dict[str, Any]:
    return {"rows": met.rows, "tags": met.tags}


def _named(columns: frozenset[ColumnId], others: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Columns of mine, and names that it has none of, as a conflict has them."""
    names = tuple(sorted({column.name for column in columns} | others))
    called = tuple((column, column.name) for column in sorted(columns))
    return {"columns": names, "births": names, "called": called}


def _scopes(mine: WriteSet, theirs: WriteSet) -> Iterator[Overlap]:
    """Overwrites of the table or of partitions, against additions and other overwrites."""
    if mine.ops.is_overwrite and theirs.ops.is_overwrite:
        common = _common_scope(mine.ops.scope, theirs.ops.scope)
        if common:
            inside = _within(theirs.added, mine.ops.scope)
            covers = () if theirs.keys else tuple(tag for tag, part in theirs.chunks if part in inside)
            yield Overlap(
                Kind.OVERWRITE_OVERWRITE, theirs.id, theirs.number, partitions=common, covers=covers
            )
    elif mine.ops.is_overwrite:
        common = _within(theirs.added, mine.ops.scope)
        if common:
            tags = tuple(tag for tag, partition in theirs.chunks if partition in common)
            by_key = bool(theirs.keys)
            yield Overlap(
                Kind.OVERWRITE_APPEND, theirs.id, theirs.number, tags=tags, partitions=common, by_key=by_key
            )
    elif theirs.ops.is_overwrite:
        common = _within(mine.added, theirs.ops.scope)
        if common:  # in a keyed table cells of rows that were there are rows too, by key
            sets_cells = mine.operation in ("update", "write") and bool(mine.keys)
            kind = Kind.UPDATE_OVERWRITE if sets_cells else Kind.APPEND_OVERWRITE
            yield Overlap(kind, theirs.id, theirs.number, partitions=common, by_key=sets_cells)


def _common_scope(mine: frozenset[bytes] | None, theirs: frozenset[bytes] | None) -> tuple[bytes | None, ...]:
    if mine is EVERYTHING or theirs is EVERYTHING:
        either = mine if mine is not EVERYTHING else theirs
        return (None,) if either is EVERYTHING else tuple(sorted(either))
    return tuple(sorted(mine & theirs))


def _within(added: frozenset[bytes | None], scope: frozenset[bytes] | None) -> tuple[bytes | None, ...]:
    inside = added if scope is EVERYTHING else added & scope
    return tuple(sorted(inside, key=lambda values: values or b""))


def _keys(mine: WriteSet, theirs: WriteSet) -> Iterator[Overlap]:
    """Keys of keyed tables. What mine overwrites is compared by scope; where theirs does, it has keys."""
    if mine.ops.is_overwrite:
        return
    found: dict[Kind, dict[str, KeyValues | None]] = {}
    columns: set[ColumnId] = set()
    doubts: dict[Kind, dict[str, None]] = {}
    for ours, other in meeting(mine.keys, theirs.keys):
        both = _shared(ours.columns, other.columns)
        if not ours.gone and not other.gone and not both:
            continue  # different columns of one row, or two insertions of nothing but the key
        common = ours.common(other)
        if common is None or common:
            kind = _KEY_KINDS[ours.gone, other.gone]
            words = {RANGE: None} if common is None else {in_words(values): values for values in common}
            found.setdefault(kind, {}).update(words)
            columns |= both
            if doubt := ours.doubt(other):
                doubts.setdefault(kind, {})[doubt] = None
    for kind, keys in found.items():
        touched = frozenset(columns) if kind is Kind.UPSERT_UPSERT else frozenset()
        named = tuple(keys) if len(keys) <= KEYS_NAMED_MAX else (*list(keys)[:KEYS_NAMED_MAX], "...")
        known = tuple(values for values in keys.values() if values is not None)
        known = known if len(known) == len(keys) <= KEYS_NAMED_MAX else ()
        doubt = "; ".join(list(doubts.get(kind, ()))[:DOUBTS_MAX])
        yield Overlap(
            kind, theirs.id, theirs.number, keys=named, key_values=known, doubt=doubt, **_named(touched)
        )


RANGE: Final = "a range"
"""What is said of keys that were not looked at."""


_KEY_KINDS: Final = {
    (False, False): Kind.UPSERT_UPSERT,
    (False, True): Kind.UPSERT_DELETE,
    (True, False): Kind.DELETE_UPSERT,
    (True, True): Kind.DELETE_DELETE,
}


def _columns(mine: WriteSet, theirs: WriteSet, there: _There) -> Iterator[Overlap]:
    """Definitions and drops, against each other and against values."""

    def overlap(kind: Kind, columns: frozenset[ColumnId], names: frozenset[str] = frozenset()) -> Overlap:
        return Overlap(kind, theirs.id, theirs.number, **_named(columns, names))

    shared = _shared(mine.columns, theirs.columns)
    both = frozenset(column.name for column in shared) | mine.names & theirs.names
    both = frozenset(name for name in both if not _is_added_alike(name, mine, theirs))
    if both:
        changed = frozenset(column for column in shared if column.name in both)
        yield replace(overlap(Kind.COLUMN_COLUMN, changed, both), definitions=theirs.definitions)
    written = (mine.uses | mine.without_rows) & frozenset(theirs.ops.drops)
    if written:
        yield overlap(Kind.WRITE_DROP, written)
    dropped = _shared(frozenset(mine.ops.drops), theirs.uses)
    if dropped and theirs.cells:
        held = (columns for columns, rows in theirs.updated if len(there.of(rows)))
        dropped = _shared(dropped, theirs.brings.union(*held))
    if dropped:
        yield overlap(Kind.DROP_WRITE, dropped)


def _shared(mine: frozenset[ColumnId], theirs: frozenset[ColumnId]) -> frozenset[ColumnId]:
    """Columns of mine that are, or may be shown as, one of theirs."""
    names = {column.name for column in theirs}
    return frozenset(column for column in mine if column.name in names)


def _is_added_alike(name: str, mine: WriteSet, theirs: WriteSet) -> bool:
    """Whether both add a column of this name that is the same, and do nothing else to one of that name."""
    first, second = (_addition(name, writes) for writes in (mine, theirs))
    return first is not None and second is not None and first == second


def _addition(name: str, writes: WriteSet) -> tuple[TypeCode, bool] | None:
    """What a column of this name holds that a version adds; `None` where it does anything else to one."""
    found = [item for item in writes.ops.definitions if name in (item.name, item.column.name)]
    if len(found) != 1 or any(column.name == name for column in writes.ops.drops):
        return None
    (item,) = found
    is_new = item.column.birth == writes.id and item.name == item.column.name and not item.replaces
    return (item.type, item.nullable) if is_new else None


def _others(mine: WriteSet, theirs: WriteSet) -> Iterator[Overlap]:
    both = mine.ops.properties.keys() & theirs.ops.properties.keys()
    if both:
        yield Overlap(Kind.PROPERTY_PROPERTY, theirs.id, theirs.number, properties=tuple(sorted(both)))
