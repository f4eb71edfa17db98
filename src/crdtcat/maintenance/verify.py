"""Verify: look at every object a table rests on, before a reader has to.

Three depths, each including the one before:

- "metadata": every file of the log, every tag, the settings and the catalog's lists of garbage are read and
  checked; every segment the log refers to is there, with the right size.
- "bytes": every byte of every segment matches its hash.
- "content": every column is decoded, and its values match the chunk's hash. Finds a writer that hashed one
  thing and encoded another.

Damage is collected and reported by name with the rows that rest on it; it ends nothing. What does end it is
a store that cannot be asked. Nothing is written or mended here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import get_args

import numpy as np

from crdtcat.errors import DataError
from crdtcat.head import Head
from crdtcat.maintenance.progress import Tell, teller
from crdtcat.maintenance.verify_log import check_log
from crdtcat.maintenance.verify_report import Depth, Problem, VerifyReport
from crdtcat.maintenance.verify_segments import SegmentCheck
from crdtcat.session import Session
from crdtcat.support.arguments import require_one_of


def verify(
    session: Session,
    depth: Depth = "bytes",
    progress: bool | Tell | None = None,
    engine: Callable[..., SegmentCheck] = SegmentCheck,
) -> VerifyReport:
    """Check everything a table rests on, its earlier snapshots included.

    `engine` looks at segments: this process's threads by default. Requests: see `check_log` and
    `SegmentCheck.run`. Memory: the log, and a bounded number of pieces of segments, whatever the
    table's size.

    Raises:
        InvalidArgument: an unknown depth.
        NotFound: the table was dropped.
        StoreUnavailable, AccessDenied: the store cannot be asked.
    """
    require_one_of("depth", depth, get_args(Depth))
    began, tell = time.monotonic(), teller(progress)
    check = check_log(session, tell)
    log, problems = check.state.log, check.problems
    head = Head(session.table, log, session.settings)
    alive, rows = np.ones(log.chunk_count, bool), int(log.rows.sum(dtype=np.uint64))
    try:
        alive, rows = head.rows.chunks_read, head.row_count
    except DataError as error:
        problems.append(Problem(session.folder, f"what its versions say cannot be put together: {error}"))
    segments = engine(session.store, log, table=session.table, folder=session.folder, tell=tell)
    problems += segments.run(depth, alive)
    if problems:
        session.check_not_dropped([item.name for item in session.store.list(session.folder)])
    return VerifyReport(
        table=session.table,
        depth=depth,
        problems=tuple(problems),
        files=check.files,
        segments=len(log.segment_name),
        bytes=check.bytes + segments.bytes,
        rows=rows,
        seconds=time.monotonic() - began,
    )
