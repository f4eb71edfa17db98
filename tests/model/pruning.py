"""The reference model, part 9: what a scan may leave unread (rule 9).

An entry's statistics alone do not say what its rows hold now: overlays rewrite cells, and another entry may
hold a later copy of the same row. So an entry is judged by its statistics joined with those of every overlay
on its rows, and entries that share a row are kept together: leaving out the copy that has the newer cell
would show the older one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.model.rows import entries, known_as, overlays, twin_insertions
from tests.model.standing import View
from tests.model.versions import Copy, Instance, Tag


@dataclass(frozen=True)
class Pruning:
    """The two halves of the rule; counterexamples turn one off."""

    with_overlays: bool = True
    copies_together: bool = True


def kept_entries(view: View, name: Instance, low: Any, high: Any, rule: Pruning | None = None) -> set[Tag]:
    """The entries a scan for rows with `name` within [low, high] has to read."""
    rule = rule or Pruning()
    live = entries(view)
    twins = twin_insertions(view)

    def rows(copies: tuple[Copy, ...]) -> set[Any]:
        return {known_as(twins, copy.row) for copy in copies}

    def may_hold(copies: tuple[Copy, ...]) -> bool:
        values = [cell.value for copy in copies for held, cell in copy.cells if held == name]
        if rule.with_overlays:
            stored = rows(copies)
            for _, row, held, cell in overlays(view):
                if held == name and known_as(twins, row) in stored:
                    values.append(cell.value)
        known = [value for value in values if value is not None]
        return bool(known) and min(known) <= high and max(known) >= low

    kept = {tag for tag, copies in live.items() if may_hold(copies)}
    if rule.copies_together:
        touched = set().union(*(rows(live[tag]) for tag in kept))
        kept |= {tag for tag, copies in live.items() if rows(copies) & touched}
    return kept
