"""Edit scripts: what has to happen to the old rows so that they become the new ones.

Every old row is kept, updated or deleted; every new row is one that was kept, one that was updated, or
inserted. Kept and updated rows have the same order on both sides, so a row that moved is deleted and
inserted.

A plain value; nothing here knows how rows are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.difference.align import spread

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EditScript:
    """Rows are numbers: positions among the old rows, or among the new.

    Attributes:
        old_rows: how many there were.
        new_rows: how many there are.
        kept: rows of (old start, new start, length): runs that did not change, rising.
        updated_old: old rows of which some cells changed, rising.
        updated_new: what they become, rising too.
        changed: for every column that changed anywhere, in which updated rows it did.
        deleted: old rows that are gone, rising.
        inserted: rows of (old row, new start, length): runs of new rows, and the old row that stays and that
            they follow, -1 for the beginning; rising.
    """

    old_rows: int
    new_rows: int
    kept: Numbers
    updated_old: Numbers
    updated_new: Numbers
    changed: Mapping[str, Flags] = field(repr=False)
    deleted: Numbers
    inserted: Numbers

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (len(self.updated_old) or len(self.deleted) or len(self.inserted))

    @property
    def inserted_rows(self) -> int:
        """How many new rows are inserted."""
        return int(self.inserted[:, 2].sum())

    @property
    def kept_rows(self) -> int:
        """How many rows did not change."""
        return int(self.kept[:, 2].sum())

    def apply(self, old: pa.Table, new: pa.Table) -> pa.Table:
        """The old rows after the script: kept cells from `old`, what travels from `new`, columns as in `new`.

        The definition of what a script means, for tests and for small tables. Cost: O(rows).
        """
        kept_old, updated = spread(self.kept[:, 0], self.kept[:, 2]), slice(self.kept_rows, None)
        survivors = np.concatenate((kept_old, self.updated_old))
        inserted = spread(self.inserted[:, 1], self.inserted[:, 2])
        # An inserted row stands behind the old row it follows, and behind those inserted there before it.
        after = np.concatenate((survivors, np.repeat(self.inserted[:, 0], self.inserted[:, 2])))
        order = np.lexsort((np.concatenate((np.full(len(survivors), -1), inserted)), after))

        def column(field: pa.Field) -> pa.ChunkedArray:
            there = field.name in old.column_names and old.schema.field(field.name).type == field.type
            before = old.column(field.name).combine_chunks() if there else pa.nulls(old.num_rows, field.type)
            values = pa.concat_arrays([before, new.column(field.name).combine_chunks()])
            kept = survivors.copy()
            if field.name in self.changed:
                sent = self.changed[field.name]
                kept[updated][sent] = self.updated_new[sent] + old.num_rows
            source = np.concatenate((kept, inserted + old.num_rows))
            return pa.chunked_array([values.take(pa.array(source[order]))])

        return pa.table([column(field) for field in new.schema], schema=new.schema)

    def __repr__(self) -> str:
        return (
            f"EditScript({self.kept_rows:,} rows kept, {len(self.updated_old):,} updated, "
            f"{len(self.deleted):,} deleted, {self.inserted_rows:,} inserted)"
        )


def make_script(
    sizes: tuple[int, int], kept: Numbers, updated: tuple[Numbers, Numbers], changed: Mapping[str, Flags]
) -> EditScript:
    """The script with these rows kept and updated: other old rows are deleted, other new ones inserted.

    Args:
        sizes: how many old and new rows there are.
        kept: runs, rising and joined.
        updated: old and new rows; both rise.
        changed: as in `EditScript`.
    """
    deleted = _between(kept[:, 0], kept[:, 2], updated[0], sizes[0])
    inserted = _between(kept[:, 1], kept[:, 2], updated[1], sizes[1])
    return EditScript(
        *sizes,
        kept,
        *updated,
        {name: flags for name, flags in changed.items() if flags.any()},
        spread(deleted[:, 0], deleted[:, 1]),
        np.column_stack((_followed(kept, updated, inserted[:, 0]), inserted)),
    )


def _between(starts: Numbers, lengths: Numbers, single: Numbers, size: int) -> Numbers:
    """Runs (start, length) of the numbers below `size` that are in no run and not single."""
    begins = np.concatenate((starts, single, [size]))
    order = np.argsort(begins, kind="stable")
    ends = np.concatenate((starts + lengths, single + 1, [size]))[order]
    before = np.concatenate(([0], ends[:-1]))
    gaps = np.column_stack((before, begins[order] - before))
    return gaps[gaps[:, 1] > 0]


def _followed(kept: Numbers, updated: tuple[Numbers, Numbers], starts: Numbers) -> Numbers:
    """For inserted runs the old row before them: the later of the last kept and the last updated one."""
    last_kept = np.searchsorted(kept[:, 1], starts) - 1
    last_updated = np.searchsorted(updated[1], starts) - 1
    found = np.full(len(starts), -1, np.int64)
    has = last_kept >= 0
    found[has] = (kept[:, 0] + kept[:, 2] - 1)[last_kept[has]]
    has = last_updated >= 0
    found[has] = np.maximum(found[has], updated[0][last_updated[has]])
    return found
