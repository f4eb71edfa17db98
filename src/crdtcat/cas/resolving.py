"""Settling conflicts with the rows at hand: resolvers that are functions, and `theirs` for single cells.

What can be settled from row ids alone is in `crdtcat.conflicts.resolve`. Here are the answers that need
values: a function is given both sides (`crdtcat.cas.sides.Sides`) and answers "ours", "theirs", "fail", or
rows:

- where both set the same cells, the values that mine shall write instead: its cells are staged anew;
- where one side has the rows no longer, rows that mine shall add besides (`WITH_ROWS`), under new ids;
- in a keyed table, rows that mine shall upsert besides: they come last, and so prevail.

The caller's change is never touched: another one is made, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.cas.changes import LogChange
from crdtcat.cas.sides import Sides, cells
from crdtcat.chunks.types import cast_lossless, restored, to_storage
from crdtcat.conflicts import Answer, Kind, Overlap
from crdtcat.conflicts.answered import Answered
from crdtcat.conflicts.resolve import (
    Policy,
    answer_of,
    by_itself,
    possible,
    row_ids,
    settled,
    stands_as_it_is,
)
from crdtcat.conflicts.write_set import Numbering
from crdtcat.drive import put_all
from crdtcat.errors import InvalidArgument
from crdtcat.format.row_ids import RowIds
from crdtcat.format.schema_code import decode_schema
from crdtcat.head import Head
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, expand
from crdtcat.writing.bodies import CHUNK_KEYS, joined_bodies
from crdtcat.writing.fit import conform, fit, fit_some, known_from_head
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.overlays import stage_overlay

if TYPE_CHECKING:
    from crdtcat.session import Session

Given = tuple[Sides, pa.Table]
WITH_ROWS: Final[Mapping[Kind, Answer]] = {
    Kind.UPDATE_DELETE: Answer.THEIRS,
    Kind.UPDATE_OVERWRITE: Answer.THEIRS,
    Kind.DELETE_UPDATE: Answer.OURS,
    Kind.OVERWRITE_UPDATE: Answer.OURS,
    Kind.OVERWRITE_APPEND: Answer.OURS,
    Kind.UPSERT_UPSERT: Answer.OURS,
    Kind.UPSERT_DELETE: Answer.OURS,
    Kind.DELETE_UPSERT: Answer.OURS,
}
"""What becomes of mine itself where rows are answered that it shall add besides."""


def resolved(
    session: Session, change: LogChange, seen: Head | None, conflicts: Sequence[Overlap]
) -> LogChange | None:
    """The change with every conflict settled as its policy says; `None` where one cannot be.

    No request, unless values are looked at: then what reading the rows costs, and storing those of mine anew.

    Raises:
        InvalidArgument: a function answered what its kind does not allow, or other rows than it was given.
    """
    covers = (*change.covers, *((item.part, item.covers) for item in conflicts if item.covers))
    if not change.patchable:
        conflicts = [item for item in conflicts if not item.is_over]
        asked = ((item.kind, _asked(change.policy, Sides(item, session, change, seen))) for item in conflicts)
        as_it_is = all(isinstance(found, Answer) and stands_as_it_is(kind, found) for kind, found in asked)
        return replace(change, covers=covers) if as_it_is else None
    patched: LogChange | None = change
    for part in sorted({item.part for item in conflicts}):
        met = [Sides(item, session, change, seen) for item in conflicts if item.part == part]
        if patched is not None:
            patched = _resolved_part(session, patched, part, met)
    return None if patched is None else replace(patched, covers=covers)


def _resolved_part(
    session: Session, change: LogChange, part: int, conflicts: Sequence[Sides]
) -> LogChange | None:
    """The change with the conflicts of one of its versions settled."""
    answers: list[tuple[Overlap, Answer]] = []
    given: list[Given] = []
    added: list[Given] = []
    over = [id(item) for sides in conflicts for item in sides.overlap.instead]
    kept = tuple(item for item in change.answered if id(item.overlap) not in over)
    for sides in conflicts:
        if sides.overlap.is_over:
            continue
        kind, answer = sides.overlap.kind, _asked(change.policy, sides)
        if answer is Answer.THEIRS and kind is Kind.UPDATE_UPDATE:
            answer = sides.theirs
        if answer is Answer.FAIL or not _can_be_had(change, sides.overlap, answer):
            return None
        if isinstance(answer, Answer):
            answers.append((sides.overlap, answer))
        elif kind in WITH_ROWS:
            added.append((sides, answer))
            answers.append((sides.overlap, WITH_ROWS[kind]))
        else:
            given.append((sides, answer))
            answers.append((sides.overlap, Answer.OURS))
    body = settled(change.body_of(part), change.writes[part], answers)
    if body is None:
        return None
    patched: LogChange | None = change.with_body(part, body)
    if given and patched is not None:
        patched = _with_cells(session, patched, part, given)
    if patched is None or (not added and len(kept) == len(change.answered)):
        return patched
    return _with_rows(session, replace(patched, answered=kept), part, added)


def takes_rows(change: LogChange, overlap: Overlap) -> bool:
    """Whether a change can take rows that a function answers: of several versions, others may rest on one
    without rows that are added to it. New values for cells that both set add none."""
    return change.patchable and (overlap.kind not in WITH_ROWS or len(change.writes) == 1)


def _can_be_had(change: LogChange, overlap: Overlap, answer: Any) -> bool:
    """Whether no other version of a change may rest on what this answer makes another: on rows, or on a
    column that it would no longer define or drop."""
    if not isinstance(answer, Answer):
        return takes_rows(change, overlap)
    ends = answer is Answer.THEIRS and overlap.kind in (Kind.COLUMN_COLUMN, Kind.DROP_WRITE)
    return not ends or len(change.writes) == 1


def _asked(policy: Policy, sides: Sides) -> Any:
    """An answer, or a table of values for the cells that both set."""
    answer = policy.answer(sides.overlap)
    if isinstance(answer, Answer):
        return answer
    found = answer(sides)
    kind = sides.overlap.kind
    if isinstance(found, str | Answer):
        return possible(sides.overlap, answer_of(kind, found))
    if kind not in WITH_ROWS and kind is not Kind.UPDATE_UPDATE:
        raise InvalidArgument(
            f"on_conflict: for {kind.value} answer {sorted(item.value for item in kind.rule.allowed)}, not "
            f"{type(found).__name__}: this conflict is not about rows"
        )
    try:
        table = Incoming.of(found).reader(sides.known).read_all()
    except InvalidArgument as error:
        words = sorted(item.value for item in kind.rule.allowed)
        raise InvalidArgument(
            f"on_conflict: for {kind.value} a function answers one of {words}, or rows: {error.args[0]}"
        ) from error
    if kind in WITH_ROWS:
        return table if possible(sides.overlap, WITH_ROWS[kind]) is WITH_ROWS[kind] else Answer.FAIL
    count = sides.overlap.rows.total
    if table.num_rows != count or not set(table.column_names) <= set(sides.overlap.columns):
        raise InvalidArgument(
            f"on_conflict: {table.num_rows:,} rows of {table.column_names} for {count:,} rows of "
            f"{list(sides.overlap.columns)}: answer a value for each row in its order"
        )
    return table


def _with_cells(session: Session, change: LogChange, part: int, given: Sequence[Given]) -> LogChange | None:
    """The change with other values in some cells of one of its versions; `None` where that does more than
    set cells, or sets those of a column that the change itself adds, or that theirs widened before."""
    mine, before, seen = change.writes[part], change.body_of(part), given[0][0].seen
    ops, overlays = mine.ops, mine.ops.rows.overlays
    columns = {item.columns for item in mine.cells}
    if seen is None or len(columns) != 1 or len(overlays) != len(before.get("n") or ()):
        return None
    authors = {item.id for item in change.writes}
    if any(column.birth in authors for column in next(iter(columns))):
        return None
    numbers = Numbering()
    every = RowSet().union(*(numbers.rows(item.rows) for item in overlays))
    rows = row_ids(every, numbers)
    head = Head(session.table, change.log_with_part(seen.log, part), session.settings)
    ids = next(iter(columns))
    names = [column.name for column in head.columns.all if column.instances & ids]
    known = {name: (known_from_head(head.columns) or {})[name] for name in names}
    if not _is_shown(head, before):
        return None
    values = cells(session, head, rows, names)
    keys = _keys(rows, numbers)
    order = np.argsort(keys)
    for sides, table in given:
        at = order[np.searchsorted(keys, _keys(sides.rows, numbers), sorter=order)]
        types = sides.types
        for name in table.column_names:
            if types[name] != known[name].type:  # theirs widened it, for good
                known[name] = replace(known[name], type=types[name])
            values = _put(values, name, at, table.column(name), types[name])
    body, puts, made = stage_overlay(session, fit_some(values.schema, known), values, rows)
    put_all(puts, session.store, f"{session.folder}: the rows", "nothing was committed")
    kept = {name: value for name, value in before.items() if name not in CHUNK_KEYS}
    ops = by_itself(replace(ops, rows=replace(ops.rows, overlays=made)), mine.id)
    return change.with_body(part, {**body, **kept, "x": ops.encode()})


def _is_shown(head: Head, body: Mapping[str, Any]) -> bool:
    """Whether a head shows all values of a version: an earlier answer may have brought some of a type that
    mine did not know."""
    stored = (field for packed in body.get("f") or () for field in decode_schema(packed, "schema"))
    return all(
        head.columns.fits(field, column)
        for field in stored
        for column in head.columns.all
        if field.column in column.instances
    )


def _with_rows(session: Session, change: LogChange, part: int, given: Sequence[Given]) -> LogChange:
    """The change with more rows. Raises `InvalidArgument` for rows outside of what it overwrites."""
    # Verbs rest on sessions, and sessions on this.
    from crdtcat.verbs.rows import new_stager  # noqa: PLC0415

    body, ops = change.body_of(part), change.writes[part].ops
    bare = change.bare
    if bare is None:
        bare = {name: value for name, value in body.items() if name in CHUNK_KEYS}
    answered = list(change.answered)
    for sides, table in given:
        plan = fit(table.schema, sides.known, evolve=False)
        stager = new_stager(session, plan)
        stager.add(conform(table, plan.schema))
        answered.append(Answered(sides.overlap, stager.finish(), sides.asked_first))
        if ops.is_overwrite and ops.scope is not None and not ops.scope >= set(stager.staged.partitions):
            raise InvalidArgument("on_conflict: rows of other partitions than those that are overwritten")
        put_all(stager.puts, session.store, f"{session.folder}: the rows", "nothing was committed")
    others = {name: value for name, value in body.items() if name not in CHUNK_KEYS}
    body = {**joined_bodies([bare, *(item.body for item in answered)]), **others}
    return replace(change.with_body(part, body), answered=tuple(answered), bare=bare)


def _put(values: pa.Table, name: str, at: Integers, new: pa.ChunkedArray, type: pa.DataType) -> pa.Table:
    place = values.schema.get_field_index(name)
    old, new = (to_storage(cast_lossless(part, type, name), name) for part in (values.column(name), new))
    index = np.arange(len(old))
    index[at] = len(old) + np.arange(len(at))
    both = pa.concat_arrays([old, new])
    return values.set_column(
        place, values.schema.field(place).with_type(type), restored([both.take(pa.array(index))], type, name)
    )


def _keys(rows: RowIds, numbers: Numbering) -> Integers:
    """Each row as one number, in the order of the rows."""
    owner, along = expand(rows.stop.astype(np.int64) - rows.start.astype(np.int64))
    found: Integers = numbers.groups(rows)[owner] << 32 | (rows.start.astype(np.int64)[owner] + along)
    return found
