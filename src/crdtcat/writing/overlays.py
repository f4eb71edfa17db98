"""New values of cells as chunks that lie over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.format.kinds import OVERLAY
from crdtcat.format.row_ids import RowIds, split_row_ids
from crdtcat.format.row_ops import Overlay
from crdtcat.protocol import Put
from crdtcat.writing.fit import Fit
from crdtcat.writing.stage import Stager

if TYPE_CHECKING:
    from crdtcat.session import Session


def stage_overlay(
    session: Session, fitted: Fit, changed: pa.Table, rows: RowIds
) -> tuple[dict[str, Any], list[Put], tuple[Overlay, ...]]:
    """New values as chunks, and what lies over which rows. Rows and values are in the same order."""

    def put(full: Put) -> None:
        session.store.put(full.name, full.data)

    partitioning = parse_partitioning(())
    stager = Stager(fitted, partitioning, session.options, time_column=None, put=put, ahead=session.store)
    stager.add(changed)
    body = stager.finish()
    counts = body.get("n") or []
    body["b"] = [OVERLAY] * len(counts) or None
    parts = split_row_ids(rows, counts)
    return body, stager.puts, tuple(Overlay(ordinal, part) for ordinal, part in enumerate(parts))
