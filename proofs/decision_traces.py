"""Traces of transactions over two tables in CAS mode, in the terms of the model `Decisions`.

Two transactions, two commits to one table each, upkeep, collection and a reader of both tables, all of them
the real library; whoever meets a transaction that is not decided aborts it. The collector has no grace
period: it deletes a decision when nobody is at work, which is what the grace period is for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.errors import CommitContended
from crdtcat.format.carried import own_frame
from crdtcat.format.decision import decode_decision
from crdtcat.format.version import decode_version
from crdtcat.log.serialize import decode_bundle
from crdtcat.maintenance.transactions import collect_transactions
from crdtcat.protocol import is_bundle, is_claim
from crdtcat.protocol.names import decided_transaction, is_decision
from crdtcat.store.requests import Kind
from proofs.pinned_reads import PinnedReads

SCHEMA = pa.schema([("n", pa.string())])
TABLES = ("a", "b")
FOLDERS = {f"tables/{table}/main/": number + 1 for number, table in enumerate(TABLES)}
TRANSACTIONS = ("x", "y")
PLAIN = ("p", "q")
SLEEPS_MAX = 3  # so that everybody comes at any time
COLLECTIONS = 5
OPTIONS: dict[str, Any] = {"upkeep": False, "base_delay": 0.001, "retries": 99, "lease_seconds": 0}


class DecisionEvent(NamedTuple):
    """One action of the model: about whom and which table; for a result, what was found in each, in order."""

    op: str
    name: str = ""
    table: int = 0
    found: tuple[tuple[str, ...], ...] = ((), ())


class DecisionRecorder(PinnedReads):
    """Writers, upkeep, a collector and a reader, in an order drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[DecisionEvent] = []
        self._numbers: dict[int, str] = {}
        self._active: set[str] = set()
        self._copied: set[tuple[int, str]] = set()
        self._slot: int | None = None
        self._table = self._reads = 0

    def run(self) -> list[DecisionEvent]:
        """The trace, until everybody is finished."""
        with self.simulated(), self.watched():
            catalog = Catalog(self.store(), **OPTIONS)
            for table in TABLES:
                catalog.create_table(table, SCHEMA, mode="cas")
            actors = {name: self._transaction(name) for name in TRANSACTIONS}
            actors |= {name: self._commit(name) for name in PLAIN}
            actors |= {"upkeep": self._upkeep, "reader": self._reader}
            everybody = {name: self._sometime(name, act) for name, act in actors.items()}
            self.perform(everybody | {"collector": self._collect})
        return [event for event in self.events if event.op]

    def _sometime(self, name: str, act: Callable[[], None]) -> Callable[[], None]:
        def acts() -> None:
            for _ in range(self.draw.randrange(SLEEPS_MAX)):
                time.sleep(0.05)
            self._active.add(name)
            try:
                act()
            finally:
                self._active.discard(name)

        return acts

    def _transaction(self, name: str) -> Callable[[], None]:
        def transact() -> None:
            try:
                with Catalog(self.store(), **OPTIONS).transaction() as transaction:
                    for table in TABLES:
                        transaction.append(table, [{"n": name}])
            except CommitContended:
                self._add("failed", name)
            else:
                self._add("ok", name)

        return transact

    def _commit(self, name: str) -> Callable[[], None]:
        table = self.draw.choice(TABLES)

        def commit() -> None:
            Catalog(self.store(), **OPTIONS).table(table).append([{"n": name}])

        return commit

    def _upkeep(self) -> None:
        for table in TABLES:
            Catalog(self.store(), **OPTIONS).table(table).checkpoint()

    def _collect(self) -> None:
        catalog = Catalog(self.store(), **OPTIONS)
        at_once = catalog.options.model_copy(update={"grace_seconds": 0.0})
        for _ in range(COLLECTIONS):
            time.sleep(0.3)
            collect_transactions(catalog.store, at_once, catalog._open_log)

    def _reader(self) -> None:
        with Catalog(self.store(), **OPTIONS).transaction(TABLES) as transaction:
            found = tuple(tuple(transaction.read(table)["n"].to_pylist()) for table in TABLES)
        self._add("result", found=found)

    def may_happen(self, actor: str, kind: Kind, name: str) -> bool:  # noqa: ARG002
        """A decision is collected when nobody is at work that may have begun before its last copy."""
        return kind != "delete" or not is_decision(name) or not self._active

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        if not actor:
            return
        if kind == "put" and is_claim(name):
            self._claimed(actor, name)
        elif kind == "put" and is_decision(name):
            self._decided(actor, name)
        elif kind == "put" and is_bundle(name):
            self._bundled(name)
        elif kind == "delete" and is_decision(name):
            self._add("collect", self._of(name))
        elif actor == "reader" and kind == "get" and is_decision(name):
            self._asked()
        elif actor == "reader" and kind == "list" and name in FOLDERS:
            self._listed(FOLDERS[name])

    def missed(self, actor: str, name: str) -> None:
        """Somebody looked for a decision that is not there."""
        if actor == "reader" and is_decision(name):
            self._asked()

    def refused(self, actor: str, name: str) -> None:
        """A transaction that wanted to commit was aborted before."""
        if is_decision(name) and self._of(name) == actor:
            self._add("decide", actor)
            self._add("check", actor)

    def _claimed(self, actor: str, name: str) -> None:
        table = FOLDERS[name[: name.rindex("/") + 1]]
        if actor in PLAIN:
            self._add("commit", actor, table)
        else:
            self._numbers[decode_version(own_frame(self.objects[name][0], name), name)[0].writer] = actor
            self._add("prepare", actor, table)

    def _decided(self, actor: str, name: str) -> None:
        of = self._of(name)
        if decode_decision(self.objects[name][0], name):
            assert of == actor
            self._add("decide", of)
            self._add("check", of)
        else:
            self._add("meet", of)
            self._add("abort", of)

    def _bundled(self, name: str) -> None:
        folder = name[: name.rindex("/") + 1]
        log = decode_bundle(self.objects[name][0], folder, name).log
        held = {self._numbers.get(log.id_at(at).writer, "") for at in range(len(log))}
        for who in sorted(held & set(TRANSACTIONS)):
            copied = FOLDERS[folder], who
            if copied not in self._copied:
                self._copied.add(copied)
                self._add("copy", who, copied[0])

    def begins(self) -> None:
        """All tables are read; once more, if something came between."""
        self._add("begin again" if self._reads else "begin")
        self._reads += 1

    def table_begins(self, folder: str) -> None:
        """From now on listings of this folder are reading it."""
        self._table = FOLDERS[folder]

    def table_ends(self) -> None:
        """What is made of a listing is made of it when the last decision was asked for."""
        assert self._slot is not None
        self.events[self._slot] = DecisionEvent("resolve")
        self._slot, self._table = None, 0

    def _listed(self, number: int) -> None:
        if number != self._table:
            return
        if self._slot is not None:
            self.events[self._slot] = DecisionEvent("vanished")
        self._add("list", table=number)
        self._asked()

    def _asked(self) -> None:
        if self._table:
            self._slot = len(self.events)
            self._add("")

    def _of(self, name: str) -> str:
        return self._numbers[decided_transaction(name)]

    def _add(self, op: str, name: str = "", table: int = 0, **more: Any) -> None:
        self.events.append(DecisionEvent(op, name, table, **more))
