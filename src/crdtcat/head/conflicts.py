"""What lost, and to whom: concurrent writes that met, listed so that nothing is lost in silence.

A conflict is a fact about a set of versions, so every reader of the same set lists the same ones. The kinds
are a closed set:

=============  =============================================================================================
kind           when
=============  =============================================================================================
overwrite      two overwrites of overlapping scope, neither of which had seen the other: the greater id wins
property       two values set for one property by versions that had not seen each other: the greater id wins
column         two definitions of one column by versions that had not seen each other, and no lossless type
               holds both, or they give it two names: the greater id wins
drop           a column was dropped while somebody wrote to it: their values survive in a column of that name
misfit         rows whose type does not fit the column's, written by somebody who could not know: read as null
rename         rows written under what is another column's name since a renaming that their author had not
               seen: they stay in the renamed column; or two fields of one version that are shown under one
               name since a renaming: one of them is not shown
cell           two updates of one cell, neither of which had seen the other: the greater id wins
deleted        an update of a row that somebody deleted or overwrote who had not seen the update: it is lost
straggler      a change in merge mode that was made from what was there, while the table was switched to CAS
               mode: void; its author found out and made it again, or was told
=============  =============================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from crdtcat.clock import VersionId
from crdtcat.format.ops import ColumnId

Kind = Literal["overwrite", "property", "column", "drop", "misfit", "rename", "cell", "deleted", "straggler"]

LASTING: Final = frozenset({"column", "drop", "misfit", "rename"})
"""Kinds that go on deciding what a column shows, however old both sides are."""

RowInterval = tuple[VersionId, int, int, int]
"""Rows of one chunk: the version that added it, its place there, the first row, the one behind the last."""


@dataclass(frozen=True, slots=True, order=True)
class Conflict:
    """One loser of one encounter.

    Attributes:
        kind: what met, see the table above.
        subject: the property, column or partition it is about; empty for a whole table.
        winner: whose write counts. `None` where the table's creation does.
        loser: whose does not; its file, or the bundle that covers it, still holds what it wrote.
        message: the same in words.
        rows: for cells, which rows: `Table.lost_values` reads what the loser wrote there.
        column: and of which column, whatever it is called now.
    """

    kind: Kind
    subject: str
    winner: VersionId | None
    loser: VersionId | None
    message: str
    rows: tuple[RowInterval, ...] = ()
    column: ColumnId | None = field(default=None, repr=False)

    def is_over(self, horizon: int) -> bool:
        """Whether both met below a horizon, and nothing that is read depends on it any more."""
        return (
            self.kind not in LASTING
            and (self.winner is None or self.winner.hlc < horizon)
            and (self.loser is None or self.loser.hlc < horizon)
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"
