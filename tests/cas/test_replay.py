"""Strict history, shown: replaying the commits in the order of their numbers gives every version there is.

Request by request in an order drawn from a seed, writers append, update, delete, overwrite partitions and run
transactions, try conflicts again as "ours", and bundle, collect and compact beside it. A plain dictionary
then does what each acknowledged commit said, one after the other.
"""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from tests.bounds import bounded
from tests.cas.scenes import DAYS, SCHEMA
from tests.catalog.test_races import Stage, StagedStore

Row = dict[str, Any]
Model = dict[int, Row]
Act = Callable[[Model], None]
TURNS = 5


class Writer:
    """One handle, what it knows to be there, and what it has committed, by number."""

    def __init__(self, url: str, stage: Stage, seed: int, ids: Iterator[int], *, keyed: bool) -> None:
        store = StagedStore(url)
        store.stage = stage
        self.catalog = Catalog(store, upkeep=False, base_delay=0, grace_seconds=0.5)
        self.chance, self.ids, self.keyed = random.Random(seed), ids, keyed
        self.known = list(range(6))
        self.done: dict[int, Act] = {}
        self.conflicts = 0

    @property
    def table(self) -> Table:
        return self.catalog.table("t")

    def rows(self, day: str) -> list[Row]:
        numbers = [next(self.ids) for _ in range(self.chance.randint(1, 2))]
        self.known += numbers
        return [{"day": day, "n": n, "x": 0} for n in numbers]

    def run(self) -> None:
        for _ in range(TURNS):
            verb = self.chance.choice([self.append, self.update, self.update, self.delete, self.overwrite,
                                       self.transact, self.tend])  # fmt: skip
            try:
                verb()
            except CommitConflict:
                self.conflicts += 1

    def append(self) -> None:
        made = self.rows(self.chance.choice(DAYS))
        self.done[self.table.append(made).number] = lambda model: model.update(_by_number(made))

    def update(self) -> None:
        chosen, x = self.chance.sample(self.known, 2), self.chance.randrange(1000)
        try:
            made = self.table.update([("n", "in", chosen)], {"x": x})
        except CommitConflict as error:
            self.conflicts += 1
            made = error.retry(dict.fromkeys(("update-update", "upsert-upsert"), "ours"))
        self.done[made.number] = lambda model: _set(model, chosen, x)

    def delete(self) -> None:
        n = self.chance.choice(self.known)
        self.done[self.table.delete(f"n = {n}").number] = lambda model: _remove(
            model, lambda row: row["n"] == n
        )

    def overwrite(self) -> None:
        if self.keyed:
            return
        day = self.chance.choice(DAYS)
        made = self.rows(day)

        def act(model: Model) -> None:
            _remove(model, lambda row: row["day"] == day)
            model.update(_by_number(made))

        self.done[self.table.overwrite(made, where=f"day = '{day}'").number] = act

    def transact(self) -> None:
        chosen, x = [self.chance.choice(self.known)], self.chance.randrange(1000)
        made = self.rows("mo")
        with self.catalog.transaction(["t"]) as tx:
            tx.update("t", f"n = {chosen[0]}", {"x": x})
            tx.append("t", made)

        def act(model: Model) -> None:
            _set(model, chosen, x)
            model.update(_by_number(made))

        self.done[tx.versions["t"][-1].number] = act

    def tend(self) -> None:
        verbs: list[Callable[[], Any]] = [self.table.checkpoint, self.table.collect, self.table.compact]
        self.chance.choice(verbs)()


def _by_number(rows: list[Row]) -> Model:
    return {row["n"]: dict(row) for row in rows}


def _set(model: Model, chosen: list[int], x: int) -> None:
    for n in chosen:
        if n in model:
            model[n]["x"] = x


def _remove(model: Model, which: Callable[[Row], bool]) -> None:
    for n in [n for n, row in model.items() if which(row)]:
        del model[n]


def played(seed: int, *, keyed: bool) -> int:
    """Play one history and hold every version against the model. How many conflicts there were."""
    url, stage, ids = f"memory://replay-{secrets.token_hex(6)}", Stage(seed), itertools.count(100)
    first = [{"day": DAYS[n % 3], "n": n, "x": 0} for n in range(6)]
    settings: dict[str, Any] = {"key": ["n"]} if keyed else {"partition_by": ["day"]}
    Catalog(MemoryStore(url), upkeep=False).create_table("t", SCHEMA, mode="cas", **settings).append(first)
    writers = [Writer(url, stage, 10 * seed + at, ids, keyed=keyed) for at in range(3)]
    stage.run([writer.run for writer in writers])
    done: dict[int, Act] = {1: lambda model: model.update(_by_number(first))}
    for writer in writers:
        assert done.keys().isdisjoint(writer.done)
        done |= writer.done
    table = Catalog(MemoryStore(url), upkeep=False).table("t")
    versions = {version.number: version for version in table.history() if version.number}
    assert versions.keys() == done.keys(), f"seed {seed}: what was acknowledged is what is there"
    model: Model = {}
    for number in sorted(done):
        done[number](model)
        assert _by_number(table.read(at=versions[number].id).to_pylist()) == model, f"{seed}: {number}"
    assert table.verify("content").ok
    return sum(writer.conflicts for writer in writers)


@pytest.mark.parametrize("keyed", [False, True], ids=["partitions", "keys"])
def test_every_version_is_what_the_commits_up_to_its_number_give(*, keyed: bool) -> None:
    assert sum(played(seed, keyed=keyed) for seed in range(bounded(400, 40))) > 0
