"""What changed between two snapshots: rows that came, rows that went, and which version did it.

Worked out chunk by chunk from the two heads: a chunk alive in the later one only was inserted, one alive in
the earlier one only was removed. What came and went in between is in neither, so a batch holds net changes.
Chunks are compared by tag, and a tag under an idempotency key is (key, hash, ordinal): where a retried task's
twin takes over, nothing changed.

Changes of single rows have their place here: another kind beside `insert` and `delete`, another selection of
units beside the two below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from crdtcat import Catalog
from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.format.ops import decode_ops
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.spark.pinned import pinned_head
from crdtcat.spark.reading import Selection, gathered
from crdtcat.spark.types import arrow_schema, spark_schema

CHANGE_FIELDS: Final = (
    st.StructField("_change_type", st.StringType(), nullable=False),
    st.StructField("_version", st.StringType(), nullable=False),
    st.StructField("_committed_at", st.TimestampType(), nullable=False),
)
"""Beside the table's columns: insert or delete, by which version, and when that was."""
INSERT: Final = "insert"
DELETE: Final = "delete"


@dataclass(frozen=True, eq=False)
class Side:
    """Chunks of one snapshot that changed.

    Attributes:
        kind: insert or delete.
        selection: where their rows are.
        authors: per chunk, who changed it.
    """

    kind: str
    selection: Selection
    authors: dict[int, VersionId]


@dataclass(frozen=True, eq=False)
class Changes:
    """Net changes between two snapshots. Pickles.

    Attributes:
        sides: rows that went, then rows that came.
        with_columns: whether batches say what kind of change a row is.
    """

    sides: tuple[Side, ...]
    with_columns: bool

    def shares(self, partition_bytes: int | None) -> list[tuple[int, tuple[int, ...]]]:
        """(side, units) for each task, of about equal size."""
        return [
            (at, share)
            for at, side in enumerate(self.sides)
            for share in side.selection.shares(partition_bytes)
        ]

    def batches(self, share: tuple[int, tuple[int, ...]]) -> Iterator[pa.RecordBatch]:
        """The changed rows of one share."""
        at, numbers = share
        side = self.sides[at]
        if not self.with_columns:
            return side.selection.batches(numbers)
        plan, _ = side.selection.planned()
        target = spark_schema(plan.schema)
        labelled = st.StructType([*target.fields, *CHANGE_FIELDS])
        return gathered(self._labelled(side, numbers), arrow_schema(labelled))

    def _labelled(self, side: Side, numbers: Sequence[int]) -> Iterator[pa.Table]:
        for chunk, table in side.selection.tables(numbers):
            author, rows = side.authors[chunk], table.num_rows
            moment = author.time.astimezone(UTC)
            values = (side.kind, str(author), pa.scalar(moment, pa.timestamp("us", "UTC")))
            for field, value in zip(CHANGE_FIELDS, values, strict=True):
                table = table.append_column(field.name, pa.repeat(value, rows))  # noqa: PLW2901
            yield table


def change_schema(schema: st.StructType) -> st.StructType:
    """The columns of a change feed. Raises `InvalidArgument` if the table has one of those names."""
    taken = [field.name for field in CHANGE_FIELDS if field.name in schema.fieldNames()]
    if taken:
        raise InvalidArgument(f"the table has a column {taken[0]!r}, as the change feed does: rename it")
    return st.StructType([*schema.fields, *CHANGE_FIELDS])


def changes_between(
    catalog: Catalog,
    before: Head,
    after: Head,
    *,
    branch: str,
    columns: tuple[str, ...] | None,
    filter: Any,
    with_columns: bool,
    ignore_deletes: bool = False,
) -> Changes:
    """The net changes from one snapshot to a later one. No request.

    Raises `InvalidArgument` where rows were removed and the reader has no column to say so, unless it is told
    to ignore that.
    """
    gone, came = _apart(before, after), _apart(after, before)
    if len(gone) and not with_columns:
        if not ignore_deletes:
            author = next(iter(_removers(before, after, gone).values()))
            raise InvalidArgument(
                f"version {author} removed rows that this stream has shown before: read it with the option "
                "changes=true, which tells inserts from deletes, or with deletes=ignore"
            )
        gone = gone[:0]
    sides = []
    if len(gone):
        selection = Selection(
            pinned_head(catalog, before, branch), columns, filter, within=tuple(gone.tolist())
        )
        sides.append(Side(DELETE, selection, _removers(before, after, gone)))
    if len(came):
        selection = Selection(
            pinned_head(catalog, after, branch), columns, filter, within=tuple(came.tolist())
        )
        log = after.log
        sides.append(
            Side(INSERT, selection, {at: log.id_at(int(log.chunk_version[at])) for at in came.tolist()})
        )
    return Changes(tuple(sides), with_columns)


def _apart(here: Head, there: Head) -> Array:
    """Live chunks of one head whose tags are not alive in the other."""
    known = set(_tags(there, there.live))
    return np.array([at for at, tag in _pairs(here) if tag not in known], np.int64)


def _pairs(head: Head) -> Iterator[tuple[int, Any]]:
    return zip(head.live.tolist(), _tags(head, head.live), strict=True)


def _tags(head: Head, chunks: Array) -> Iterator[Any]:
    log = head.log
    keyed = np.asarray(log.key.is_valid())
    for chunk in chunks.tolist():
        version = int(log.chunk_version[chunk])
        ordinal = chunk - int(log.chunk_start[version])
        if keyed[version]:
            yield log.key[version].as_py(), log.hash[chunk].tobytes(), ordinal
        else:
            yield log.id_at(version).to_bytes(), ordinal


def _removers(before: Head, after: Head, gone: Array) -> dict[int, VersionId]:
    """For each chunk that went, the version that names it as removed; else the last that could have."""
    log, old = after.log, before.log
    fresh = np.flatnonzero(old.find(log.ids) < 0)
    named: dict[tuple[bytes, int], VersionId] = {}
    last = log.id_at(int(fresh[-1]))
    for at in fresh.tolist():
        if not log.ops[at].is_valid:
            continue
        id = log.id_at(at)
        ops = decode_ops(log.ops[at].as_py(), id, str(id))
        last = id if ops.is_overwrite else last
        for version, ordinal in zip(
            ops.removed_versions.tolist(), ops.removed_ordinals.tolist(), strict=True
        ):
            named.setdefault((bytes(version).ljust(36, b"\0"), int(ordinal)), id)
    found = {}
    for chunk in gone.tolist():
        version = int(old.chunk_version[chunk])
        tag = old.id_at(version).to_bytes(), chunk - int(old.chunk_start[version])
        found[chunk] = named.get(tag, last)
    return found
