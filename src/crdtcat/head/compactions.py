"""Compactions: which of them count, and what the entries of the table are because of them.

A compaction counts when every version it folded is here and counts; otherwise it is as if it had never been
(theorem: `compaction_invisible`). A clustering is one, too, as far as what is read goes; that it stands in
history, and where it puts rows, is another question (`crdtcat.head.places`). Entries are chunks of rows that
no counting compaction replaced, and copies of counting compactions that none replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from crdtcat.format.kinds import COPY, ROWS
from crdtcat.format.ops import Ops
from crdtcat.format.row_ops import Copy
from crdtcat.format.sections import Array
from crdtcat.head.tags import TagIndex
from crdtcat.log.log import Log


@dataclass(frozen=True, eq=False)
class Compactions:
    """What compactions did.

    Attributes:
        is_entry: per chunk, whether rows are read from it.
        copies: per chunk that a counting compaction wrote, what is said of it.
        folded: per counting compaction, all versions whose effect is in its copies, by index.
        replaced: per counting compaction, the chunks that it replaced.
    """

    is_entry: Array
    copies: Mapping[int, Copy] = field(default_factory=dict)
    folded: Mapping[int, Array] = field(default_factory=dict)
    replaced: Mapping[int, Array] = field(default_factory=dict)


def compactions(log: Log, standing: Array, ops: Mapping[int, Ops], tags: TagIndex) -> Compactions:
    """Judge the compactions of a log, in id order. O(chunks) in arrays, O(compactions) in Python.

    Theorem: `compaction_invisible`.

    Args:
        log: the log.
        standing: per version whether it counts; a compaction also needs what it folded.
        ops: decoded ops of those versions.
        tags: resolves tags.
    """
    is_entry = (log.kind == ROWS) & standing[log.chunk_version] if log.chunk_count else np.empty(0, bool)
    counts = standing & ~log.is_upkeep
    made = [(at, op.rows) for at, op in sorted(ops.items()) if len(op.rows.replaces)]
    counts[[at for at, _ in made]] = False  # clusterings: see below
    copies: dict[int, Copy] = {}
    folded: dict[int, Array] = {}
    replaced: dict[int, Array] = {}
    for at, done in made:
        inside = log.find(done.folded)
        if (inside < 0).any() or not counts[inside].all():
            continue
        counts[at] = True
        before = [folded[version] for version in inside.tolist() if version in folded]
        folded[at] = np.unique(np.concatenate((inside, *before)))
        chunks = tags.chunks(done.replaces)
        replaced[at] = chunks[chunks >= 0]
        start = int(log.chunk_start[at])
        copies |= {start + copy.ordinal: copy for copy in done.copies if _is_copy(log, at, copy)}
    is_entry[list(copies)] = True
    for chunks in replaced.values():
        is_entry[chunks] = False
    return Compactions(is_entry, copies, folded, replaced)


def _is_copy(log: Log, version: int, copy: Copy) -> bool:
    chunk = int(log.chunk_start[version]) + copy.ordinal
    return chunk < int(log.chunk_start[version + 1]) and int(log.kind[chunk]) == COPY
