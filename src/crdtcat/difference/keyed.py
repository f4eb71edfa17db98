"""Rows matched by key: whatever else changed, equal keys are one row before and after.

Keys are compared by two hashes, 128 bits. Rows stay in order: of matches that cross, the most that do not
are kept, and the others are rows that moved.

Pure: tables in, pairs out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crdtcat.chunks.row_hash import row_hashes
from crdtcat.difference.align import Numbers, matches
from crdtcat.difference.increasing import heaviest_increasing
from crdtcat.errors import InvalidArgument


def match_keys(old: pa.Table, new: pa.Table, gaps: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """Old and new rows with equal keys, both rising, as many as possible.

    Args:
        old: the key columns of the old rows.
        new: of the new rows.
        gaps: for each row a number; only rows with equal numbers may be matched. Rising on either side.

    Raises:
        InvalidArgument: two rows of one side have equal keys.
    """
    hashes = row_hashes(old), row_hashes(new)
    for side, table, found in (("old", old, hashes[0]), ("new", new, hashes[1])):
        twice = len(found) - len(np.unique(found))
        if twice:
            raise InvalidArgument(
                f"{twice:,} of the {side} rows have the key {table.column_names} of another: keys are unique"
            )
    first, second = matches(*hashes)
    order = np.argsort(first)
    first, second = first[order], second[order]
    same = row_hashes(old.take(pa.array(first)), lane=1) == row_hashes(new.take(pa.array(second)), lane=1)
    same &= gaps[0][first] == gaps[1][second]
    first, second = first[same], second[same]
    stay = heaviest_increasing(first, second)
    return first[stay], second[stay]
