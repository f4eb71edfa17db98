"""Row ops: what a version does to single rows. A part of its ops.

=====  ==========================================================================================
key    value
=====  ==========================================================================================
d      rows deleted: row ids
o      overlays: list of [chunk ordinal, row ids]: the chunk holds new values of those rows, in its columns
a      insertions: list of [chunk ordinal, row ids]: run by run of the chunk, the row that the run follows;
       `s` beside it: where the runs begin, 4 bytes each
c      copies: list of maps, one for each chunk that a compaction wrote
=      entries that the compaction takes the place of: tags
f      versions whose effect is in the copies, or was left out of them: ids, 36 bytes each
=====  ==========================================================================================

A copy is {"i": chunk ordinal, "r": row ids of its rows in order, "p": true if the rows stand where this chunk
does from now on, "s": fields by which its rows rise, "t": stamps}. Stamps say which cells are newer than
their row: a list of [stored field, [fields], ids]; the stored field holds a number for each row, 0 for "as
old as the row", else 1 + the place of the writing version's id among `ids`, for the values of all `fields` in
that row. In keyed tables there are stamps for all fields, with one item more, the ordinals of chunks in those
versions, 4 bytes each; there 0 means "no cell".

Row ids are packed as in `crdtcat.format.row_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from crdtcat.errors import Corrupt
from crdtcat.format.row_ids import ID, RowIds, Tags, unpack_row_ids, unpack_tags
from crdtcat.format.sections import Array
from crdtcat.format.version import as_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Overlay:
    """New values for cells.

    Attributes:
        ordinal: the chunk that holds them; its columns are the ones rewritten.
        rows: which rows, in the chunk's order.
    """

    ordinal: int
    rows: RowIds


@dataclass(frozen=True, slots=True, eq=False)
class Insertion:
    """Rows that follow others, rather than everything there is.

    Attributes:
        ordinal: the chunk that holds them.
        starts: where its runs begin, rising from 0.
        after: per run, the one row it follows; in the chunk of the zero id: the beginning of the table.
    """

    ordinal: int
    starts: Array
    after: RowIds


@dataclass(frozen=True, slots=True)
class Stamps:
    """Which cells of a copy are newer than their row.

    Attributes:
        stored: the stored field with a number per row.
        fields: the stored fields whose values these are.
        ids: the versions that wrote them; number n means `ids[n - 1]`, 0 the row's own age.
        ordinals: in keyed tables, for each id the chunk of that version the cells were born in; and there 0
            means that there is no cell.
    """

    stored: str
    fields: tuple[str, ...]
    ids: tuple[bytes, ...]
    ordinals: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """A chunk that a compaction wrote.

    Attributes:
        ordinal: its place in the version.
        rows: the rows, in its order.
        stamps: cells newer than their row.
        stands: whether the rows stand where this chunk does from now on. Otherwise they stay where they were.
            Counts only in versions that are part of history.
        rises_by: stored fields by which its rows rise, the first counting most, nulls last; none where that
            is not known. Said of what is stored, whatever lies over it.
    """

    ordinal: int
    rows: RowIds
    stamps: tuple[Stamps, ...] = ()
    stands: bool = False
    rises_by: tuple[str, ...] = ()


def no_tags() -> Tags:
    """No chunks."""
    return Tags(np.empty(0, ID), np.empty(0, np.uint32))


@dataclass(frozen=True, slots=True, eq=False)
class RowOps:
    """Everything a version does to single rows. False where it does nothing.

    Attributes:
        deletes: rows that are gone for good.
        overlays: cells rewritten.
        insertions: chunks whose rows follow others.
        copies: chunks written by a compaction.
        replaces: entries the compaction takes the place of.
        folded: ids of the versions whose effect is in the copies or was left out of them.
    """

    deletes: RowIds | None = None
    overlays: tuple[Overlay, ...] = ()
    insertions: tuple[Insertion, ...] = ()
    copies: tuple[Copy, ...] = ()
    replaces: Tags = field(default_factory=no_tags)
    folded: Array = field(default_factory=lambda: np.empty(0, ID))

    def __bool__(self) -> bool:
        return bool(self.deletes or self.overlays or self.insertions or self.copies or len(self.replaces))

    def packed(self) -> dict[str, Any]:
        """For MessagePack."""
        body: dict[str, Any] = {}
        if self.deletes:
            body["d"] = self.deletes.packed()
        if self.overlays:
            body["o"] = [[overlay.ordinal, overlay.rows.packed()] for overlay in self.overlays]
        if self.insertions:
            body["a"] = [
                [item.ordinal, {**item.after.packed(), "s": item.starts.astype("<u4").tobytes()}]
                for item in self.insertions
            ]
        if self.copies:
            body["c"] = [_packed_copy(copy) for copy in self.copies]
        if len(self.replaces):
            body["="] = self.replaces.packed()
        if len(self.folded):
            body["f"] = np.ascontiguousarray(self.folded).tobytes()
        return body


NO_ROW_OPS: Final = RowOps()


def unpack_row_ops(body: Mapping[str, Any], name: str) -> RowOps:
    """The inverse of `RowOps.packed`. Raises `Corrupt`, `TypeError`, `ValueError`, `KeyError`."""
    return RowOps(
        deletes=unpack_row_ids(body["d"], name) if "d" in body else None,
        overlays=tuple(Overlay(_ordinal(at), unpack_row_ids(rows, name)) for at, rows in body.get("o", ())),
        insertions=tuple(_insertion(_ordinal(at), rows, name) for at, rows in body.get("a", ())),
        copies=tuple(_copy(item, name) for item in body.get("c", ())),
        replaces=unpack_tags(body.get("=", {}), name),
        folded=np.frombuffer(as_bytes(body.get("f", b"")), ID),
    )


def _packed_copy(copy: Copy) -> dict[str, Any]:
    body: dict[str, Any] = {"i": copy.ordinal, "r": copy.rows.packed()}
    if copy.stands:
        body["p"] = True
    if copy.rises_by:
        body["s"] = list(copy.rises_by)
    if copy.stamps:
        body["t"] = [_packed_stamps(item) for item in copy.stamps]
    return body


def _packed_stamps(stamps: Stamps) -> list[Any]:
    body = [stamps.stored, list(stamps.fields), b"".join(stamps.ids)]
    return [*body, np.array(stamps.ordinals, "<u4").tobytes()] if stamps.ordinals else body


def _copy(body: Mapping[str, Any], name: str) -> Copy:
    stands, rises_by = body.get("p", False), tuple(body.get("s", ()))
    if not isinstance(stands, bool) or not all(isinstance(item, str) for item in rises_by):
        raise Corrupt(name, "a copy that stands nowhere, or rises by something that is no field")
    stamps = []
    for stored, fields, ids, *more in body.get("t", ()):
        listed = np.frombuffer(as_bytes(ids), "V36")
        ordinals = np.frombuffer(as_bytes(more[0]), "<u4").tolist() if more else []
        if more and len(ordinals) != len(listed):
            raise Corrupt(name, "stamps that name more versions than chunks")
        if not isinstance(stored, str) or not all(isinstance(item, str) for item in fields):
            raise Corrupt(name, "stamps of something that is no field")
        stamps.append(Stamps(stored, tuple(fields), tuple(id.tobytes() for id in listed), tuple(ordinals)))
    return Copy(_ordinal(body["i"]), unpack_row_ids(body["r"], name), tuple(stamps), stands, rises_by)


def _insertion(ordinal: int, body: Mapping[str, Any], name: str) -> Insertion:
    starts, after = np.frombuffer(as_bytes(body["s"]), "<u4"), unpack_row_ids(body, name)
    rising = len(starts) > 0 and int(starts[0]) == 0 and bool((starts[1:] > starts[:-1]).all())
    if not rising or after.rows != len(starts):
        raise Corrupt(name, "an insertion whose runs do not each follow one row")
    return Insertion(ordinal, starts, after)


def _ordinal(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no chunk's place")
    return value
