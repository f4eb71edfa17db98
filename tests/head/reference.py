"""Real histories in the terms of the reference model, so that the fold can be held against it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crdtcat.chunks.type_codes import decode_type, encode_type
from crdtcat.chunks.widen import widen
from crdtcat.clock import VersionId
from crdtcat.format.kinds import COPY, OVERLAY
from crdtcat.format.ops import SELF, ColumnId
from crdtcat.format.row_ids import RowIds
from crdtcat.testing.strategies_log import TYPES, History, Made
from tests.model import versions as model
from tests.model.head import Head as ModelHead
from tests.model.head import head as model_head

CODES: list[Any] = [encode_type(kind) for kind in TYPES]


def _lossless() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for a in CODES:
        for b in CODES:
            wider = widen(decode_type(a), decode_type(b))
            if wider is not None and a != b:
                found[a, b] = str(encode_type(wider))
    return found


def settings_of(history: History) -> model.Settings:
    declared = tuple((item.name, item.type) for item in history.settings.columns or ())
    return model.Settings(columns=declared, lossless=_lossless())


def _instance(column: ColumnId, author: VersionId) -> model.Instance:
    return (column.name, author if column.birth is SELF else column.birth)


Paths = dict[tuple[VersionId, int], model.Position]


def rows_of(ids: RowIds) -> list[model.RowId]:
    """Row ids as the model has them, in order."""
    tags: list[model.Tag] = [
        (VersionId.from_bytes(raw.ljust(36, b"\0")), ordinal)
        for raw, ordinal in zip(ids.tags.versions.tolist(), ids.tags.ordinals.tolist(), strict=True)
    ]
    tags += [(tag.key, tag.hash, tag.ordinal) for tag in ids.tags.keyed]
    intervals = zip(ids.tag.tolist(), ids.start.tolist(), ids.stop.tolist(), strict=True)
    return [(tags[tag], offset) for tag, start, stop in intervals for offset in range(start, stop)]


def _after(made: Made, index: int, paths: Paths) -> model.Position | None:
    """Where an inserted chunk stands: behind the path of the row it names."""
    for item in made.ops.rows.insertions:
        if item.ordinal == index:
            (((id, ordinal), offset),) = rows_of(item.after)
            path = (*paths.get((id, ordinal), ()), (id, ordinal, offset))
            paths[made.id, index] = path
            return path
    return None


def version_of(made: Made, rows: dict[tuple[VersionId, int], int], paths: Paths) -> model.Version:
    """One version. `rows`: how many rows each chunk has, because the model deletes row by row. `paths`: where
    inserted chunks stand, for those inserted behind them."""
    chunks, overlays = [], []
    for index, chunk in enumerate(made.chunks):
        names = [_instance(item.column, made.id) for item in chunk.fields]
        values = zip(*(chunk.table[item.name].to_pylist() for item in chunk.fields), strict=True)
        stored = tuple(tuple(zip(names, row, strict=True)) for row in values)
        if chunk.kind == OVERLAY:
            (overlay,) = (item for item in made.ops.rows.overlays if item.ordinal == index)
            cells = zip(rows_of(overlay.rows), stored, strict=True)
            overlays.append(tuple(((row, name), value) for row, values in cells for name, value in values))
            continue
        if chunk.kind == COPY:
            continue
        tag = None if made.key is None else (made.key, chunk.hash, index)
        called = tuple(item.name for item in chunk.fields)
        chunks.append(model.Chunk(stored, chunk.partition, _after(made, index, paths), tag, called))
    ops = made.ops
    deletes: set[model.RowId] = set()
    for raw, ordinal in zip(ops.removed_versions.tolist(), ops.removed_ordinals.tolist(), strict=True):
        id = VersionId.from_bytes(raw.ljust(36, b"\0"))
        deletes |= {((id, ordinal), offset) for offset in range(rows[id, ordinal])}
    for keyed in ops.removed_keyed:
        deletes |= {((keyed.key, keyed.hash, keyed.ordinal), offset) for offset in range(9)}
    if ops.rows.deletes is not None:
        deletes |= set(rows_of(ops.rows.deletes))
    scope = None
    if ops.is_overwrite:
        scope = model.ALL if ops.scope is None else frozenset(ops.scope)
    fields = made.chunks[0].fields if made.chunks and made.chunks[0].kind != COPY else ()
    placed = [row for copy in ops.rows.copies if copy.stands for row in rows_of(copy.rows)]
    return model.Version(
        made.id,
        made.clock,
        adds=tuple(chunks),
        deletes=frozenset(deletes),
        overlays=tuple(overlays),
        columns=tuple((_instance(item.column, made.id), item.type) for item in fields),
        properties=tuple(sorted(ops.properties.items())),
        defines=tuple(
            model.Definition(
                _instance(item.column, made.id),
                item.name,
                item.type,
                frozenset((old.version, old.index) for old in item.replaces),
            )
            for item in ops.definitions
        ),
        drops=frozenset(_instance(column, made.id) for column in ops.drops),
        overwrite=scope,
        keys=frozenset() if made.key is None else frozenset({made.key}),
        cluster=tuple(placed) or None,
    )


def reference_head(history: History) -> ModelHead:
    rows = {
        (made.id, index): chunk.table.num_rows
        for made in history.versions
        for index, chunk in enumerate(made.chunks)
    }
    paths: Paths = {}
    state = model.state_of(*(version_of(made, rows, paths) for made in history.versions))
    return model_head(state, settings_of(history))


def type_name(type: pa.DataType) -> str:
    return str(encode_type(type))
