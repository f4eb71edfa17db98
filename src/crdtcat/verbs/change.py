"""Changing rows that are there: update, update_rows, delete.

Rows are found by reading, so these verbs use a fresh head; what they publish names rows, not chunks, and only
the changed cells travel. They wait for nobody and fail because of nobody: of two who change one cell the
greater version wins and the other is listed; a row that somebody deleted meanwhile stays deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat.cas.reading import Read
from crdtcat.cas.standing_back import head_to_change
from crdtcat.errors import InvalidArgument
from crdtcat.format.ops import Ops
from crdtcat.format.row_ops import RowOps
from crdtcat.head import Head, Version
from crdtcat.head.naming import row_ids
from crdtcat.intervals.runs import Integers
from crdtcat.scan.execute import Execution
from crdtcat.scan.located import all_rows_of, located, rows_between
from crdtcat.scan.plan import Plan, make_plan
from crdtcat.scan.shown import as_shown
from crdtcat.session import Session
from crdtcat.support.showing import shown
from crdtcat.verbs.rows import check_commit, removals, with_deletes
from crdtcat.verbs.values import given_values
from crdtcat.writing.fit import fit_some
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.knowledge import known_with
from crdtcat.writing.overlays import stage_overlay

Found = tuple[Integers, Integers]
"""Rows as entries and offsets in them."""


def delete(
    session: Session, where: Any, *, metadata: Mapping[str, Any] | None = None, key: str | None = None
) -> Version:
    """Delete the rows that match a filter. A refresh, a read of the filter's columns where statistics do not
    decide, then 1 PUT."""
    check_commit(metadata, key)
    head = head_to_change(session)
    plan = make_plan(head, None, where)
    session.looked(head, Read((), where))
    certain = plan.chunks[plan.whole]
    whole = certain[head.rows.untouched(certain)]
    rest = np.setdiff1d(certain, whole, assume_unique=True)
    entry, offset = _together([all_rows_of(head, rest), *_matching(session, plan.undecided())])
    ops = Ops(**with_deletes(removals(head, whole), row_ids(head, entry, offset)))
    return session.commit("delete", body={"x": ops.encode()}, metadata=metadata, key=key, seen=head)


def update(
    session: Session,
    where: Any,
    values: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Version:
    """Give the rows that match a filter new values. A refresh, a read of the columns that the filter and the
    new values look at, then 1 or 2 PUTs."""
    check_commit(metadata, key)
    head = head_to_change(session)
    new = given_values(values, head.schema, known_with(head, session.known))
    plan = make_plan(head, new.needs, where)
    session.looked(head, Read(new.looks_at, where))
    found: list[Found] = []
    tables: list[pa.Table] = []
    execution = _execution(session, plan)
    for rows in located(plan, execution):
        if not rows.rows.num_rows:
            continue
        found.append((rows.entry, rows.offset))
        tables.append(new.computed(as_shown(plan.columns, rows.rows, plan.schema)))
    changed = new.gathered(tables, sum(len(entry) for entry, _ in found))
    return _overlaid(session, head, _together(found), changed, metadata=metadata, key=key)


def update_rows(
    session: Session,
    start: int,
    stop: int,
    data: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Version:
    """Give the rows with these numbers new values. A refresh, then 1 or 2 PUTs; reads no rows."""
    check_commit(metadata, key)
    if session.settings.key:
        raise InvalidArgument(
            f"rows of {session.table!r} are known by their keys, not by numbers: upsert them"
        )
    head = head_to_change(session)
    numbers = _is_number(start) and _is_number(stop) and 0 <= start <= stop
    if numbers:  # also that they are not there is something that was read
        session.looked(head, Read(numbers=(start, stop)))
    if not numbers or stop > head.row_count:
        raise InvalidArgument(
            f"rows {shown(start)} to {shown(stop)}: table {session.table!r} has rows 0 to {head.row_count}; "
            "pass 0 <= start <= stop <= row_count"
        )
    changed = Incoming.of(data).reader(known_with(head, session.known)).read_all()
    if changed.num_rows != stop - start:
        raise InvalidArgument(f"{changed.num_rows:,} rows of new values for {stop - start:,} rows")
    return _overlaid(session, head, rows_between(head, start, stop), changed, metadata=metadata, key=key)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _overlaid(
    session: Session,
    head: Head,
    found: Found,
    changed: pa.Table,
    *,
    metadata: Mapping[str, Any] | None,
    key: str | None,
) -> Version:
    fitted = fit_some(changed.schema, known_with(head, session.known))
    body, puts, overlays = stage_overlay(session, fitted, changed, row_ids(head, *found))
    ops = Ops(rows=RowOps(overlays=overlays))
    return session.commit(
        "update", body={**body, "x": ops.encode()}, puts=puts, metadata=metadata, key=key, seen=head
    )


def _matching(session: Session, plan: Plan) -> list[Found]:
    return [(rows.entry, rows.offset) for rows in located(plan, _execution(session, plan))]


def _execution(session: Session, plan: Plan) -> Execution:
    return Execution(plan, session.store, session.footers, verify=session.options.verify)


def _together(parts: list[Found]) -> Found:
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    entries, offsets = zip(*parts, strict=True)
    return np.concatenate(entries), np.concatenate(offsets)
