"""The built-in steps of a simulation, each with what it must find: rows, values, keys, snapshots.

One table of rows, `t`, is appended to, overwritten, updated, deleted from, compacted, expired; one with a
key, `k`, is upserted into and deleted from without looking. What is certain about rows is kept by a `Ledger`,
about values and keys by `Cells`. `crdtcat.testing.simulator` decides who acts, when, and what goes wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from crdtcat.catalog import Catalog
from crdtcat.errors import CommitUnknown, Expired, StoreUnavailable
from crdtcat.head import Snapshot
from crdtcat.table import Table
from crdtcat.testing.cells import Cells
from crdtcat.testing.invariants import head_value
from crdtcat.testing.ledger import Ledger, Outcome
from crdtcat.testing.simulated_store import Crash, Objects, SimulatedStore, VirtualClock

SCHEMA: Final = pa.schema([("row", pa.int64()), ("text", pa.string())])
KEYED: Final = pa.schema([("key", pa.int64()), ("text", pa.string())])
KEYS: Final = 6
EXPIRED_AFTER: Final = timedelta(seconds=30)
VERBS: Final = {
    "append": 8,
    "append with a key": 3,
    "overwrite": 2,
    "update": 4,
    "delete": 3,
    "upsert": 4,
    "delete keys": 2,
    "read": 6,
    "read keys": 3,
    "travel": 3,
    "compact": 2,
    "expire": 1,
    "checkpoint": 3,
    "collect": 3,
    "upkeep": 3,
    "restart": 1,
    "wait": 2,
}
"""The built-in steps, and how often each is taken."""


@dataclass
class Process:
    """One simulated process: its clock error, and the handles it has now."""

    name: str
    skew_ms: int
    options: dict[str, Any]
    catalog: Catalog | None = None
    busy: bool = False
    seen: Snapshot | None = None
    looked_at_keys: float = 0

    def begin_anew(self) -> None:
        """Nothing of it is left but its name and its clock."""
        self.catalog, self.seen, self.looked_at_keys = None, None, 0


class Verbs:
    """What processes do. A simulation is made of it."""

    chance: random.Random
    clock: VirtualClock
    processes: list[Process]

    def __init__(self) -> None:
        self.objects: Objects = {}
        self.ledger = Ledger()
        self.texts = Cells(self.ledger.now)
        self.keys = Cells(self.ledger.now)
        self.snapshots: list[tuple[str, list[Any]]] = []
        self.expired = False

    def _store(self) -> SimulatedStore:
        raise NotImplementedError

    def _catalog(self, process: Process) -> Catalog:
        if process.catalog is None:
            process.catalog = Catalog(self._store(), **process.options)
        return process.catalog

    def _table(self, process: Process) -> Table:
        return self._catalog(process).table("t")

    def _create(self, catalog: Catalog) -> None:
        catalog.create_table("t", SCHEMA)
        catalog.create_table("k", KEYED, key=["key"])

    def _verb(self, name: str) -> Callable[[Process], str]:
        verb: Callable[[Process], str] = getattr(self, f"_{name.replace(' ', '_')}")
        return verb

    def _checkpoint(self, process: Process) -> str:
        return f"{self._table(process).checkpoint().versions} versions"

    def _collect(self, process: Process) -> str:
        return f"{self._table(process).collect().kept} files left"

    def _upkeep(self, process: Process) -> str:
        return f"{self._checkpoint(process)}, {self._collect(process)}"

    def _compact(self, process: Process) -> str:
        self._table(process).compact()
        return "done"

    def _expire(self, process: Process) -> str:
        self.expired = True
        self._table(process).expire(older_than=EXPIRED_AFTER)
        return "done"

    def _restart(self, process: Process) -> str:
        process.begin_anew()
        return "a new handle"

    def _wait(self, process: Process) -> str:  # noqa: ARG002
        self.clock.now_ms += self.chance.randrange(60_000)
        return "time passes"

    def _append(self, process: Process) -> str:
        return self._commit(process, self.ledger.begin(self.chance.randint(1, 3)), None)

    def _append_with_a_key(self, process: Process) -> str:
        """A new task, or one done before by this process or another: it must count once."""
        key = f"task {self.chance.randrange(4)}"
        return self._commit(process, self.ledger.begin(self.chance.randint(1, 3), key=key), key)

    def _overwrite(self, process: Process) -> str:
        return self._commit(process, self.ledger.begin(self.chance.randint(1, 3), overwrite=True), None)

    def _commit(self, process: Process, number: int, key: str | None) -> str:
        entry = self.ledger.entries[number]
        rows = pa.table([pa.array(entry.rows, pa.int64()), list(map(_first_text, entry.rows))], schema=SCHEMA)

        def commit() -> Any:
            table = self._table(process)
            return table.overwrite(rows) if entry.overwrite else table.append(rows, key=key)

        told = self._told(commit, lambda outcome: self.ledger.end(number, outcome))
        return f"rows {entry.rows} {told}"

    def _told(self, commit: Callable[[], Any], end: Callable[[Outcome], None]) -> str:
        """Commit, and write down what is known of it."""
        try:
            version = commit()
        except StoreUnavailable:
            end("nothing")
            raise
        except CommitUnknown:
            end("unknown")
            return "nobody knows"
        except Crash:
            end("unknown")
            raise
        end("done")
        return f"as {version.id}"

    def _update(self, process: Process) -> str:
        saw, rows = self._some_rows(process)
        if not rows:
            return "no rows yet"
        text = f"update {len(self.texts.writes)}"
        number = self.texts.begin(rows, text, saw)
        told = self._told(
            lambda: self._table(process).update(_among(rows), {"text": text}),
            lambda outcome: self.texts.end(number, outcome),
        )
        return f"rows {rows} to {text!r} {told}"

    def _delete(self, process: Process) -> str:
        _, rows = self._some_rows(process)
        if not rows:
            return "no rows yet"
        number = self.ledger.begin_removal(rows)
        told = self._told(
            lambda: self._table(process).delete(_among(rows)),
            lambda outcome: self.ledger.end_removal(number, outcome),
        )
        return f"rows {rows} {told}"

    def _some_rows(self, process: Process) -> tuple[float, list[int]]:
        """Some of the rows that a process sees now, and since when it sees all that had ended."""
        saw = self.ledger.now()
        self._read(process)
        rows = [row for row, _ in self.snapshots[-1][1]]
        return saw, self.chance.sample(rows, min(len(rows), self.chance.randint(1, 3)))

    def _upsert(self, process: Process) -> str:
        return self._write_keys(process, f"upsert {len(self.keys.writes)}")

    def _delete_keys(self, process: Process) -> str:
        return self._write_keys(process, None)

    def _write_keys(self, process: Process, text: str | None) -> str:
        keys = self.chance.sample(range(KEYS), self.chance.randint(1, 3))
        number = self.keys.begin(keys, text, process.looked_at_keys)

        def commit() -> Any:
            table = self._catalog(process).table("k")
            if text is None:
                return table.delete(keys=keys)
            return table.upsert(pa.table([pa.array(keys, pa.int64()), [text] * len(keys)], schema=KEYED))

        told = self._told(commit, lambda outcome: self.keys.end(number, outcome))
        return f"keys {keys} to {text!r} {told}"

    def _read_keys(self, process: Process) -> str:
        began = self.ledger.now()
        rows = self._catalog(process).read("k").to_pylist()
        found = {row["key"]: row["text"] for row in rows}
        assert len(found) == len(rows), f"a key is there twice: {rows}"
        self.keys.check({key: found.get(key) for key in range(KEYS)}, began, lambda _: None)
        process.looked_at_keys = began
        return f"{len(rows)} keys"

    def _read(self, process: Process) -> str:
        began = self.ledger.now()
        scan = self._table(process).scan()
        found = _shown(scan.to_table())
        self.ledger.check([row for row, _ in found], began)
        self.texts.check(dict(found), began, _first_text)
        if process.seen is not None:
            assert process.seen.clock <= scan.snapshot.clock, "a handle saw less than before"
        process.seen = scan.snapshot
        self.snapshots.append((str(scan.snapshot), found))
        return f"{len(found)} rows, snapshot {scan.snapshot.id[:8]}"

    def _travel(self, process: Process) -> str:
        if not self.snapshots:
            return "no snapshot yet"
        token, expected = self.chance.choice(self.snapshots)
        return self._travelled(process, token, expected)

    def _travelled(self, process: Process, token: str, expected: list[Any]) -> str:
        try:
            found = _shown(self._table(process).read(at=token))
        except Expired:
            assert self.expired, "nobody expired anything"
            return "expired"
        assert found == expected, f"a snapshot read {expected}, and now reads {found}"
        return f"{len(found)} rows as before"

    def _check_agreement(self) -> None:
        """Old handles and new ones, before and after all upkeep there is: one head, and every snapshot."""
        for process in self.processes:
            self._read(process)
            self._read_keys(process)
        heads = [head_value(self._table(process)._session.head()) for process in self.processes]
        assert all(head == heads[0] for head in heads), "processes that merged the same files disagree"
        for process in self.processes:
            self._table(process).checkpoint()
            self.clock.now_ms += 100_000_000
            self._table(process).collect()
        newcomer = self.processes[0]
        self._restart(newcomer)
        self._read(newcomer)
        assert head_value(self._table(newcomer)._session.head()) == heads[0], "upkeep changed a value"
        self._read_keys(newcomer)
        for token, expected in dict(self.snapshots).items():
            self._travelled(newcomer, token, expected)


def _first_text(row: object) -> str:
    return f"row {row}"


def _among(rows: list[int]) -> str:
    return f"row in ({', '.join(map(str, rows))})"


def _shown(table: pa.Table) -> list[Any]:
    return list(zip(table["row"].to_pylist(), table["text"].to_pylist(), strict=True))
