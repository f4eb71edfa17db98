"""Settling conflicts with the rows at hand: resolvers that are functions, and `theirs` for single cells.

What can be settled from row ids alone is in `crdtcat.conflicts.resolve`. Here are the answers that need
values: a function is given both sides (`crdtcat.sides.Sides`) and answers "ours", "theirs", "fail", or, where
both set the same cells, rows with the values that mine shall write instead. The cells of mine are then staged
anew. The caller's change is never touched: another one is made, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crdtcat.changes import LogChange
from crdtcat.conflicts import Answer, Kind, Overlap
from crdtcat.conflicts.resolve import Policy, answer_of, row_ids, settled
from crdtcat.conflicts.write_set import Numbering
from crdtcat.drive import run
from crdtcat.errors import InvalidArgument, StoreUnavailable
from crdtcat.format.row_ids import RowIds
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, expand
from crdtcat.protocol import Outcome, Publish
from crdtcat.sides import Sides, cells, head_with
from crdtcat.writing.fit import fit_some
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.overlays import stage_overlay

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session

Given = tuple[Sides, pa.Table]


def resolved(
    session: Session, change: LogChange, seen: Head | None, conflicts: Sequence[Overlap]
) -> LogChange | None:
    """The change with every conflict settled as its policy says; `None` where one cannot be.

    No request, unless values are looked at: then what reading the rows costs, and storing those of mine anew.

    Raises:
        InvalidArgument: a function answered what its kind does not allow, or other rows than it was given.
    """
    if not change.patchable:
        return None
    answers: list[Answer] = []
    given: list[Given] = []
    for overlap in conflicts:
        sides = Sides(overlap, session, change, seen)
        answer = _asked(change.policy, sides)
        if answer is Answer.THEIRS and overlap.kind is Kind.UPDATE_UPDATE:
            answer = sides.theirs
        if answer is Answer.FAIL:
            return None
        if not isinstance(answer, Answer):
            given.append((sides, answer))
        answers.append(answer if isinstance(answer, Answer) else Answer.OURS)
    body = settled(change.body, change.writes[0], list(zip(conflicts, answers, strict=True)))
    if body is None:
        return None
    patched = replace(change, body=body)
    return _with_cells(session, patched, given) if given else patched


def _asked(policy: Policy, sides: Sides) -> Any:
    """An answer, or a table of values for the cells that both set."""
    answer = policy.answer(sides.overlap)
    if isinstance(answer, Answer):
        return answer
    found = answer(sides)
    kind = sides.overlap.kind
    if isinstance(found, str | Answer):
        return answer_of(kind, found)
    if kind is not Kind.UPDATE_UPDATE:
        raise InvalidArgument(
            f"on_conflict: for {kind.value} answer {sorted(item.value for item in kind.rule.allowed)}, not "
            f"{type(found).__name__}: values are for cells that both set"
        )
    table = Incoming.of(found).reader(sides.session.known).read_all()
    count = sides.overlap.rows.total
    if table.num_rows != count or not set(table.column_names) <= set(sides.overlap.columns):
        raise InvalidArgument(
            f"on_conflict: {table.num_rows:,} rows of {table.column_names} for {count:,} rows of "
            f"{list(sides.overlap.columns)}: answer a value for each row in its order"
        )
    return table


def _with_cells(session: Session, change: LogChange, given: Sequence[Given]) -> LogChange | None:
    """The change with other values in some of its cells; `None` where it does more than set cells."""
    ops, seen = change.writes[0].ops, given[0][0].seen
    overlays = ops.rows.overlays
    columns = {item.columns for item in change.writes[0].cells}
    if seen is None or len(columns) != 1 or len(overlays) != len(change.body.get("n") or ()):
        return None
    numbers = Numbering()
    every = RowSet().union(*(numbers.rows(item.rows) for item in overlays))
    rows = row_ids(every, numbers)
    names = sorted(column.name for column in next(iter(columns)))
    values = cells(session, head_with(session, change, seen), rows, names)
    keys = _keys(rows, numbers)
    order = np.argsort(keys)
    for sides, table in given:
        at = order[np.searchsorted(keys, _keys(sides.rows, numbers), sorter=order)]
        for name in table.column_names:
            values = _put(values, name, at, table.column(name))
    body, puts, made = stage_overlay(session, fit_some(values.schema, session.known), values, rows)
    if puts and run(Publish(tuple(puts)), session.store).outcome is not Outcome.DONE:
        raise StoreUnavailable(f"{session.folder}: the rows could not be stored; nothing was committed")
    kept = {name: change.body[name] for name in ("o", "k", "m") if name in change.body}
    ops = replace(ops, rows=replace(ops.rows, overlays=made))
    return replace(change, body={**body, **kept, "x": ops.encode()})


def _put(values: pa.Table, name: str, at: Integers, new: pa.ChunkedArray) -> pa.Table:
    place = values.schema.get_field_index(name)
    old = values.column(name).combine_chunks()
    index = np.arange(len(old))
    index[at] = len(old) + np.arange(len(at))
    both = pa.concat_arrays([old, new.cast(old.type).combine_chunks()])
    return values.set_column(place, values.schema.field(place), both.take(pa.array(index)))


def _keys(rows: RowIds, numbers: Numbering) -> Integers:
    """Each row as one number, in the order of the rows."""
    owner, along = expand(rows.stop.astype(np.int64) - rows.start.astype(np.int64))
    found: Integers = numbers.groups(rows)[owner] << 32 | (rows.start.astype(np.int64)[owner] + along)
    return found
