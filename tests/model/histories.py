"""Random histories: several authors, each with its own idea of the table, meeting now and then.

`history(seed)` gives the set of versions they made. It reaches concurrent updates, deletes, overwrites and
compactions of the same rows in a few steps, which is where wrong rules fail. Everything follows from the
seed, so a failing history can be kept as a number, or as the data it prints.
"""

from __future__ import annotations

import random
from typing import Any

from tests.model.authors import Author
from tests.model.compaction import Keep, keep_every_row
from tests.model.rows import entries
from tests.model.versions import ALL, START, Definition, Version, column

VERBS = {
    "append": 4,
    "insert": 2,
    "update": 6,
    "delete": 3,
    "overwrite": 1,
    "property": 1,
    "retried append": 1,
    "cluster": 1,
    "define": 1,
    "drop": 1,
    "compact": 6,
}


def history(
    seed: int,
    *,
    steps: int = 14,
    authors: int = 3,
    verbs: dict[str, int] | None = None,
    keep: Keep = keep_every_row,
) -> list[Version]:
    """Versions in the order in which they were made. `keep` is replaced by counterexamples only."""
    choose = random.Random(seed)
    weights = verbs or VERBS
    people = [Author(number) for number in range(1, authors + 1)]
    made: list[Version] = []
    for step in range(steps):
        author = choose.choice(people)
        if made and choose.random() < 0.5:
            # Causally closed: whoever learns of a version learns of what its author had seen.
            author.learn(choose.choice(people).seen)
        verb = choose.choices(list(weights), list(weights.values()))[0]
        version = _act(choose, author, verb, step, keep)
        if version is not None:
            made.append(version)
    return made


def _act(choose: random.Random, author: Author, verb: str, step: int, keep: Keep) -> Version | None:
    rows = [row.row for row in author.rows()]
    late = choose.randrange(step * 2 + 2)
    records = [{"a": step * 10 + at, "b": choose.randrange(3)} for at in range(choose.randint(1, 3))]
    partition = choose.choice(["p", "q"])
    if verb == "append":
        return author.append(*records, partition=partition, time=late)
    if verb == "retried append":
        key = f"task {choose.randrange(2)}"
        return author.append({"a": 900, "b": choose.randrange(2)}, keys=frozenset({key}), time=late)
    if verb == "overwrite":
        scope = choose.choice([ALL, frozenset({partition})])
        return author.overwrite(*records[:1], partition=partition, scope=scope)
    if verb == "property":
        return author.commit(properties=(("owner", step),))
    if verb == "define":
        types = choose.choice(["int64", "float64", "string"])
        return author.commit(defines=(Definition(column("b"), choose.choice(["b", "c"]), types),))
    if verb == "drop":
        return author.commit(drops=frozenset({column("b")}))
    if not rows:
        return None
    return _act_on_rows(choose, author, verb, step, rows, keep)


def _act_on_rows(
    choose: random.Random, author: Author, verb: str, step: int, rows: list[Any], keep: Keep
) -> Version | None:
    some = choose.sample(rows, choose.randint(1, min(3, len(rows))))
    if verb == "insert":
        after = choose.choice([START, author.position(some[0])])
        return author.append({"a": 700 + choose.randrange(2), "b": 0}, after=after)
    if verb == "update":
        return author.update(*((row, choose.choice("ab"), step * 1000 + at) for at, row in enumerate(some)))
    if verb == "delete":
        return author.delete(*some)
    if verb == "cluster":
        return author.commit(cluster=tuple(some))
    live = list(entries(author.view))
    return author.compact(*choose.sample(live, choose.randint(1, len(live))), keep=keep)


def shuffled_subsets(versions: list[Version], seed: int) -> list[Version]:
    """Some of a history, in some order: what a reader may have merged."""
    choose = random.Random(seed)
    return choose.sample(versions, choose.randint(0, len(versions)))


def without_compactions(versions: list[Version]) -> list[Version]:
    return [version for version in versions if version.compaction is None]
