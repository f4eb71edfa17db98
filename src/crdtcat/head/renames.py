"""Values that a renaming shows elsewhere than their author may have meant.

A field belongs to the column its author knew, whatever that is called today: a program that knows an old name
goes on writing to the same column. Two things can go wrong unseen, and are listed:

- names were exchanged, or an old name was given to a new column: rows written later under that name, by
  somebody who had not seen the renaming, are in the renamed column, and may have been meant for the other;
- a version wrote two fields that are shown under one name: only one of them is shown.

Nothing here decides where values are shown, that is `crdtcat.head.columns`. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from crdtcat.clock import ROOT, VersionId
from crdtcat.format.ops import ColumnId, Definition, DefinitionId
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.head.clocks import Clocks
from crdtcat.head.columns import Columns, precedence
from crdtcat.head.conflicts import Conflict
from crdtcat.log.log import Log


class Renames:
    """What renamings did to fields stored under older names.

    Args:
        log: the versions.
        columns: the resolved columns.
        renamers: per renamed column the version that gave it its name, see `renamers_of`.
        clocks: who had seen what.
    """

    def __init__(
        self, log: Log, columns: Columns, renamers: Mapping[ColumnId, VersionId], clocks: Clocks
    ) -> None:
        self._log, self._columns, self._renamers, self._clocks = log, columns, renamers, clocks
        self._shown = {instance: column.name for column in columns.all for instance in column.instances}

    def conflicts(self, users: Iterable[tuple[int, Array]]) -> Iterator[Conflict]:
        """Conflicts of kind "rename". O(stored fields + versions with a field in one), and their clocks.

        Args:
            users: (schema, the standing versions that use it, rising).
        """
        for schema, versions in users:
            under: dict[str, list[StoredField]] = {}
            for field in self._columns.fields(schema):
                if field.column in self._shown:
                    under.setdefault(self._shown[field.column], []).append(field)
            listed: set[tuple[int, str]] = set()
            for name, fields in under.items():
                if len(fields) > 1:
                    yield from self._covered(name, fields, versions, listed)
            yield from self._elsewhere(under, versions, listed)

    def _covered(
        self, name: str, fields: Sequence[StoredField], versions: Array, listed: set[tuple[int, str]]
    ) -> Iterator[Conflict]:
        """Of the fields shown under one name all but the one that is shown; they are added to `listed`."""
        for version in versions.tolist():
            there = [field for field in fields if not self._columns.is_hidden(field, version)]
            kept = max(there, key=precedence, default=None)
            for lost in there:
                if kept is None or lost is kept:
                    continue
                listed.add((version, lost.name))
                moved = [field.column for field in (lost, kept) if field.name != name]
                winner = max((self._renamers[one] for one in moved if one in self._renamers), default=None)
                id = self._log.id_at(version)
                since = "" if winner is None else f" since {winner} renamed one"
                message = (
                    f"{id} wrote {lost.name!r} and {kept.name!r}, both shown as column {name!r}{since}; "
                    f"what it wrote as {lost.name!r} is not shown"
                )
                yield Conflict("rename", name, winner, id, message)

    def _elsewhere(
        self, under: Mapping[str, Sequence[StoredField]], versions: Array, listed: set[tuple[int, str]]
    ) -> Iterator[Conflict]:
        """Fields whose stored name is another column's today, by versions later than an unseen renaming."""
        unaware: dict[VersionId, Array] = {}
        for name, field in ((name, field) for name, fields in under.items() for field in fields):
            renamer = self._renamers.get(field.column)
            if renamer is None or field.name == name or field.name not in self._columns.by_name:
                continue
            if renamer not in unaware:
                at = self._log.index_of(renamer)
                unaware[renamer] = self._clocks.unaware(versions[versions > at], at)
            for version in unaware[renamer].tolist():
                if (version, field.name) not in listed and not self._columns.is_hidden(field, version):
                    id = self._log.id_at(version)
                    message = (
                        f"{id} wrote {field.name!r} without having seen that {renamer} renamed that column "
                        f"to {name!r}: its values are in {name!r}, not in the {field.name!r} of today"
                    )
                    yield Conflict("rename", name, renamer, id, message)


def renamers_of(
    defined: Mapping[DefinitionId, Definition], live: Mapping[ColumnId, Sequence[DefinitionId]]
) -> dict[ColumnId, VersionId]:
    """Per column the version that gave it the name it has; not for one that never had another name.

    Args:
        defined: every definition.
        live: per column the definitions nobody replaced, the one that counts first.
    """
    renamers: dict[ColumnId, VersionId] = {}
    for column, ids in live.items():
        name, giver = defined[ids[0]].name, ids[0]
        while earlier := [  # later definitions may have kept the name
            old
            for old in defined[giver].replaces
            if old < giver and old in defined and (defined[old].column, defined[old].name) == (column, name)
        ]:
            giver = min(earlier)
        if giver.version != ROOT and (defined[giver].replaces or name != column.name):
            renamers[column] = giver.version
    return renamers
