"""Merging rows by key: the greatest stamp of every cell, as whole-array work.

Theory. Each part holds rows that rise by key, each key once. Sorted together, rows of one key are a group.
Per column the cell with the greatest stamp is the one; only then is it asked whether it counts: not below the
key's delete, and not hidden by an overwrite (see `crdtcat.head.keyed`). A row is there if one of its cells
counts, its key columns included. Order and repetition of parts cannot matter.

Values stay in storage types, which Arrow can always concatenate and take from. No I/O, no plans.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crdtcat.chunks.keys import encoded_key, sort_order, starts_of_groups
from crdtcat.format.ops import ColumnId
from crdtcat.format.sections import Array

ABSENT: Final = -1  # the stamp of a cell that is not there
_NOBODY: Final = np.empty(0, np.int64)

Stamp = int | Array  # the stamps of a column in one part: the same for all rows, or one for each


class Slot(NamedTuple):
    """One instance of a column, and the storage type its values are merged in."""

    instance: ColumnId
    type: pa.DataType


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one source, rising by key, each key once.

    Attributes:
        keys: the stored key columns.
        cells: per slot its values; `None` where the source has none.
        stamps: per slot.
        row: stamps of the key columns: of the last upsert of each row.
        others: stamps of further columns, which nobody wants to see.
        deletes: cells below this stamp do not count, for every key here; `ABSENT` if it deletes none.
        held: bytes of memory that stay taken as long as any of the rows do.
    """

    keys: tuple[pa.Array, ...]
    cells: tuple[pa.Array | None, ...]
    stamps: tuple[Stamp, ...]
    row: Stamp
    others: tuple[Stamp, ...] = ()
    deletes: int = ABSENT
    held: int = 0

    def __len__(self) -> int:
        return len(self.keys[0])

    def slice(self, start: int, stop: int) -> Part:
        """Some of the rows. No copy."""
        if start == 0 and stop >= len(self):
            return self
        count = max(stop - start, 0)
        done: dict[int, Array] = {}  # columns that share stamps go on sharing them

        def cut(stamp: Stamp) -> Stamp:
            return stamp if isinstance(stamp, int) else done.setdefault(id(stamp), stamp[start:stop])

        return replace(
            self,
            keys=tuple(column.slice(start, count) for column in self.keys),
            cells=tuple(None if column is None else column.slice(start, count) for column in self.cells),
            stamps=tuple(map(cut, self.stamps)),
            row=cut(self.row),
            others=tuple(map(cut, self.others)),
        )

    def below(self, bound: bytes) -> int:
        """How many keys are below an encoded one. O(log rows)."""
        number = _as_number(self.keys, bound)
        if number is not None:
            return int(np.searchsorted(self._numbers, number, side="left"))
        return bisect_left(range(len(self)), bound, key=lambda row: encoded_key(self.keys, row))

    def up_to(self, bound: bytes) -> int:
        """How many keys are not above an encoded bound. O(log rows)."""
        return bisect_right(range(len(self)), bound, key=lambda row: encoded_key(self.keys, row))

    @property
    def _numbers(self) -> Array:
        numbers: Array = self.keys[0].to_numpy(zero_copy_only=False)
        return numbers


