"""Where rows that `write` adds stand, in tables that are partitioned and in others.

Rows of a partitioned table are compared partition by partition: within one they have the order of the data,
and how partitions alternate is left as it is. Both sides are numbered so, partition after partition, and a
run of new rows has to be cut where a partition ends. No I/O.
"""

from __future__ import annotations

import numpy as np

from crdtcat.difference import EditScript
from crdtcat.difference.align import Flags, joined
from crdtcat.difference.script import make_script
from crdtcat.intervals.runs import Integers


def apart(script: EditScript, old_ends: Integers, new_ends: Integers) -> EditScript:
    """The same with rows deleted and inserted that were taken for each other across partitions.

    Rows keep their place for life, so one of another partition would stand where that one's rows do: before
    or behind all of its new one, whatever the order of the data is. O(runs and updated rows).
    """
    kept = _cut(_cut(script.kept, 0, old_ends), 1, new_ends)
    old, new = script.updated_old, script.updated_new
    stay = _same_partition(kept[:, 0], kept[:, 1], old_ends, new_ends)
    same = _same_partition(old, new, old_ends, new_ends)
    if stay.all() and same.all():
        return script
    changed = {name: flags[same] for name, flags in script.changed.items()}
    sizes = script.old_rows, script.new_rows
    return make_script(sizes, joined(kept[stay]), (old[same], new[same]), changed)


def _same_partition(old: Integers, new: Integers, old_ends: Integers, new_ends: Integers) -> Flags:
    part = np.searchsorted(old_ends, old, side="right")
    return np.asarray(part == np.searchsorted(new_ends, new, side="right"), np.bool_)


def _cut(runs: Integers, side: int, ends: Integers) -> Integers:
    """Runs of (old start, new start, length), cut where partitions of one side end."""
    begins, stops = runs[:, side], runs[:, side] + runs[:, 2]
    within = np.searchsorted(begins, ends, side="right") - 1
    inside = within >= 0
    inside[inside] = ends[inside] < stops[within[inside]]
    start = np.unique(np.concatenate((begins, ends[inside])))
    owner = np.searchsorted(begins, start, side="right") - 1
    stop = np.minimum(stops[owner], np.append(start[1:], stops[-1:]))
    moved = start - begins[owner]
    return np.column_stack((runs[owner, 0] + moved, runs[owner, 1] + moved, stop - start))


def places(script: EditScript, old_ends: Integers, new_ends: Integers) -> Integers:
    """Inserted runs as rows of (old row that they follow, new start, length), cut where partitions end.

    What stands before all rows of its partition that stay follows the beginning of the table, -1: behind the
    last row of another partition, which may stand anywhere, it would be shown behind its own. O(runs).

    Args:
        script: what is inserted.
        old_ends: where each partition's old rows begin and end, partitions in the order of the new rows.
        new_ends: the same of the new rows.
    """
    runs = script.inserted
    if not len(runs):
        return runs
    within = np.searchsorted(runs[:, 1], new_ends, side="right") - 1
    cuts = new_ends[
        (within >= 0) & (new_ends > runs[within, 1]) & (new_ends < (runs[:, 1] + runs[:, 2])[within])
    ]
    start = np.sort(np.concatenate((runs[:, 1], cuts)))
    owner = np.searchsorted(runs[:, 1], start, side="right") - 1
    stop = np.minimum((runs[:, 1] + runs[:, 2])[owner], np.append(start[1:], script.new_rows))
    part = np.searchsorted(new_ends, start, side="right") - 1
    after, first, behind = runs[owner, 0], old_ends[part], old_ends[part + 1]
    elsewhere = (after < first) | (after >= behind)
    after[elsewhere & (_last_before(script, behind) >= first)] = -1
    return np.column_stack((after, start, stop - start))


def tail(script: EditScript, runs: Integers) -> tuple[Integers, Integers]:
    """Inserted runs that stand behind every old row that stays, and the others."""
    last = int(_last_before(script, np.array([script.old_rows]))[0])
    behind = runs[:, 0] >= last
    return runs[behind], runs[~behind]


def _last_before(script: EditScript, ends: Integers) -> Integers:
    """For each end, the last old row before it that stays; -1 where there is none."""
    found = np.full(len(ends), -1, np.int64)
    kept, updated = script.kept, script.updated_old
    if len(kept):
        at = np.searchsorted(kept[:, 0], ends) - 1
        last = np.minimum(kept[at, 0] + kept[at, 2], ends) - 1
        found = np.where(at >= 0, last, -1)
    if len(updated):
        at = np.searchsorted(updated, ends) - 1
        found = np.maximum(found, np.where(at >= 0, updated[at], -1))
    return found
