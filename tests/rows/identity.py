"""Rows by their ids, and what a table would be had nobody ever written rows anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from crdtcat import Table
from crdtcat.chunks.read import FooterCache
from crdtcat.format.version import OPERATIONS
from crdtcat.head import Head
from crdtcat.head.naming import births
from crdtcat.log import select
from crdtcat.scan.execute import Execution
from crdtcat.scan.located import located
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown

RowId = tuple[str, int, int]
"""Version, ordinal of the chunk, offset."""


def cells_by_row(head: Head, table: Table) -> dict[RowId, dict[str, Any]]:
    """Every row of a head by its id, in row order."""
    plan = make_plan(head, None, None)
    execution = Execution(plan, table._session.store, FooterCache(), verify=True)
    found: dict[RowId, dict[str, Any]] = {}
    for part in located(plan, execution):
        birth, offset = births(head, part.entry, part.offset)
        rows = as_shown(plan.columns, part.rows, plan.schema).to_pylist()
        for chunk, at, row in zip(birth.tolist(), offset.tolist(), rows, strict=True):
            version = int(head.log.chunk_version[chunk])
            ordinal = chunk - int(head.log.chunk_start[version])
            id = (str(head.log.id_at(version)), ordinal, at)
            assert id not in found
            found[id] = row
    return found


def without_rewriting(head: Head) -> Head:
    """The same versions but for compactions and clusterings: rows where they were born."""
    rewriting = [OPERATIONS.index(name) for name in ("compact", "cluster")]
    kept = ~np.isin(head.log.operation, rewriting)
    return Head(head.table, select(head.log, kept), head.settings)
