"""The pictures in docs/pictures, drawn from tables that are made for them: the same picture each time.

Run it with `python -m examples.pictures`, or name another folder to draw them in. It needs no Spark: what is
drawn is what tasks, retries, compactions and many versions leave in a catalog, whoever makes them."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa

from crdtcat import Catalog

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
WRITERS, COMMITS = 6, 48
COLOURS = ("#0b6e4f", "#1f77b4", "#e07b00", "#8e44ad", "#c0a000", "#17a2c8")
GREY, RED = "#999999", "#d62728"
VERSIONS, ROWS, CHANGED = 10, 100_000, 0.05


def page(width: int, height: int, title: str, parts: list[str]) -> str:
    """An SVG file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
            '  font-family="sans-serif" font-size="12" fill="#333">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text x="16" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, more: str = "") -> str:
    """Some words."""
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(words)}</text>'


def tasks(folder: Path) -> str:
    """Tasks that commit by themselves, some of them twice, one history that all agree on."""
    chance = random.Random(5)
    lakes = [Catalog(folder / "tasks", upkeep=False) for _ in range(WRITERS)]
    table = lakes[0].create_table("events", pa.schema([("id", pa.int64())]))
    by: dict[str, int] = {}
    for task in range(COMMITS):
        for worker in chance.sample(range(WRITERS), 2 if task % 9 == 4 else 1):  # every ninth task runs twice
            version = lakes[worker].commit("events", {"id": [task]}, key=f"load/{task}")
            by[str(version.id)] = worker
            time.sleep(0.002)  # in one millisecond the order is by chance, and the picture would be, too
    table.compact()
    head = table.head()
    assert table.read().num_rows == COMMITS
    every = sorted([*head.history, *head.void], key=lambda version: version.id)
    step, left, top, lane = 13, 110, 52, 26
    parts = []
    for worker in range(WRITERS):
        y = top + lane * worker
        parts.append(text(16, y + 4, f"worker {worker + 1}"))
        parts.append(f'<path d="M{left - 10} {y}H{left + step * len(every)}" stroke="#ddd"/>')
    for place, version in enumerate(every):
        worker = by[str(version.id)]
        x, y = left + step * place, top + lane * worker
        look = f'fill="{COLOURS[worker]}"' if version.stands else f'fill="#fff" stroke="{RED}"'
        parts.append(f'<circle cx="{x}" cy="{y}" r="4.5" {look}/>')
    y = top + lane * WRITERS + 6
    parts += [
        f'<rect x="{left - 6}" y="{y}" width="{step * len(every)}" height="12" rx="3" fill="{GREY}"/>',
        text(16, y + 11, "compaction"),
        text(left - 6, y + 34, f"{len(every)} commits, in the order that every reader agrees on"),
        f'<circle cx="{left}" cy="{y + 50}" r="4.5" fill="#fff" stroke="{RED}"/>',
        text(
            left + 12,
            y + 54,
            f"{len(head.void)} tasks ran twice: the first by id counts, {head.row_count} rows of {COMMITS}",
        ),
    ]
    return page(left + step * len(every) + 24, y + 72, "Tasks that commit by themselves", parts)


def storage(folder: Path) -> str:
    """Versions of a table, of which 5 % changed each time, anywhere: what they hold and what is stored."""
    chance = np.random.default_rng(7)
    table = Catalog(folder / "storage", upkeep=False).create_table("t")
    rows = {"id": np.arange(ROWS), "x": chance.random(ROWS), "y": chance.random(ROWS)}
    full: list[int] = []
    stored: list[int] = []
    for _ in range(VERSIONS):
        table.write(pa.table(rows))
        stored.append(sum(path.stat().st_size for path in (folder / "storage").rglob("*") if path.is_file()))
        full.append(len(stored) * stored[0])
        changed = chance.choice(ROWS, int(ROWS * CHANGED), replace=False)
        rows["x"] = rows["x"].copy()
        rows["x"][changed] = chance.random(len(changed))
    left, bottom, high, wide = 70, 250, 190, 46
    parts = []
    for at, (whole, kept) in enumerate(zip(full, stored, strict=True)):
        x = left + wide * at
        for value, shift, colour in ((whole, 0, "#cccccc"), (kept, 16, COLOURS[0])):
            size = value / full[-1] * high
            place = f'x="{x + shift}" y="{bottom - size:.1f}"'
            parts.append(f'<rect {place} width="15" height="{size:.1f}" fill="{colour}"/>')
        parts.append(text(x + 15, bottom + 16, str(at + 1), ' text-anchor="middle"'))
    for share in (0.5, 1.0):
        y = bottom - high * share
        parts.append(f'<path d="M{left - 6} {y:g}H{left + wide * VERSIONS}" stroke="#eee"/>')
        parts.append(text(left - 10, y + 4, f"{full[-1] * share / 1e6:.0f} MB", ' text-anchor="end"'))
    parts += [
        text(left, bottom + 36, "versions, each with 5 % of rows changed, anywhere"),
        f'<rect x="{left}" y="{bottom + 48}" width="12" height="12" fill="#cccccc"/>',
        text(left + 18, bottom + 58, "each version stored in full"),
        f'<rect x="{left + 200}" y="{bottom + 48}" width="12" height="12" fill="{COLOURS[0]}"/>',
        text(left + 218, bottom + 58, f"stored: {stored[-1] / stored[0]:.2f} times the first version"),
    ]
    return page(left + wide * VERSIONS + 20, bottom + 76, "Ten versions of one table", parts)


def main(goal: Path = FOLDER) -> None:
    """Draw both."""
    goal.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crdtcat-pictures-") as folder:
        for name, draw in (("tasks", tasks), ("storage", storage)):
            (goal / f"{name}.svg").write_text(draw(Path(folder)))
            print(f"drawn: {name}.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
