"""Whether a question has another answer on one head than on another, without asking it again.

A filter is intervals over its columns, and what tells two heads apart is intervals too: rows that only one of
them has, rows that were rewritten, and the least and greatest values of the chunks these are in. Where no
interval of the one meets the other the answer is the same; where a chunk's values all lie inside, it is not.
Only rows that this leaves open are read, and of them only the columns that were asked for: they are compared
before and after, so the result is exact. In a keyed table the chunks that could contribute are compared
instead, and the question is asked again only where these differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import to_storage
from crdtcat.conflicts.tagged_rows import Tag
from crdtcat.conflicts.write_set import Numbering
from crdtcat.errors import UserError
from crdtcat.format.ops import ColumnId
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.head.columns import Column
from crdtcat.head.naming import row_ids
from crdtcat.intervals import RowSet
from crdtcat.log.log import Log
from crdtcat.scan.changes import differs
from crdtcat.scan.located import rows_between
from crdtcat.scan.masks import mask
from crdtcat.scan.merge_plan import Group
from crdtcat.scan.plan import Plan, make_plan
from crdtcat.scan.scan import Scan
from crdtcat.scan.shown import as_shown
from crdtcat.scan.side import Side, changed_rows
from crdtcat.store import Store


def answer_changed(
    before: Head,
    after: Head,
    store: Store,
    *,
    columns: Sequence[str] | None,
    filter: Any,
    verify: bool = True,
) -> bool:
    """Whether a read gives other rows on `after` than on `before`; `after` has all versions of `before`.

    No request where intervals decide, else what reading the changed rows costs that they leave open; in a
    keyed table what the read costs, twice.

    Args:
        before: what was read.
        after: what would be read now.
        store: where rows are.
        columns: those that were asked for; `None`: all; empty: only which rows there are.
        filter: the rows that were asked for; `None`: all.
        verify: whether what is read is checked against its hash.
    """
    heads = (before, after)
    if before.settings.key and columns is not None and not columns:
        columns = before.settings.key  # its rows are known by these
    try:
        first, second = (_planned(head, columns, filter) for head in heads)
    except UserError:  # a column is gone, or became another
        return True
    if [_face(item) for item in first.needed] != [_face(item) for item in second.needed]:
        return True
    if second.merge is None and _Compared(first, second, store, verify=verify).differ():
        return True
    if second.merge is None and _instances(first) == _instances(second):
        return False
    if second.merge is not None and _inputs(first) == _inputs(second):
        return False
    shown = [column.name for column in second.columns]
    return bool(shown) and not _equal(
        *(
            Scan(head, store, columns=shown, filter=filter, verify=verify, footers=FooterCache()).to_table()
            for head in heads
        )
    )


def rows_moved(before: Head, after: Head, start: int, stop: int) -> bool:
    """Whether the rows with some numbers are other rows on `after` than on `before`. No request."""
    short = [head.row_count < stop for head in (before, after)]
    if any(short):
        return not all(short)
    first, second = (_named(head, start, stop) for head in (before, after))
    return first != second


def _named(head: Head, start: int, stop: int) -> list[tuple[Tag, int, int]]:
    """Rows by number, as runs of row ids."""
    ids, numbers = row_ids(head, *rows_between(head, start, stop)), Numbering()
    tags = [numbers.tags[at] for at in numbers.groups(ids).tolist()]
    return list(zip(tags, ids.start.tolist(), ids.stop.tolist(), strict=True))


def _planned(head: Head, columns: Sequence[str] | None, filter: Any) -> Plan:
    """As asked. Without columns, those that the filter looks at are all that counts."""
    plan = make_plan(head, list(columns) if columns else None, filter)
    if columns is None or len(columns):
        return plan
    named = () if plan.filter is None else plan.filter.columns
    kept = tuple(head.columns.by_name[name] for name in named)
    return replace(plan, columns=(), needed=kept)


def _face(column: Column) -> tuple[str, pa.DataType]:
    return column.name, column.type


def _instances(plan: Plan) -> list[frozenset[ColumnId]]:
    return [item.instances for item in plan.needed]


class _Compared:
    """Two plans over heads of which one has all versions of the other, in a table without a key."""

    def __init__(self, first: Plan, second: Plan, store: Store, *, verify: bool) -> None:
        self._plans, log = (first, second), second.head.log
        self._sides = tuple(Side(plan.head, log, store, second.needed, verify=verify) for plan in self._plans)

    def differ(self) -> bool:
        """Whether they give different rows."""
        deleted, touched, inserted = changed_rows(*self._sides)
        for rows, at in ((deleted, 0), (inserted, 1)):
            certain, perhaps = self._matching(rows, at)
            if certain or any(self._mask(part, at).any() for part, _ in self._sides[at].read(perhaps)):
                return True
        near = self._matching(touched, 0, apart=False)[1] | self._matching(touched, 1, apart=False)[1]
        return self._rewritten(near)

    def _matching(self, rows: RowSet, at: int, *, apart: bool = True) -> tuple[bool, RowSet]:
        """Whether some of the rows are in the answer for certain, and those that may be in it.

        By statistics alone. With `apart` the latter are without the former.
        """
        plan, side = self._plans[at], self._sides[at]
        if not rows.total:
            return False, rows
        if plan.filter is None:
            return True, rows
        if apart and side.within(rows, plan.chunks[plan.whole]).total:
            return True, RowSet()
        return False, side.within(rows, plan.chunks)

    def _rewritten(self, rows: RowSet) -> bool:
        """Whether rows that both have are in one answer only, or are in both with other values."""
        old, new = self._sides
        for after, births in new.read(rows):
            before = old.read_at(*births)
            inside, outside = self._mask(before, 0), self._mask(after, 1)
            if (inside != outside).any():
                return True
            for column in self._plans[1].columns:
                pair = (part.column(column.name).combine_chunks() for part in (before, after))
                if (differs(*pair) & inside).any():
                    return True
        return False

    def _mask(self, rows: pa.Table, at: int) -> Array:
        """Per row whether it is in the answer."""
        plan = self._plans[at]
        if plan.filter is None:
            return np.ones(rows.num_rows, bool)
        schema = pa.schema([pa.field(item.name, item.type, item.nullable) for item in plan.needed])
        kept = mask(plan.filter, as_shown(plan.needed, rows, schema))
        return np.asarray(kept.fill_null(False).combine_chunks().to_numpy(zero_copy_only=False), bool)


def _inputs(plan: Plan) -> list[Any]:
    """What the rows of a plan over a keyed table are made from: chunks, by name, and how they are merged."""
    log, merge = plan.head.log, plan.merge
    assert merge is not None
    return [
        ([_name(log, chunk) for chunk in item.chunks], [_name(log, one.chunk) for one in item.beside])
        if isinstance(item, Group)
        else [_name(log, chunk) for chunk in merge.chunks[item].tolist()]
        for item in merge.items
    ] + [_instances(plan)]


def _name(log: Log, chunk: int) -> tuple[bytes, int]:
    version = int(log.chunk_version[chunk])
    return log.id_at(version).to_bytes(), chunk - int(log.chunk_start[version])


def _equal(first: pa.Table, second: pa.Table) -> bool:
    """Whether two tables of one schema have the same rows; not a number is the same as itself here."""
    return first.num_rows == second.num_rows and not any(
        differs(*(to_storage(table.column(name), name) for table in (first, second))).any()
        for name in first.column_names
    )
