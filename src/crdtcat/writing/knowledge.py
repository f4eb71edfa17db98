"""What a handle knows of its table's columns, which rows are checked against before they are written.

At first it is what the table was created with; then what the newest head shows that the handle has built, or
that a transaction or a query of its catalog has shown in its stead; and, from its own commits on, what these
made of it: whoever renames a column knows so without looking. A commit counts until a head has it. From then
on the head counts, which has what others did, too.

Knowledge is one value that is replaced as a whole, and nothing takes it away: a handle that knows columns
never becomes one that checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from crdtcat.chunks.type_codes import decode_type
from crdtcat.clock import VersionId
from crdtcat.format.ops import SELF, ColumnId, Ops
from crdtcat.head import Head
from crdtcat.head.columns import Columns
from crdtcat.writing.fit import Known, KnownColumn, known_from_head


class Knowledge(NamedTuple):
    """What is known.

    Attributes:
        columns: by name; `None` where nobody declared any, and none were seen.
        author: the handle's own commit that they are known from; `None`: a head or the settings.
    """

    columns: Known | None
    author: VersionId | None = None

    def looked_at(self, head: Head) -> Knowledge:
        """What is known by somebody who has this head, too. No request."""
        author, log = self.author, head.log
        if author is not None and log.index_of(author) < 0 and author.hlc >= log.horizon:
            return self  # it was listed before that commit
        return Knowledge(known_from_head(head.columns) or self.columns)


def known_with(head: Head, known: Known | None) -> Known | None:
    """The columns for a commit that rests on a head: that head's, whatever else is known by now."""
    return known_from_head(head.columns) or known


def known_after(columns: Columns, ops: Ops, author: VersionId) -> Known:
    """What a head's columns are after the definitions and drops of a commit that was made from it."""
    changed = {*ops.drops, *(definition.column for definition in ops.definitions)}
    found = dict(known_from_head(columns) or {})
    for column in columns.all:
        if column.instances & changed:
            del found[column.name]
    defined = [(_born(item.column, author), item) for item in ops.definitions]
    for id, item in sorted(defined, key=lambda pair: (pair[0].birth, pair[0].name)):  # the latest born counts
        found[item.name] = KnownColumn(id, decode_type(item.type), item.nullable, position=item.position)
    return found


def born_as(known: Known, names: Mapping[VersionId, VersionId]) -> Known:
    """The same columns, of which some were born in versions that have other ids by now."""
    return {
        name: replace(column, id=replace(column.id, birth=names.get(column.id.birth, column.id.birth)))
        for name, column in known.items()
    }


def _born(column: ColumnId, author: VersionId) -> ColumnId:
    return ColumnId(column.name, author) if column.birth is SELF else column
