"""The work of a clustering in units that any engine can carry out: one after the other here, or in tasks.

Units of one step write different entries anew, so they may be done at once. But rows stand in the order in
which versions were published, so whoever does them publishes in the order of the units. What a unit holds is
decided before any is done: every engine gives the same chunks in the same order.

Memory: a unit, about three times over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from crdtcat.head import Head, Version
from crdtcat.log.log import NONE
from crdtcat.maintenance.cluster_plan import Lot, keys_in
from crdtcat.maintenance.rewrite import Counts, Rewriter
from crdtcat.maintenance.sorting import keys_of, ordered, parts
from crdtcat.session import Session


@dataclass(frozen=True, eq=False)
class Settle:
    """Groups of entries whose rows are stored twice, or in a partition they left: written where they are.

    Attributes:
        groups: the entries.
        rows: how many rows a chunk should have.
    """

    groups: Sequence[Lot]
    rows: int

    def write(self, work: Rewriter) -> list[int]:
        """Write everything. Tells nothing."""
        for group in self.groups:
            work.rewrite(group, self.rows)
        return []


@dataclass(frozen=True, eq=False)
class Sort:
    """Groups of entries, of one partition each: the rows of each in order.

    Attributes:
        groups: the entries.
        rows: how many rows a chunk should have.
        by: the columns.
    """

    groups: Sequence[Lot]
    rows: int
    by: tuple[str, ...]

    def write(self, work: Rewriter) -> list[int]:
        """Write everything. Tells nothing."""
        for group in self.groups:
            rows = work.gather(group)
            keys = keys_of(rows.rows, self.by, rows.entry, rows.offset)
            for piece in rows.take(ordered(keys)).cut(self.rows):
                work.write(partition_of(work.head, group), piece)
        return []


@dataclass(frozen=True, eq=False)
class Spread:
    """Entries of a lot that is too large to be sorted as a whole: their rows, cut at keys.

    Attributes:
        groups: the entries, one group.
        rows: how many rows a chunk should have.
        by: the columns.
        cuts: the keys.
    """

    groups: Sequence[Lot]
    rows: int
    by: tuple[str, ...]
    cuts: pa.Table

    def write(self, work: Rewriter) -> list[int]:
        """Write everything. Tells between which keys each chunk lies."""
        (group,) = self.groups
        rows = work.gather(group)
        keys = keys_of(rows.rows, self.by, rows.entry, rows.offset)
        where: list[int] = []
        for number, part in enumerate(parts(keys, self.cuts)):
            for piece in rows.take(part).cut(self.rows) if len(part) else ():
                work.write(partition_of(work.head, group), piece)
                where.append(number)
        return where


Rewriting = Settle | Sort | Spread


@dataclass(frozen=True, eq=False)
class Sample:
    """Some of the keys of some entries.

    Attributes:
        entries: in row order.
        by: the columns.
        step: every how many-th row.
    """

    entries: Lot
    by: tuple[str, ...]
    step: int

    def read(self, session: Session, head: Head) -> pa.Table:
        """Costs a read of the columns."""
        before, sample = 0, []
        for rows in keys_in(session, head, self.entries, self.by):
            keys = keys_of(rows.rows, self.by, rows.entry, rows.offset)
            chosen = np.arange(-before % self.step, keys.num_rows, self.step)
            sample.append(keys.take(pa.array(chosen)))
            before += keys.num_rows
        return pa.concat_tables(sample)


class Done(NamedTuple):
    """What became of a unit: what it told, its version, and what was written."""

    told: list[int]
    version: Version | None
    counts: Counts


class Engine(Protocol):
    """Carries out units of one head."""

    def sampled(self, head: Head, units: Sequence[Sample]) -> Sequence[pa.Table]:
        """The keys of each."""

    def rewritten(self, head: Head, rises_by: tuple[str, ...], units: Sequence[Rewriting]) -> Iterator[Done]:
        """Each unit published as a version, in their order; see `Rewriter` for `rises_by`."""


class Here:
    """One unit after the other, in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def sampled(self, head: Head, units: Sequence[Sample]) -> list[pa.Table]:
        """One after the other."""
        return [unit.read(self._session, head) for unit in units]

    def rewritten(self, head: Head, rises_by: tuple[str, ...], units: Sequence[Rewriting]) -> Iterator[Done]:
        """One after the other, published as it is written."""
        for unit in units:
            work = Rewriter(self._session, head, rises_by)
            told = unit.write(work)
            yield Done(told, work.publish(), work.counts)


def size_of(head: Head, entries: Sequence[int]) -> int:
    """The Arrow content that is read of them, with what lies over them."""
    return int(head.rows.bytes_read[list(entries)].sum(dtype=np.float64))


def partition_of(head: Head, lot: Lot) -> bytes | None:
    """The partition that entries are in, all of them one."""
    number = int(head.log.partition[lot[0]])
    return None if number == NONE else head.log.partitions[number]
