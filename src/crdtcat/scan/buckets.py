"""Pruning by bucket: a filter that fixes a column's value fixes the bucket its rows are in.

Min and max say nothing about a hash, so this is the one transform whose partition values prune where a
chunk's own statistics cannot. (For all others the statistics of the chunk are at least as tight.)
"""

from __future__ import annotations

import numpy as np

from crdtcat.chunks.partitions import Values, decode_values, parse_partitioning
from crdtcat.chunks.types import decode_type, without_encodings
from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array
from crdtcat.head.head import Head
from crdtcat.log.log import NONE
from crdtcat.scan.filters import Predicate
from crdtcat.scan.source import entries_overlaid


def in_matching_buckets(head: Head, predicate: Predicate) -> Array:
    """Per live chunk, whether its buckets can hold a matching row. O(partitions) in Python."""
    partition = head.log.partition[head.live]
    certain = np.zeros(len(head.live), bool)  # rows that moved since they were written may be anywhere
    keep = np.ones(len(head.log.partitions) + 1, bool)  # the last stands for "no partition"
    partitioning = parse_partitioning(head.settings.partition_by)
    for place, field in enumerate(partitioning.fields):
        wanted = predicate.equalities(field.column) if field.transform == "bucket" else None
        if wanted is None or not _written_as_shown(head, field.column):
            continue
        buckets = {partitioning.bucket_of(place, value) if value.is_valid else None for value in wanted}
        if any(value.is_valid and partitioning.bucket_of(place, value) is None for value in wanted):
            continue  # a value that no bucketed column holds: leave it to the rows
        certain |= entries_overlaid(head, head.columns.by_name[field.column])[head.live]
        for number in np.unique(partition[partition != NONE]).tolist():
            keep[number] &= values_at(head, number, len(partitioning.fields))[place] in buckets
    kept: Array = keep[np.where(partition == NONE, len(head.log.partitions), partition)] | certain
    return kept


def values_at(head: Head, number: int, fields: int) -> Values:
    """The values of a partition by its number. Raises `Corrupt`, naming a version that has it."""
    log = head.log
    try:
        return decode_values(log.partitions[number], fields, f"table {head.table!r}")
    except Corrupt as error:
        chunk = int(np.flatnonzero(log.partition == number)[0])
        raise Corrupt(f"{log.id_at(int(log.chunk_version[chunk]))}.v", error.why) from error


def _written_as_shown(head: Head, name: str) -> bool:
    """Whether every live chunk holds the column in today's type: buckets are of values as written."""
    shown = head.columns.by_name.get(name)
    return shown is not None and all(
        without_encodings(decode_type(field.type)) == without_encodings(shown.type)
        for schema in np.unique(head.log.chunk_schema[head.live]).tolist()
        for field in head.columns.fields(schema)
        if field.name == name
    )
