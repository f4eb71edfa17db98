"""Traces of closing transactions: authors, expirers that close, upkeep and collection, as `Closing` has them.

Transactions over two tables, an expirer of each, a bundler and a collector, all of the real library. Closers
are told by the names of their closings: an expirer's, and those of whoever reads a transaction that is being
closed. A model's time is the place of a hybrid timestamp among all in the trace, and its closer that of
its time, and a number.

A page has all names, so what the model lists in three steps is one moment. What a closer reads is read at its
listing: the file that it gets afterwards has the number that was the highest then.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.clock import hlc
from crdtcat.drive import run
from crdtcat.format.closed import decode_closed
from crdtcat.log import Log, State
from crdtcat.log.serialize import decode_bundle
from crdtcat.protocol import Reader, is_base, is_bundle, is_version
from crdtcat.protocol.names import TRANSACTIONS, closed_number, closing_until, transaction_of
from crdtcat.store.requests import Kind
from proofs.turns import Turns

SCHEMA = pa.schema([("n", pa.string())])
TABLES = ("a", "b")
FOLDERS = {f"tables/{table}/main/": number for number, table in enumerate(TABLES, start=1)}
AUTHORS = ("x", "y")
EXPIRERS = {"e": "a", "f": "b"}
KEEPERS = (*EXPIRERS, "bundler", "collector")
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0, "max_commit_delay_seconds": 0.2}
PATIENCE_MAX = 9  # acts of closers that the slowest author's request waits for
CLOSERS_OF_A_TIME = 10
SLEEP_SECONDS = 0.05
SLEEPS_MAX = 6  # so that others come at any time

Key = Hashable
"""What has a number in the model: a transaction (hlc, writer), a closing's name, or a number already."""


class ClosingEvent(NamedTuple):
    """One action of the model.

    Attributes:
        op: which.
        who: the transaction, closer, bundler or table that acts or is told of.
        number: a closer or number that it deletes, or the number that it read.
        some: transactions.
    """

    op: str
    who: Any
    number: Any = 0
    some: frozenset[Any] = frozenset()