def _as_number(keys: Sequence[pa.Array], bound: bytes) -> Any:
    """An encoded key as the number it is, where a key is one signed integer: searched without a copy."""
    t = keys[0].type
    if len(keys) > 1 or len(bound) != 8 or not pt.is_signed_integer(t):
        return None
    number = int.from_bytes(bound, "big") - 2**63
    least, greatest = -(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1
    return t.to_pandas_dtype()(number) if least <= number <= greatest else None


class Folded(NamedTuple):
    """Merged rows, by rising key.

    Attributes:
        keys: the stored key columns.
        row: per row, the stamp of its key columns: of the last upsert that counts, or has cells that do.
        columns: per column wanted its values and their stamps, `ABSENT` where there is no cell.
    """

    keys: list[pa.Array]
    row: Array
    columns: list[tuple[pa.Array, Array]]


class Merger:
    """Merges parts that have the same slots. Theorem: `keyed_convergence`.

    Args:
        columns: per column wanted, its slots (indexes), the one that wins a tie last.
        slots: all slots.
        hidden: per stamp, whether its cells count no more; `None` where none of these parts has such.
        ended: whether a drop ended the cells of an instance with some stamps.
    """

    def __init__(
        self,
        columns: Sequence[Sequence[int]],
        slots: Sequence[Slot],
        hidden: Array | None,
        ended: Callable[[ColumnId, Array], Array | None],
    ) -> None:
        self._columns, self._slots, self._hidden, self._ended = columns, slots, hidden, ended

    def merged(self, parts: Sequence[Part]) -> tuple[list[pa.Array], list[pa.Array]]:
        """The rows that are there, by rising key: their key columns, and the columns wanted.

        O(rows log rows) to sort, then a few passes for each column. Theorem: `keyed_convergence`.
        """
        folded = self.folded(parts)
        return ([], []) if folded is None else (folded.keys, [values for values, _ in folded.columns])

    def folded(self, parts: Sequence[Part]) -> Folded | None:
        """`merged` with the stamps of all cells; `None`: no rows. Theorem: `keyed_compaction_invisible`."""
        parts = sorted((part for part in parts if len(part)), key=_age)
        if not parts:
            return None
        groups = _Groups(parts)
        deletes = tuple(part.deletes for part in parts)
        deleted = None if set(deletes) == {ABSENT} else groups.winner(deletes).stamp
        row = groups.winner(tuple(part.row for part in parts))
        newest = self._counting(row.stamp, deleted)
        if self._hidden is not None:  # a row of which the last upsert counts no more may have older cells
            for stamps in zip(*(part.stamps + part.others for part in parts), strict=True):
                newest = np.maximum(newest, self._counting(groups.winner(stamps).stamp, deleted))
        chosen = slice(None) if (newest >= 0).all() else np.flatnonzero(newest >= 0)
        at = pa.array(row.at[chosen])
        keys = [column.take(at) for column in groups.keys]
        known: dict[tuple[int, ...], _Cells] = {}
        columns = [self._column(slots, parts, groups, deleted, chosen, known) for slots in self._columns]
        return Folded(keys, newest[chosen], columns)

    def _counting(self, stamp: Array, deleted: Array | None) -> Array:
        return np.where(self._counts(stamp, deleted), stamp, ABSENT)

    def _counts(self, stamp: Array, deleted: Array | None) -> Array:
        counts: Array = stamp >= 0
        if deleted is not None:
            counts &= stamp >= deleted
        if self._hidden is not None:
            counts &= ~self._hidden[stamp]
        return counts

    def _column(  # noqa: PLR0917 (all of them describe one merge)
        self,
        slots: Sequence[int],
        parts: Sequence[Part],
        groups: _Groups,
        deleted: Array | None,
        chosen: Array | slice,
        known: dict[tuple[int, ...], _Cells],
    ) -> tuple[pa.Array, Array]:
        winners = [groups.winner(tuple(part.stamps[place] for part in parts)) for place in slots]
        # Nearly always all columns have the same ages, so that the same cells count, unless one was dropped.
        dropped = any(self._ended(self._slots[place].instance, _NOBODY) is not None for place in slots)
        alike = (*map(id, winners), *(slots if dropped else ()))
        if alike not in known:
            known[alike] = self._cells(slots, winners, groups.rows, deleted, chosen)
        cells = known[alike]
        values = [_values(part, place, self._slots[place].type) for place in slots for part in parts]
        whole = values[0] if len(values) == 1 else pa.concat_arrays(values)
        return whole.take(cells.index), cells.stamp

    def _cells(
        self,
        slots: Sequence[int],
        winners: Sequence[_Winner],
        rows: int,
        deleted: Array | None,
        chosen: Array | slice,
    ) -> _Cells:
        """Where the cells of a column are that count."""
        best = index = None
        for number, (place, winner) in enumerate(zip(slots, winners, strict=True)):
            stamp = winner.stamp[chosen]
            there = self._counts(stamp, None if deleted is None else deleted[chosen])
            ended = self._ended(self._slots[place].instance, stamp)
            if ended is not None:
                there &= ~ended
            if best is None or index is None:
                best, index = np.where(there, stamp, ABSENT), winner.at[chosen]
                continue
            there &= stamp >= best
            best = np.where(there, stamp, best)
            index = np.where(there, winner.at[chosen] + number * rows, index)
        assert best is not None
        absent = best < 0
        return _Cells(pa.array(index, mask=absent if absent.any() else None), best)


def _age(part: Part) -> int:
    """Older parts first: then the newest cell of a key is nearly always in its last row."""
    return part.row if isinstance(part.row, int) else int(part.row.max())


class _Cells(NamedTuple):
    """Cells of a column: where they are among the values of all parts, null if nowhere, and their stamps."""

    index: pa.Array
    stamp: Array


def _values(part: Part, place: int, type: pa.DataType) -> pa.Array:
    found = part.cells[place]
    return pa.nulls(len(part), type) if found is None else found


class _Winner(NamedTuple):
    """Per group: the row whose cell is the newest, among all rows of all parts, and its stamp."""

    at: Array
    stamp: Array


class _Groups:
    """The rows of some parts, sorted together and grouped by key."""

    def __init__(self, parts: Sequence[Part]) -> None:
        sizes = [len(part) for part in parts]
        self.rows = sum(sizes)
        self.keys = [_joined(columns) for columns in zip(*(part.keys for part in parts), strict=True)]
        if len(parts) == 1:
            self._order = np.arange(self.rows)
            self._starts = self._order
        else:
            order = sort_order(self.keys)
            self._order = np.asarray(order).astype(np.int64)
            self._starts = np.flatnonzero(starts_of_groups([column.take(order) for column in self.keys]))
        self._sizes = sizes
        self._part = np.repeat(np.arange(len(parts)), sizes)[self._order]
        self._group_sizes = np.diff(np.append(self._starts, self.rows))
        self._lasts = self._starts + self._group_sizes - 1
        self._found: dict[tuple[int, ...], _Winner] = {}

    def winner(self, stamps: tuple[Stamp, ...]) -> _Winner:
        """The newest cell of each group; of cells equally new the last."""
        known = tuple(stamp if isinstance(stamp, int) else -2 - id(stamp) for stamp in stamps)
        if known not in self._found:
            self._found[known] = self._winner(stamps)
        return self._found[known]

    def _winner(self, stamps: tuple[Stamp, ...]) -> _Winner:
        constant = [stamp for stamp in stamps if isinstance(stamp, int)]
        if len(constant) == len(stamps):
            ages = np.array(constant, np.int64)
            if (ages[1:] >= ages[:-1]).all():  # rows of one key stand in the order of their parts
                return _Winner(self._order[self._lasts], ages[self._part[self._lasts]])
            stamp = ages[self._part]
        else:
            columns = [
                np.full(n, s) if isinstance(s, int) else s for s, n in zip(stamps, self._sizes, strict=True)
            ]
            stamp = np.concatenate(columns).astype(np.int64)[self._order]
        if len(self._starts) == self.rows:  # every key once
            return _Winner(self._order, stamp)
        best = np.maximum.reduceat(stamp, self._starts)
        place = np.where(stamp == np.repeat(best, self._group_sizes), np.arange(self.rows), -1)
        return _Winner(self._order[np.maximum.reduceat(place, self._starts)], best)


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
