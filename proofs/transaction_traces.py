"""Traces of transactions over two tables in merge mode, in the terms of the model `Transactions`.

Writers, upkeep, collection and a reader of both tables, all of them the real library. Both tables took part
in a transaction before, so `transactions/` is always listed (`Marks` is about those that did not). A first
listing of a folder by a handle that does not know this yet is thrown away by the reader, and is nothing here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.log.serialize import decode_bundle
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol import is_bundle, is_version
from crdtcat.protocol.names import TRANSACTIONS
from crdtcat.store.requests import Kind
from proofs.pinned_reads import PinnedReads

SCHEMA = pa.schema([("n", pa.string())])
TABLES = ("a", "b")
FOLDERS = {f"tables/{table}/main/": number + 1 for number, table in enumerate(TABLES)}
WRITERS = ("x", "y")
SLEEPS_MAX = 10  # so that the reader comes at any time
FIRST = "first"  # the one that marked the tables


class TransactionEvent(NamedTuple):
    """One action of the model: about which transaction or table; for a result, what was found in each."""

    op: str
    name: str = ""
    table: int = 0
    found: tuple[frozenset[str], ...] = (frozenset(), frozenset())


class TransactionRecorder(PinnedReads):
    """Two writers, upkeep, a collector and a reader, in an order drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[TransactionEvent] = []
        self._writers: dict[int, str] = {}
        self._files: dict[str, str] = {}
        self._covered: set[tuple[int, str]] = set()
        self._table = self._reads = 0
        self._part = ""

    def run(self) -> list[TransactionEvent]:
        """The trace, until everybody is finished."""
        with self.simulated(), self.watched():
            self._everybody()
        return [event for event in self.events if event.op]

    def _everybody(self) -> None:
        catalog = self._catalog()
        for table in TABLES:
            catalog.create_table(table, SCHEMA)
        self._append(catalog, FIRST)
        actors = {name: self._writer(name) for name in WRITERS} | {"reader": self._reader}
        actors |= {"upkeep": self._upkeep, "collector": self._collect}
        self.perform(actors)

    def _catalog(self) -> Catalog:
        return Catalog(self.store(), upkeep=False, grace_seconds=0)

    def _append(self, catalog: Catalog, name: str) -> None:
        with catalog.transaction() as transaction:
            for table in TABLES:
                transaction.append(table, [{"n": name}])

    def _writer(self, name: str) -> Callable[[], None]:
        return lambda: self._append(self._catalog(), name)

    def _upkeep(self) -> None:
        for table in TABLES:
            self._catalog().table(table).checkpoint()

    def _collect(self) -> None:
        for _ in range(2):
            self._catalog().collect_transactions()

    def _reader(self) -> None:
        for _ in range(self.draw.randrange(SLEEPS_MAX)):
            time.sleep(0.2)
        with self._catalog().transaction(TABLES) as transaction:
            read = [transaction.read(table)["n"].to_pylist() for table in TABLES]
        self._add("result", found=tuple(map(frozenset, read)))

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        if kind == "put" and name.startswith(TRANSACTIONS) and is_version(name):
            who = actor or FIRST
            self._files[name] = who
            self._writers[int(name.split("-")[1], 16)] = who
            self._add("land", who)
        elif kind == "put" and is_bundle(name):
            self._bundled(name)
        elif kind == "delete" and name in self._files:
            self._add("collect", self._files[name])
        elif kind == "list" and actor == "reader":
            self._listed(name)

    def _bundled(self, name: str) -> None:
        folder = name[: name.rindex("/") + 1]
        log = decode_bundle(self.objects[name][0], folder, name).log
        for writer in sorted(transactions_in(log)):
            covered = FOLDERS[folder], self._writers[writer]
            if covered not in self._covered:
                self._covered.add(covered)
                self._add("bundle", covered[1], covered[0])

    def begins(self) -> None:
        """All tables are read; once more, if something came between."""
        self._add("begin again" if self._reads else "begin")
        self._reads += 1

    def table_begins(self, folder: str) -> None:
        """From now on listings are reading it."""
        self._table, self._part = FOLDERS[folder], ""

    def table_ends(self) -> None:
        """What was listed last is what counts."""
        self._add("decide")
        self._table = 0

    def _listed(self, folder: str) -> None:
        if folder == TRANSACTIONS and self._table:
            if self._part == "folder":  # a file was gone: once more
                self._add("vanished")
            self._part = "transactions"
            self._add("transactions")
        elif self._part == "transactions" and FOLDERS.get(folder) == self._table:
            self._part = "folder"
            self._add("folder", table=self._table)

    def _add(self, op: str, name: str = "", table: int = 0, **more: Any) -> None:
        self.events.append(TransactionEvent(op, name, table, **more))
