"""How a table changes from one version to the next in the storage suite. Pure: the same for every engine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.rows import batch

CASES = {
    "5 % clustered": "the `a` column of one run of 5 % of the rows gets new values",
    "5 % scattered": "the `a` column of 5 % of the rows, chosen by chance, gets new values",
    "3 % inserted": "1.5 % new rows in each of two places",
    "4 % deleted": "one run of 4 % of the rows is gone",
    "5 % appended": "5 % new rows at the end",
}
NEW_IDS = 10_000_000_000
"""Ids of inserted rows begin here, so that they meet no others."""


def change(table: pa.Table, case: str, number: int) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The next version, the rows in it that are new or changed, and the rows of `table` that are gone."""
    chance = np.random.default_rng([number, list(CASES).index(case)])
    rows = table.num_rows
    nothing = table.slice(0, 0)
    match case:
        case "5 % clustered" | "5 % scattered":
            count = rows // 20
            if case == "5 % clustered":
                start = int(chance.integers(0, rows - count))
                at = np.arange(start, start + count)
            else:
                at = np.sort(chance.choice(rows, count, replace=False))
            values = table["a"].to_numpy().copy()
            values[at] = chance.random(count)
            after = table.set_column(table.schema.get_field_index("a"), "a", pa.array(values))
            return after, after.take(pa.array(at)), nothing
        case "3 % inserted" | "5 % appended":
            count = rows * 3 // 200 if case == "3 % inserted" else rows // 20
            places = sorted(chance.integers(0, rows, 2).tolist()) if case == "3 % inserted" else [rows]
            parts, added, before = [], [], 0
            for order, place in enumerate(places):
                new = _new_rows(table, count, number * 2 + order)
                parts += [table.slice(before, place - before), new]
                added.append(new)
                before = place
            return pa.concat_tables([*parts, table.slice(before)]), pa.concat_tables(added), nothing
        case _:
            count = rows // 25
            start = int(chance.integers(0, rows - count))
            after = pa.concat_tables([table.slice(0, start), table.slice(start + count)])
            return after, nothing, table.slice(start, count)


def rewritten(table: pa.Table, number: int, *, scattered: bool) -> tuple[pa.Table, pa.Table]:
    """The next version of a table of 4 columns, and its changed rows: 5 %, which keep only their ids."""
    chance = np.random.default_rng([number, scattered])
    rows, count = table.num_rows, table.num_rows // 20
    start = int(chance.integers(0, rows - count))
    at = np.sort(chance.choice(rows, count, replace=False)) if scattered else np.arange(start, start + count)
    changed = batch(number, count).set_column(0, "id", table["id"].take(pa.array(at)))
    source = np.arange(rows)
    source[at] = rows + np.arange(count)
    return pa.concat_tables([table, changed]).combine_chunks().take(pa.array(source)), changed


def _new_rows(table: pa.Table, count: int, number: int) -> pa.Table:
    rows = table.take(pa.array(np.random.default_rng(number).integers(0, table.num_rows, count)))
    ids = pa.array(NEW_IDS + number * 1_000_000 + np.arange(count))
    values = pa.array(np.random.default_rng(number + 1).random(count))
    return rows.set_column(0, "id", ids).set_column(1, "a", values)
