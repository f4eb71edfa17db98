"""From chunks to an edit script: only what lies between equal chunks is loaded and compared.

Old and new chunks are aligned by their hashes; equal ones are unchanged runs of rows, unread. What lies
between is a region. Where a region's boundaries stand at the same rows on both sides, rows are first
compared in place, and only in columns whose hashes differ: rows that were updated where they stood, however
scattered, cost the columns that changed. Where most cells differ in place, or a row is found elsewhere, rows
have come or gone, and the region is aligned row by row (`crdtcat.difference.rows`), or by key
(`crdtcat.difference.keyed`).

Columns that only the new rows have are null in the old ones; columns that only the old rows have do not
count. A column of another type is one that the old rows do not have: who can cast it loads it as the new
type.

Pure, but for calling `OldChunk.load`, from several threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from crdtcat.chunks.row_hash import Hashes, add_column, row_hashes
from crdtcat.difference.align import Alignment, Numbers, joined, spread
from crdtcat.difference.cells import differing
from crdtcat.difference.keyed import match_keys
from crdtcat.difference.regions import (
    Block,
    Found,
    NewChunk,
    OldChunk,
    align_chunks,
    blocks,
    found_pairs,
    neighbours,
    outside,
    together,
)
from crdtcat.difference.rising import match_rising
from crdtcat.difference.rows import align_rows, changed_cells, pair_rows
from crdtcat.difference.script import EditScript, make_script
from crdtcat.errors import InvalidArgument
from crdtcat.support.pools import ThreadPool


def difference(
    old: Sequence[OldChunk],
    schema: pa.Schema,
    new: pa.Table,
    chunks: Sequence[NewChunk],
    *,
    key: Sequence[str] | None = None,
) -> EditScript:
    """The edit script that makes the old rows the new ones, in order.

    Cost: O(chunks); for regions that differ, loading the old rows (only the columns that changed, where rows
    were updated in place) and a few passes over both sides, on all cores. Memory: what is loaded of one
    region.

    Args:
        old: the old rows, in order.
        schema: the columns that `OldChunk.load` can give.
        new: the new rows.
        chunks: how the new rows are cut.
        key: columns that tell rows apart: rows with equal keys are one row before and after. Rows moved
            against each other are deleted and inserted, so sort the new rows as the old ones are.

    Raises:
        InvalidArgument: chunks that do not make up the table, or rows with equal keys.
    """
    if sum(chunk.rows for chunk in chunks) != new.num_rows:
        raise InvalidArgument(f"the chunks do not have the {new.num_rows:,} rows of the table")
    return _Comparison(old, schema, new, chunks).script(key)


class _Comparison:
    """One call of `difference`."""

    def __init__(
        self, old: Sequence[OldChunk], schema: pa.Schema, new: pa.Table, chunks: Sequence[NewChunk]
    ) -> None:
        self.old, self.new, self.chunks = old, new, chunks
        types = dict(zip(schema.names, schema.types, strict=True))
        self.columns = [field.name for field in new.schema if types.get(field.name) == field.type]
        self.added = [field.name for field in new.schema if types.get(field.name) != field.type]
        self.old_ends = np.cumsum([0, *(chunk.rows for chunk in old)])
        self.new_ends = np.cumsum([0, *(chunk.rows for chunk in chunks)])

    def script(self, key: Sequence[str] | None) -> EditScript:
        same = align_chunks(self.old, self.chunks)
        kept = np.column_stack(
            (
                self.old_ends[same.runs[:, 0]],
                self.new_ends[same.runs[:, 1]],
                self.old_ends[same.runs[:, 0] + same.runs[:, 2]] - self.old_ends[same.runs[:, 0]],
            )
        )
        with ThreadPool(os.cpu_count() or 1, "crdtcat-difference") as pool:
            if key is not None:
                found = [self._by_key(pool, same, kept, list(key))]
            else:
                found = [*chain.from_iterable(self._region(pool, tuple(gap)) for gap in same.gaps.tolist())]
        everything = Found(kept, (kept[:0, 0], kept[:0, 0]), {})
        whole = self._with_added(together([everything, *found], self.columns))
        sizes = int(self.old_ends[-1]), self.new.num_rows
        return make_script(sizes, whole.kept, whole.updated, whole.changed)

    def _region(self, pool: ThreadPool, region: Block) -> Iterator[Found]:
        """Compare in place what can be, and row by row what is left."""
        ends = self.old_ends[region[0] : region[1] + 1], self.new_ends[region[2] : region[3] + 1]
        parts = blocks(region, *ends)
        results = self._settled(parts, [*pool.map(self._in_place, parts)])
        yield from (result for result in results if result is not None)
        for block in neighbours(
            [part for part, result in zip(parts, results, strict=True) if result is None]
        ):
            if block[0] < block[1] and block[2] < block[3]:  # else all its rows came, or went
                yield from self._aligned(pool, block)

    def _settled(self, parts: list[Block], results: list[Found | None]) -> list[Found | None]:
        """The same without answers whose first or last row changed, beside a block that was not answered:
        that row may be there all the same, in that block, if rows came or went where one block ends."""

        def is_open(at: int) -> bool:
            return 0 <= at < len(results) and results[at] is None

        settled = list(results)
        for at, (block, found) in enumerate(zip(parts, results, strict=True)):
            if found is not None and len(found.updated[0]):
                first, last = int(self.old_ends[block[0]]), int(self.old_ends[block[1]]) - 1
                begins, ends = found.updated[0][0] == first, found.updated[0][-1] == last
                if (begins and is_open(at - 1)) or (ends and is_open(at + 1)):
                    settled[at] = None
        return settled

    def _in_place(self, block: Block) -> Found | None:
        """The n-th row against the n-th; None if the counts or most cells differ, or rows have moved."""
        o0, o1, n0, n1 = block
        start, before = int(self.new_ends[n0]), int(self.old_ends[o0])
        rows = int(self.new_ends[n1]) - start
        if int(self.old_ends[o1]) - before != rows:
            return None
        names = self._different_columns(block)
        old, new = self._load(o0, o1, names), self.new.slice(start, rows).select(self.columns)
        cells = {}
        anywhere = np.zeros(rows, np.bool_)
        for name in names:
            differs = differing(old[name], new[name], name)
            if differs.any():
                cells[name] = differs
                anywhere |= differs
        updated = np.flatnonzero(anywhere)
        if 2 * len(updated) > rows and 2 * len(cells) > len(self.columns):
            return None
        if _have_moved(old, new, updated, list(cells)):
            return None
        edges = np.flatnonzero(np.diff(np.r_[True, anywhere, True].astype(np.int8)))
        begins, lengths = edges[::2], edges[1::2] - edges[::2]
        kept = np.column_stack((begins + before, begins + start, lengths))
        changed = {name: differs[updated] for name, differs in cells.items()}
        return Found(kept, (updated + before, updated + start), changed)

    def _different_columns(self, block: Block) -> list[str]:
        """Columns whose hashes differ or are not known."""
        o0, o1, n0, n1 = block
        known = self.old[o0].column_hashes
        if o1 - o0 != 1 or n1 - n0 != 1 or known is None or self.old[o0].hash is None:
            return self.columns
        before, after = known(), self.chunks[n0].column_hashes
        return [name for name in self.columns if name not in before or before[name] != after[name]]

    def _aligned(self, pool: ThreadPool, block: Block) -> list[Found]:
        """Row by row, wherever they stand: by a column that rises, or by their hashes."""
        o0, o1, n0, n1 = block
        ends = self.new_ends[n0 : n1 + 1] - self.new_ends[n0]
        tables = [*pool.map(lambda at: self._load(at, at + 1, self.columns), range(o0, o1))]
        old, new = pa.concat_tables(tables), self.new.slice(int(self.new_ends[n0]), int(ends[-1]))
        found = match_rising(old, new, self.columns, ends.tolist(), pool.map)
        if found is None:
            slices = [new.slice(start, stop - start) for start, stop in pairwise(ends.tolist())]
            hashes = [[*pool.map(self._hashed, side)] for side in (tables, slices)]
            found = [self._by_hashes(old, new, (np.concatenate(hashes[0]), np.concatenate(hashes[1])))]
        return [one.moved(int(self.old_ends[o0]), int(self.new_ends[n0])) for one in found]

    def _hashed(self, rows: pa.Table) -> Hashes:
        return row_hashes(rows, self.columns)

    def _by_hashes(self, old: pa.Table, new: pa.Table, hashes: tuple[Hashes, Hashes]) -> Found:
        found = align_rows(old, new, self.columns, hashes)
        pairs = pair_rows(found, old, new, self.columns)
        return found_pairs(found.runs, pairs, changed_cells(old, new, pairs, self.columns))

    def _by_key(self, pool: ThreadPool, same: Alignment, kept: Numbers, key: list[str]) -> Found:
        """Everything outside equal chunks, by key."""
        missing = [name for name in key if name not in self.columns]
        if missing:
            raise InvalidArgument(f"key column {missing[0]!r} is not in both the old and the new rows")
        old_at, new_at = (
            outside(len(self.old), same.runs[:, ::2]),
            outside(len(self.chunks), same.runs[:, 1:]),
        )
        parts = [*pool.map(self._loaded, old_at.tolist())]
        old_rows = spread(self.old_ends[old_at], np.diff(self.old_ends)[old_at])
        new_rows = spread(self.new_ends[new_at], np.diff(self.new_ends)[new_at])
        empty = self.new.schema.empty_table()
        old = pa.concat_tables([empty.select(self.columns), *(table for table, _ in parts)])
        new = pa.concat_tables(
            [empty, *(self.new.slice(int(self.new_ends[at]), self.chunks[at].rows) for at in new_at.tolist())]
        )
        gaps = tuple(np.searchsorted(kept[:, side], rows) for side, rows in ((0, old_rows), (1, new_rows)))
        first, second = match_keys(old.select(key), new.select(key), (gaps[0], gaps[1]))
        changed = changed_cells(old, new, (first, second), self.columns)
        return found_pairs(kept[:0], (old_rows[first], new_rows[second]), changed)

    def _loaded(self, at: int) -> tuple[pa.Table, Hashes]:
        table = self._load(at, at + 1, self.columns)
        return table, row_hashes(table)

    def _load(self, o0: int, o1: int, columns: list[str]) -> pa.Table:
        if not columns:
            return self.new.slice(0, 0).select([])
        tables = [chunk.load(columns).select(columns) for chunk in self.old[o0:o1]]
        for table, chunk in zip(tables, self.old[o0:o1], strict=True):
            if table.num_rows != chunk.rows:
                raise InvalidArgument(f"a chunk of {chunk.rows:,} rows was loaded with {table.num_rows:,}")
        return pa.concat_tables(tables)

    def _with_added(self, found: Found) -> Found:
        """The same with cells of added columns that are not null as changes."""
        there = {name: self.new.column(name).is_valid().to_numpy() for name in self.added}
        anywhere = np.logical_or.reduce([np.zeros(self.new.num_rows, np.bool_), *there.values()])
        if not anywhere.any():
            return found
        old, new = spread(found.kept[:, 0], found.kept[:, 2]), spread(found.kept[:, 1], found.kept[:, 2])
        more = anywhere[new]
        updated_old, updated_new = (
            np.concatenate(both) for both in zip(found.updated, (old[more], new[more]), strict=True)
        )
        order = np.argsort(updated_old, kind="stable")
        changed = {
            name: np.concatenate((flags, np.zeros(int(more.sum()), np.bool_)))[order]
            for name, flags in found.changed.items()
        }
        changed |= {name: flags[updated_new[order]] for name, flags in there.items()}
        kept = joined(np.column_stack((old, new, np.ones(len(old), np.int64)))[~more])
        return Found(kept, (updated_old[order], updated_new[order]), changed)


def _have_moved(old: pa.Table, new: pa.Table, updated: Numbers, names: Sequence[str]) -> bool:
    """Whether a row that differs in place is there all the same, elsewhere: then rows have come or gone.

    Columns that are not in `names` are equal in place, so the new rows have those cells of the old ones.
    """
    if not len(updated):
        return False
    rows = pa.array(updated)
    old_rows, new_rows = np.zeros(len(updated), np.uint64), np.zeros(len(updated), np.uint64)
    for sums, table in ((old_rows, old), (new_rows, new)):
        for name in names:
            add_column(sums, table.column(name).take(rows), name)
    if not _overlap(old_rows, new_rows):
        return False
    rest = [name for name in new.column_names if name not in names]
    taken = new.select(rest).take(rows) if rest else new.slice(0, 0)
    for name in rest:
        add_column(old_rows, taken.column(name), name)
        add_column(new_rows, taken.column(name), name)
    return _overlap(old_rows, new_rows)


def _overlap(one: Hashes, other: Hashes) -> bool:
    """Whether some number is in both. Sorted first, which is several times as fast as `numpy.isin`."""
    one, other = np.sort(one), np.sort(other)
    return bool((one[np.minimum(np.searchsorted(one, other), len(one) - 1)] == other).any())
