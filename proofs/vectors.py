"""Questions to the model and their answers: what the extracted program and the Python code must agree on.

A question is an operation and arguments, nested lists of numbers, all below 2**62 (OCaml's integers):

=============  ===========================================================  ================================
operation      arguments                                                    answer
=============  ===========================================================  ================================
tick           last, physical milliseconds                                  the next timestamp
receive        last, remote, physical milliseconds                          the next timestamp
clock          two vector clocks, each [writer, count] pairs                their merge
counter        two G-counters, each [writer, count] pairs                   value and pairs of their merge
set            two OR-sets, each [dot, element] pairs and removed dots      their merge
registers      two maps of registers, each [name, stamp, value]             their merge
union          two lists of [start, stop]                                   canonical runs
intersection   the same                                                     canonical runs
difference     the same                                                     canonical runs
order          version ids [time, writer, count, digest]                    sorted, each once
head           versions, see `Version` in `replay.py`                       standing, rows alive, properties
keyed          versions, see `replay_tables.py`                             rows: key, two values or 0
column         what widens to what, and definitions                         the column's type
positions      versions that append rows or insert them after others        rows in order
insertions     versions that insert rows, and which of them they had seen   what each is known as, how many
history        versions, as for `head`                                      places of those that stand
overlap        two lists of intervals [tag, start, stop]                    1 if a row is in both, else 0
bundle         versions, files of some, more files, see `log_questions.py`  ids covered, versions of the next
expired        versions, a horizon, those found and those there later       versions seen
claims         whose commits a bundle covers, claim files [number, whose]   whose the numbers are
compacted      what two sides do and exchange, see `log_questions.py`       rows: row, value
pruned         entries, updates, the bounds of a filter                     rows: row, value
statistics     runs of rows, see `merge_questions.py`                       least, greatest, nulls of all
orders         lists of entries, none twice                                 one that keeps all, or none
joined         rows, changes beside a fork and its own, who wins            the rows joined, or none
repeated       branches, what they commit and merge                         the commits of each
=============  ===========================================================  ================================

`tests/proofs/vectors/` keeps questions with the extracted program's answers; `python -m proofs.vectors`
writes them anew. They are replayed in pytest without OCaml, and held against a fresh extraction by
`make proofs`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proofs import log_questions, merge_questions, model_program

Question = tuple[str, list[Any]]
KEPT = Path(__file__).resolve().parent.parent / "tests" / "proofs" / "vectors" / "vectors.json"
SEED = 20
COUNT = 24
SLOW_MAX = 12


def questions(seed: int, count: int) -> list[Question]:
    """`count` questions of every operation, `SLOW_MAX` at most of slow ones, drawn from one seed."""
    draw = random.Random(seed)  # noqa: S311 - examples, not secrets
    return [
        (operation, ARGUMENTS[operation](draw))
        for operation in OPERATIONS
        for _ in range(min(count, SLOW_MAX) if operation in SLOW else count)
    ]


def _wall(draw: random.Random) -> int:
    return draw.choice((0, 1, 2, 1_700_000_000_000, 2**45))


def _moment(draw: random.Random) -> int:
    """Near the walls, so that equal times, full counters and clocks behind and ahead all occur."""
    return max(0, (_wall(draw) << 16) + draw.choice((-1, 0, 1, 65535)))


def _counts(draw: random.Random) -> list[list[int]]:
    return [[writer, draw.randrange(1, 4)] for writer in range(4) if draw.randrange(2)]


def _set(draw: random.Random) -> list[Any]:
    places = [draw.randrange(4) for _ in range(5)]  # 0: unseen, 1: removed, else live
    live = [[dot, draw.randrange(3)] for dot, place in enumerate(places) if place > 1]
    return [live, [dot for dot, place in enumerate(places) if place == 1]]


def _registers(draw: random.Random) -> list[list[int]]:
    return [[name, draw.randrange(3), draw.randrange(3)] for name in range(3) if draw.randrange(3)]


def _id(draw: random.Random) -> list[int]:
    return [draw.randrange(3), draw.randrange(3), draw.randrange(1, 3), draw.randrange(2)]


def _runs(draw: random.Random) -> list[list[int]]:
    """Any order; they may overlap, touch, repeat, be empty."""
    starts = [draw.randrange(20) for _ in range(draw.randrange(6))]
    return [[start, start + draw.randrange(6)] for start in starts]


def _history(draw: random.Random) -> list[Any]:
    """Versions as `replay.Version` reads them; a version deletes only rows of those before it in the list."""
    made: list[Any] = []
    for number in range(1, draw.randrange(2, 8)):
        kind = draw.choice(("append", "append", "overwrite", "delete", "property", "both"))
        adds = kind in ("append", "overwrite", "both")
        earlier = [version[4] for version in made if version[4]]
        deleted = draw.sample(earlier, draw.randrange(len(earlier) + 1)) if kind in ("delete", "both") else []
        made.append(
            [
                draw.randrange(1, 9),
                number,
                1,
                draw.choice((0, 0, 0, 1, 2)),
                number if adds else 0,
                draw.choice((1, 1, 2, 3)) if kind == "overwrite" else 0,
                draw.randrange(2),
                sorted(deleted),
                [[draw.randrange(1, 3), draw.randrange(1, 9)]] if kind in ("property", "both") else [],
            ]
        )
    return made


def _keyed(draw: random.Random) -> list[Any]:
    """Versions of a keyed table as `replay_tables.py` reads them."""
    made = []
    for number in range(1, draw.randrange(2, 8)):
        keys = draw.sample(range(1, 5), draw.randrange(5))
        rows = [[key, 10 * number + key, 10 * number + key + 5] for key in sorted(keys)]
        gone = sorted(draw.sample(range(1, 5), draw.choice((0, 1, 1, 2))))
        made.append([draw.randrange(1, 9), draw.randrange(1, 4), rows, gone])
    return made


def _column(draw: random.Random) -> list[Any]:
    """Definitions of one column; each may replace some of those before it in the list."""
    made: list[Any] = []
    for number in range(draw.randrange(1, 7)):
        ended = draw.sample(range(number), draw.randrange(min(number, 2) + 1))
        made.append([draw.randrange(1, 9), draw.randrange(1, len(WIDER) + 1), sorted(ended)])
    return [WIDER, made]


def _positions(draw: random.Random) -> list[Any]:
    """Versions that append rows, or insert them after rows of a version before them."""
    made: list[list[int]] = []
    times = [0]  # of each row's version; rows count from 1
    for _ in range(draw.randrange(1, 8)):
        after = draw.choice((0, draw.randrange(len(times)), draw.randrange(len(times))))
        time = times[after] + draw.randrange(1, 4) if after else draw.randrange(1, 9)
        made.append([time, draw.randrange(1, 4), after])
        times += [time] * made[-1][1]
    return made


def _insertions(draw: random.Random) -> list[Any]:
    """Versions that insert few kinds of rows after two rows; each may have seen some of those before it."""
    made: list[list[Any]] = []
    for number in range(draw.randrange(1, 7)):
        seen: set[int] = set()
        for at in draw.sample(range(number), draw.choice((0, 0, min(number, 1), min(number, 2)))):
            seen |= {at, *made[at][1]}
        time = max((made[at][0] for at in seen), default=0) + draw.randrange(1, 4)
        kinds = [[draw.randrange(1, 3), draw.choice((1, 1, 2))] for _ in range(draw.randrange(1, 4))]
        made.append([time, sorted(seen), kinds])
    return made


WIDER = [  # of int8, int32, int64, float32, float64, string: what holds both without loss, 0 if nothing does
    [1, 2, 3, 4, 5, 0],
    [2, 2, 3, 5, 5, 0],
    [3, 3, 3, 0, 0, 0],
    [4, 5, 0, 4, 5, 0],
    [5, 5, 0, 5, 5, 0],
    [0, 0, 0, 0, 0, 6],
]


ARGUMENTS: dict[str, Callable[[random.Random], list[Any]]] = {
    "tick": lambda draw: [_moment(draw), _wall(draw)],
    "receive": lambda draw: [_moment(draw), _moment(draw), _wall(draw)],
    "clock": lambda draw: [_counts(draw), _counts(draw)],
    "counter": lambda draw: [_counts(draw), _counts(draw)],
    "set": lambda draw: [_set(draw), _set(draw)],
    "registers": lambda draw: [_registers(draw), _registers(draw)],
    "union": lambda draw: [_runs(draw), _runs(draw)],
    "intersection": lambda draw: [_runs(draw), _runs(draw)],
    "difference": lambda draw: [_runs(draw), _runs(draw)],
    "order": lambda draw: [_id(draw) for _ in range(draw.randrange(8))],
    "head": _history,
    "keyed": _keyed,
    "column": _column,
    "positions": _positions,
    "insertions": _insertions,
    "history": _history,
    "overlap": log_questions.overlap,
    "bundle": log_questions.bundle,
    "expired": log_questions.expired,
    "claims": log_questions.claims,
    "compacted": log_questions.compacted,
    "pruned": log_questions.pruned,
    "statistics": merge_questions.statistics,
    "orders": merge_questions.orders,
    "joined": merge_questions.joined,
    "repeated": merge_questions.repeated,
}
OPERATIONS = tuple(ARGUMENTS)
SLOW = ("compacted", "pruned", "joined", "repeated")
"""Whole tables: asked less often."""


def kept() -> list[tuple[str, list[Any], Any]]:
    """The questions and answers of the repository."""
    return [(operation, arguments, answer) for operation, arguments, answer in json.loads(KEPT.read_text())]


def main() -> int:
    """Write the kept vectors anew, from a fresh extraction."""
    asked = questions(SEED, COUNT)
    answers = model_program.ask(model_program.build(), asked)
    lines = [
        json.dumps([operation, arguments, answer], separators=(",", ":"))
        for (operation, arguments), answer in zip(asked, answers, strict=True)
    ]
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
