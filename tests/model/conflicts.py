"""The reference model, part 6: what is listed as lost (promise P6, rules 1, 2 and 8).

Decisions:
- Of the writes to one cell or property, the greatest id wins. A loser is a write that no other write to that
  cell had seen: what somebody knowingly replaced is history, not a conflict.
- An update of a row that a delete or a greater overwrite took away is listed unless that one had seen it.
  Whoever had seen that the row was gone did not take it away, though it may name it with its chunk. In a
  keyed table a version may delete a key and write it anew: that it has seen itself does not count. What an
  overwrite saw there and took away is not lost to a delete that had not seen it.
- A row that no standing version added (its author's key was used before, for other rows) is not there to be
  updated or lost.
- A pair in which both read nothing is counted, not listed.
- What met below the horizon is forgotten with the rest of its history, but for what decides how a column is
  read. What lost to a version above it is listed as before.
- Compactions neither win nor lose; conflicts come from the deltas, so compaction changes none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from crdtcat.clock import ROOT, VersionId
from tests.model import keyed
from tests.model.columns import Schema
from tests.model.rows import contains, known_as, overlays, twin_insertions
from tests.model.standing import View
from tests.model.versions import ALL, Scope, Settings, Version

LASTING = ("column", "misfit")
"""Kinds that decide how a column is read, for as long as it is."""


class Conflict(NamedTuple):
    """Something that lost: what kind of thing, which one, who won, who lost."""

    kind: str
    what: Hashable
    winner: VersionId
    loser: VersionId


class Conflicts(NamedTuple):
    listed: tuple[Conflict, ...]
    blind: int  # replacements between versions that read nothing


def conflicts(view: View, settings: Settings, columns: Schema) -> Conflicts:
    """Everything that was lost to something concurrent."""
    found: set[Conflict] = set()
    found |= set(_registers("property", _property_writes(view)))
    found |= set(_overwrites(view))
    if settings.key:
        found |= set(_registers("cell", _upserts(view, settings)))
        found |= set(_deleted_upserts(view, settings))
    else:
        found |= set(_registers("cell", _cell_writes(view)))
        found |= set(_lost_updates(view))
    for name, winner, loser in columns.lost_definitions:
        found.add(Conflict("column", name, winner, loser))
    for name, loser in columns.misfits:
        found.add(Conflict("misfit", name, ROOT, loser))

    by_id = view.by_id()
    listed, blind = [], 0
    for conflict in sorted(found, key=lambda item: (item.kind, repr(item.what), item.winner, item.loser)):
        if conflict.kind not in LASTING and {conflict.winner, conflict.loser} <= view.expired | {ROOT}:
            continue
        if conflict.kind == "cell" and by_id[conflict.winner].blind and by_id[conflict.loser].blind:
            blind += 1
        else:
            listed.append(conflict)
    return Conflicts(tuple(listed), blind)


def _registers(kind: str, writes: dict[Any, set[Version]]) -> Iterable[Conflict]:
    for what, authors in writes.items():
        winner = max(authors, key=lambda version: version.id)
        for loser in authors - {winner}:
            if not any(other.saw(loser) for other in authors - {loser}):
                yield Conflict(kind, what, winner.id, loser.id)


def _property_writes(view: View) -> dict[Any, set[Version]]:
    writes: dict[Any, set[Version]] = {}
    for version in view.standing:
        for name, _ in version.properties:
            writes.setdefault(name, set()).add(version)
    return writes


def _rewrites(view: View) -> dict[Any, set[Version]]:
    """Who rewrote each (row, column); rows of twin insertions under the first one's id."""
    by_id, twins = view.by_id(), twin_insertions(view)
    writes: dict[Any, set[Version]] = {}
    for _, row, name, cell in overlays(view):
        writes.setdefault((known_as(twins, row), name), set()).add(by_id[cell.stamp[0]])
    return writes


def _cell_writes(view: View) -> dict[Any, set[Version]]:
    """Rewrites of rows that are still there (the value at birth was seen by whoever rewrote it)."""
    twins = twin_insertions(view)
    gone = {known_as(twins, row) for version in view.standing for row in version.deletes}
    there = _births(view).keys() - gone
    return {what: authors for what, authors in _rewrites(view).items() if what[0] in there}


def _births(view: View) -> dict[Any, tuple[Version, Any]]:
    """Every row that a standing version added, with that version and the partition it was put into."""
    return {
        (version.tag(index), offset): (version, chunk.partition)
        for version in view.standing
        for index, chunk in enumerate(version.adds)
        for offset in range(len(chunk.rows))
    }


def _lost_updates(view: View) -> Iterable[Conflict]:
    births, twins = _births(view), twin_insertions(view)
    for (row, name), authors in _rewrites(view).items():
        takers = {
            version
            for version in view.standing
            if row in {known_as(twins, deleted) for deleted in version.deletes}
        }
        if row not in births:
            continue
        born, partition = births[row]
        if born.overwrite is not None:
            takers |= {
                version
                for version in view.standing
                if version.overwrite is not None
                and version.id > born.id
                and contains(version.overwrite, partition)
            }
        first = {taker for taker in takers if not any(taker.saw(other) for other in takers - {taker})}
        for loser in authors:
            if first and not any(taker.saw(loser) for taker in first):
                winner = max(first, key=lambda version: version.id)
                yield Conflict("update of a row that is gone", (row, name), winner.id, loser.id)


def overlap(a: Scope, b: Scope) -> bool:
    return ALL in (a, b) or bool(a & b)


def _overwrites(view: View) -> Iterable[Conflict]:
    both = [version for version in view.standing if version.overwrite is not None]
    for loser in both:
        for winner in both:
            assert loser.overwrite is not None
            assert winner.overwrite is not None
            if loser.id < winner.id and overlap(loser.overwrite, winner.overwrite) and not winner.saw(loser):
                yield Conflict("overwrite", None, winner.id, loser.id)


def _upserts(view: View, settings: Settings) -> dict[Any, set[Version]]:
    writes: dict[Any, set[Version]] = {}
    for version in view.standing:
        for chunk in version.adds:
            for row in chunk.rows:
                key = keyed.key_of(settings, dict(row))
                for name, _ in row:
                    if name[0] not in settings.key:
                        writes.setdefault((key, name), set()).add(version)
    return writes


def _deleted_upserts(view: View, settings: Settings) -> Iterable[Conflict]:
    deleters = keyed.delete_stamps(view)
    for (key, name), authors in _upserts(view, settings).items():
        for loser in authors:
            winner = deleters.get(key)
            if (
                winner is not None
                and loser.id < winner.id
                and not any(
                    _takes(version, key) and version.saw(loser) and version is not loser
                    for version in view.standing
                )
            ):
                yield Conflict("cell", (key, name), winner.id, loser.id)


def _takes(version: Version, key: keyed.Key) -> bool:
    """Whether a version takes cells of a key away: those that it saw, or all below it."""
    return key in version.key_deletes or (
        version.overwrite is not None and contains(version.overwrite, key[0])
    )