class ClosingRecorder(Turns):
    """Two authors, two expirers, a bundler and a collector, in an order drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._slots: list[tuple[int, list[ClosingEvent]]] = []  # when, and what; filled in when it is known
        self._made: dict[str, list[Key]] = defaultdict(list)  # by author
        self._looked: dict[str, list[ClosingEvent]] = {}
        self._old: set[Key] = set()
        self._files: dict[int, Key] = {}  # by writer
        self._closer: dict[str, str] = {}  # an actor's closing, and whether it is done
        self._closing: set[str] = set()
        self._there: set[str] = set()  # closings, files and numbers that may be deleted
        self._listed: dict[str, list[ClosingEvent]] = {}
        self._stores: set[int] = set()
        self._patience = {name: self.draw.randrange(PATIENCE_MAX) for name in AUTHORS}
        self._expiring = len(EXPIRERS)

    def run(self) -> list[ClosingEvent]:
        """The trace, until everybody is finished."""
        with self.simulated():
            self._everybody()
        for key in self._files.values():
            self._begin(key)
        return self._numbered([event for _, slot in self._slots for event in slot])

    def _everybody(self) -> None:
        catalog = Catalog(self.store(), **OPTIONS)
        for table in TABLES:
            catalog.create_table(table, SCHEMA)
        self._commit("", catalog)
        self.clock.now_ms += 1
        actors = {name: self._author(name) for name in AUTHORS}
        actors |= {name: self._expirer(table) for name, table in EXPIRERS.items()}
        self.perform(actors | {"bundler": self._bundle, "collector": self._collect})
        for folder, place in FOLDERS.items():
            log = run(Reader(folder, State(folder)), self.store()).state.log
            self._add("counts", place, some=self._held(log))

    def _author(self, name: str) -> Callable[[], None]:
        return lambda: self._commit(name, Catalog(self.store(), **OPTIONS))

    def _commit(self, name: str, catalog: Catalog) -> None:
        with catalog.transaction() as transaction:
            for table in TABLES:
                transaction.append(table, [{"n": name}])
        self._told(name, "ok")

    def _told(self, name: str, outcome: str) -> None:
        """It looked at the last of its listings; whoever did not look was in time."""
        key = self._made[name][-1]
        if name in self._looked:
            self._looked.pop(name).append(ClosingEvent("look", key))
            self._old.add(key)
        self._add(outcome, key)

    def _expirer(self, table: str) -> Callable[[], None]:
        def expire() -> None:
            self._sleep_a_while()
            try:
                Catalog(self.store(), **OPTIONS).table(table).expire(older_than=timedelta(0))
            finally:
                self._expiring -= 1

        return expire

    def _bundle(self) -> None:
        for table in self.draw.sample(TABLES, 2):
            self._sleep_a_while()
            Catalog(self.store(), **OPTIONS).table(table).checkpoint()

    def _collect(self) -> None:
        for _ in range(2):
            self._sleep_a_while()
            Catalog(self.store(), **OPTIONS).collect_transactions()

    def _sleep_a_while(self) -> None:
        for _ in range(self.draw.randrange(SLEEPS_MAX)):
            time.sleep(SLEEP_SECONDS)

    def may_happen(self, actor: str, kind: Kind, name: str) -> bool:
        """An author's first file is stored when closers have come so far, or are done."""
        if kind != "put" or actor not in AUTHORS or not is_version(name) or self._made[actor]:
            return True
        ops = [event.op for _, slot in self._slots for event in slot]
        come = sum(op in ("announce", "list", "create", "taken") for op in ops)
        return come >= self._patience[actor] or not self._expiring

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        if name.startswith(TRANSACTIONS) and kind in ("put", "delete"):
            (self._put if kind == "put" else self._deleted)(actor, name)
        elif kind == "put" and is_bundle(name):
            self._bundled(actor, name)
        elif kind == "list" and name == TRANSACTIONS and actor:
            slot = self._slot()
            if actor in self._closing or actor in KEEPERS:
                self._listed[actor] = slot
            elif self._made[actor]:
                self._looked[actor] = slot
        elif kind == "list" and name in FOLDERS and actor in KEEPERS and actor in self._listed:
            self._read(self._listed.pop(actor), self._bundler(actor, name))

    def refused(self, actor: str, name: str) -> None:
        """A closer found its number taken."""
        if closed_number(name):
            self._asked(actor, name)
            self._add("taken", self._closer[actor])

    def _put(self, actor: str, name: str) -> None:
        self._there.add(name)
        if is_version(name):
            key = transaction_of(name)
            if self._made[actor]:  # the one before was passed by
                self._told(actor, "told")
            self._made[actor].append(key)
            self._files[key[1]] = key
            self._add("put", key)
        elif closing_until(name):
            self._closer[actor] = name
            self._closing.add(actor)
            self._listed.pop(actor, None)
            self._add("announce", name)
        elif closed_number(name):
            said = decode_closed(self.objects[name][0], name, closed_number(name))
            self._asked(actor, name)
            self._add("create", self._closer[actor], some=frozenset(map(self._files.get, said.admitted)))

    def _asked(self, actor: str, name: str) -> None:
        """It had read the number before, and listed with that still the highest."""
        closer = self._closer[actor]
        read = ClosingEvent("read", closer, closed_number(name) - 1)
        self._listed.pop(actor).extend((read, ClosingEvent("list", closer)))

    def _deleted(self, actor: str, name: str) -> None:
        if actor in self._closing:  # its time is closed, as it has read
            self._closing.remove(actor)
            self._listed.pop(actor).append(ClosingEvent("done", self._closer[actor]))
        if name not in self._there:
            return  # another was faster
        self._there.remove(name)
        if is_version(name):
            self._add("collect", transaction_of(name))
        elif closing_until(name):
            self._add("delete", self._closer[actor], name)
        elif closed_number(name):
            self._add("forget", self._closer[actor], closed_number(name))

    def _bundler(self, actor: str, folder: str) -> int:
        return len(TABLES) * KEEPERS.index(actor) + FOLDERS[folder]

    def _read(self, slot: list[ClosingEvent], bundler: int) -> None:
        if bundler in self._stores:
            slot.append(ClosingEvent("drop", bundler))
        self._stores.add(bundler)
        slot.extend(ClosingEvent(op, bundler) for op in ("page", "more", "last"))

    def _bundled(self, actor: str, name: str) -> None:
        folder = name[: name.rindex("/") + 1]
        bundler = self._bundler(actor, folder)
        self._stores.remove(bundler)
        log = decode_bundle(self.objects[name][0], folder, name).log
        self._add("base" if is_base(name) else "bundle", bundler, some=self._held(log))

    def _held(self, log: Log) -> frozenset[Key]:
        writers = log.id_fields["writer"].tolist()
        return frozenset(self._files[writer] for writer in writers if writer in self._files)

    def _add(self, op: str, who: Key, number: Key = 0, some: frozenset[Any] = frozenset()) -> None:
        self._slot().append(ClosingEvent(op, who, number, some))

    def _slot(self) -> list[ClosingEvent]:
        self._slots.append((self.clock.now_ms, []))
        return self._slots[-1][1]

    def _begin(self, key: Any) -> None:
        """When the id was made, others may have acted before its file was stored."""
        began = hlc.milliseconds(key[0])
        place = bisect_left(self._slots, began, key=lambda slot: slot[0])
        acts = [ClosingEvent("begin", key)] + [ClosingEvent("age", key)] * (key in self._old)
        self._slots.insert(place, (began, acts))

    def _numbered(self, trace: list[ClosingEvent]) -> list[ClosingEvent]:
        """Times by their places, transactions each with a place of its own; closers by time and order."""
        closings = {name: closing_until(name) for name in dict.fromkeys(self._announced(trace))}
        places = sorted({(until, -1) for until in closings.values()} | set(self._files.values()))  # type: ignore[type-var]
        number: dict[Any, int] = {place: at for at, place in enumerate(places, start=1)}
        same: dict[int, int] = defaultdict(int)
        closers: dict[Any, int] = {}
        for name, until in closings.items():
            time_of = number[until, -1]
            assert same[time_of] < CLOSERS_OF_A_TIME, "the model's settings name no more closers than that"
            closers[name] = CLOSERS_OF_A_TIME * time_of + same[time_of]
            same[time_of] += 1
        number |= closers
        return [
            event._replace(
                who=number.get(event.who, event.who),
                number=number.get(event.number, event.number),
                some=frozenset(number[key] for key in event.some),
            )
            for event in trace
        ]

    def _announced(self, trace: list[ClosingEvent]) -> list[str]:
        return [event.who for event in trace if event.op == "announce"]
