"""Traces of transactions: writers that mark a table first, upkeep and a reader, in the terms of `Marks`.

One table, two transactions, each by a writer of its own: the mark, then the file. Upkeep bundles and collects
transaction files; a reader lists the folder, and, where it finds the mark, `transactions/` and the folder
again. `check` holds a trace against the model's rules, restated here in Python; `traces_runner.py` has TLC do
the same. A pass that has to be repeated because a file is gone is, in the model, a read that ended, and
another.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from crdtcat.log.serialize import decode_bundle
from crdtcat.protocol import Delete, ListPage, Publish, Put, is_bundle
from crdtcat.testing.scheduler import Actor
from proofs.acts import Act
from proofs.schedule import Running, Schedule
from tests.protocol import mutants
from tests.protocol.scenes import FOLDER, MARK, reader, transaction, upkeep

FAULTS = 2
FILES = (transaction(5, 5, FOLDER), transaction(6, 6, FOLDER))
NAMES = {5: "x", 6: "y"}  # by writer
OF_FILE = {FILES[0][0]: "x", FILES[1][0]: "y"}


class MarkRecorder(Schedule):
    """Runs two transactions, upkeep and a reader in an order drawn from a seed.

    Args:
        seed: decides the schedule.
        watched: makes the reader whose listings are part of the trace.
    """

    def __init__(self, seed: int, watched: Any = reader) -> None:
        self._reader = watched("watched")
        writers = [
            Actor(name, Publish((Put(*MARK), Put(*file)))) for name, file in zip("xy", FILES, strict=True)
        ]
        keepers = [upkeep(name, kind=mutants.AnyPlaceCollector) for name in ("first", "second")]
        draw = random.Random(seed)  # noqa: S311 - a schedule, not a secret
        super().__init__(draw, [*writers, *keepers, self._reader], {}, faults=FAULTS)
        self._is_known = False
        self._covered: set[str] = set()
        self._lists = 0
        self.events: list[Act] = []

    def run(self) -> list[Act]:
        """The trace, until every actor is finished."""
        self._run()
        return self.events

    def happened(self, running: Running, want: Any, effect: Any) -> None:
        """One request, as the model's actions."""
        if isinstance(want, Put):
            self._put(want, effect)
        elif isinstance(want, Delete):
            for name in effect.removed & self._objects:
                if name in OF_FILE:
                    self._add("collect", OF_FILE[name])
        elif isinstance(want, ListPage) and running.actor is self._reader:
            self._listed(running, want)

    def _put(self, want: Put, effect: Any) -> None:
        if want.name == MARK[0]:
            if effect.added - self._objects:
                self._add("mark")
            if effect.answer.clear and not self._is_known:
                self._is_known = True
                self._add("answered")
        elif effect.added - self._objects:
            if want.name in OF_FILE:
                self._add("land", OF_FILE[want.name])
            for name in sorted(self._held(want.name) - self._covered):
                self._covered.add(name)
                self._add("bundle", name)

    def _listed(self, running: Running, want: ListPage) -> None:
        if running.step.passes > self._lists:  # a new pass; the one before ended, in the model
            if self._lists:
                self._add("decide")
            self._lists = running.step.passes
            self._add("begin")
        if want.prefix != FOLDER:
            self._add("transactions")
        elif running.step.marked:
            self._add("folder")
        else:
            self._add("page")
            self._add("page")

    def finished(self, running: Running) -> None:
        """What the reader found."""
        if running.actor is self._reader:
            log = running.step.state.log
            found = frozenset(NAMES[log.id_at(at).writer] for at in range(len(log)))
            self._add("decide")
            self.events.append(Act("result", result=found))

    def _held(self, name: str) -> set[str]:
        if not is_bundle(name):
            return set()
        log = decode_bundle(self._store.data[name], FOLDER, name).log
        return {NAMES[log.id_at(at).writer] for at in range(len(log))}

    def _add(self, op: str, name: str = "") -> None:
        self.events.append(Act(op, name))


def check(trace: Iterable[Act]) -> None:
    """Raise AssertionError at the first event that the model, tla/Marks.tla, does not allow."""
    model = _Model()
    for at, event in enumerate(trace):
        getattr(model, f"on_{event.op}")(event, f"event {at}, {event}")


class _Model:
    """The model's state for one table, and one method for each of its actions."""

    def __init__(self) -> None:
        self.mark = self.known = self.found = self.remembered = False
        self.files: set[str] = set()
        self.covered: set[str] = set()
        self.landed: set[str] = set()
        self.seen: set[str] = set()
        self.must: set[str] = set()
        self.step = "idle"

    def on_mark(self, _: Act, words: str) -> None:
        assert not self.mark, words
        self.mark = True

    def on_answered(self, _: Act, words: str) -> None:
        assert self.mark, f"{words}: it is not stored"
        self.known = True

    def on_land(self, event: Act, words: str) -> None:
        assert self.known, f"{words}: before the mark was answered"
        self.files.add(event.who)
        self.landed.add(event.who)

    def on_bundle(self, event: Act, words: str) -> None:
        assert event.who in self.files - self.covered, f"{words}: bundles what is not there"
        self.covered.add(event.who)

    def on_collect(self, event: Act, words: str) -> None:
        assert event.who in self.files & self.covered, f"{words}: no bundle has it"
        self.files.remove(event.who)

    def on_begin(self, _: Act, words: str) -> None:
        assert self.step in ("idle", "done"), words
        self.step, self.found = "transactions" if self.remembered else "one", False
        self.seen, self.must = set(), set(self.landed)

    def on_page(self, _: Act, words: str) -> None:
        assert self.step in ("one", "two"), words
        if self.step == "one":
            self.found, self.step = self.mark, "two"
            self.remembered = self.remembered or self.found
        else:
            self.seen |= self.covered
            self.step = "transactions" if self.found else "decide"

    def on_transactions(self, _: Act, words: str) -> None:
        assert self.step == "transactions", f"{words}: without having seen the mark"
        self.seen |= self.files
        self.step = "folder"

    def on_folder(self, _: Act, words: str) -> None:
        assert self.step == "folder", words
        self.seen |= self.covered
        self.step = "decide"

    def on_decide(self, _: Act, words: str) -> None:
        assert self.step == "decide", words
        self.step = "done"
        assert self.must <= self.seen, f"{words}: what was acknowledged is missing"

    def on_result(self, event: Act, words: str) -> None:
        assert self.step == "done", words
        assert event.result == self.seen, f"{words}: the model reads {sorted(self.seen)}"
