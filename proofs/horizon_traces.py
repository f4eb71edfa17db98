"""Traces of expiry: writers that may be slow and expirers that race, in the terms of the model `Horizon`.

Writers append a row each, blindly; expirers fold what is old. All of them are the real library. Milliseconds
since the trace began are the model's time, and a writer's time is the one in its version's id, so it begins
before its request is made. `Delay` is half of `max_commit_delay_seconds`: a writer that took longer looks at
the proposals, and expirers keep twice that distance. A commit that an expiry passed by for good is made anew,
under a younger id: in the model by another writer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.clock import VersionId, hlc
from crdtcat.errors import CommitUnknown
from crdtcat.log.serialize import decode_bundle
from crdtcat.protocol import base_number, is_version
from crdtcat.protocol.names import last
from crdtcat.store.requests import Kind
from proofs.acts import Act, ActRecorder

SCHEMA = pa.schema([("n", pa.string())])
WRITERS = ("v", "w")
EXPIRERS = ("e", "f")
FOLDER = "tables/t/main/"
PROPOSED = "tables/t/refs/horizons/"
DELAY_MS = 100
OPTIONS: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 2 * DELAY_MS / 1000}
PATIENCE_MAX = 6  # acts of expirers that the slowest writer's request waits for


class HorizonRecorder(ActRecorder):
    """Two writers and two expirers, in an order drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._began_ms = self.clock.now_ms
        self._commits: dict[str, list[str]] = {}
        self._names: dict[VersionId, str] = {}
        self._proposed: dict[str, str] = {}
        self._cleared: set[str] = set()
        self._patience = {name: self.draw.randrange(PATIENCE_MAX) for name in WRITERS}
        self._expiring = len(EXPIRERS)
        self._done: set[str] = set()

    def everybody(self) -> None:
        """Somebody has committed before; then all at once; then a reader says what counts."""
        table = Catalog(self.store(), **OPTIONS).create_table("t", SCHEMA)
        self.clock.now_ms += 1
        table.append([{"n": "old"}])
        self.add("told", "old", result=frozenset({"acknowledged"}))
        self.clock.now_ms += 1
        actors = {name: self._writer(name) for name in WRITERS}
        actors |= dict.fromkeys(EXPIRERS, self._expire)
        self.perform(actors)
        counted = Catalog(self.store(), **OPTIONS).table("t").read()["n"].to_pylist()
        alive = {self._commits[name][-1] for name in counted}
        assert len(alive) == len(counted), "a commit counts twice"
        self.add("counts", result=frozenset(alive))

    def _writer(self, name: str) -> Callable[[], None]:
        def append() -> None:
            table = Catalog(self.store(), **OPTIONS).table("t")
            try:
                table.append([{"n": name}])
            except CommitUnknown:
                self._told(name, "unknown")
            else:
                self._told(name, "acknowledged")

        return append

    def _expire(self) -> None:
        try:
            Catalog(self.store(), **OPTIONS).table("t").expire(older_than=timedelta(0))
        finally:
            self._expiring -= 1

    def _told(self, name: str, outcome: str) -> None:
        self._tick()
        self.add("told", self._commits[name][-1], result=frozenset({outcome}))

    def may_happen(self, actor: str, kind: Kind, name: str) -> bool:
        """A writer's version is stored when expirers have come so far, or are done."""
        if kind != "put" or actor not in WRITERS or not is_version(name):
            return True
        come = sum(act.op in ("propose", "list", "base") for act in self.events)
        return come >= self._patience[actor] or not self._expiring

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        if kind == "put" and name.startswith(FOLDER) and is_version(name):
            self._landed(actor or "old", VersionId.parse(last(name).removesuffix(".v")))
        elif kind == "list" and name == PROPOSED and actor in WRITERS:
            self._write("look", self._commits[actor][-1])
        elif actor in EXPIRERS:
            self._expired(actor, kind, name)

    def _landed(self, who: str, id: VersionId) -> None:
        made = self._commits.setdefault(who, [])
        if made:
            self._write("dead", made[-1])
        made.append(who if not made else f"{who}{len(made) + 1}")
        self._names[id] = made[-1]
        assert not id.hlc % 2**16, "each writer has one commit in a millisecond"
        self._start(made[-1], hlc.milliseconds(id.hlc) - self._began_ms)
        self._write("land", made[-1])
        self._write("answer", made[-1])

    def _expired(self, who: str, kind: Kind, name: str) -> None:
        if name.startswith(PROPOSED) and kind == "put":
            horizon = int(last(name).partition("-")[0], 16)
            self._proposed[name] = who
            self._write("propose", who, hlc.milliseconds(horizon) - self._began_ms)
        elif name.startswith(PROPOSED) and kind == "delete":
            if who not in self._done:
                self._write("give up", who, result=frozenset({self._proposed[name]}))
            elif name not in self._cleared:  # else another was faster
                self._write("clear", who, result=frozenset({self._proposed[name]}))
            self._cleared.add(name)
        elif kind == "list" and name == FOLDER and who in self._proposed.values() and who not in self._done:
            self._write("list", who)
        elif kind == "put" and name.startswith(FOLDER) and base_number(name):
            log = decode_bundle(self.objects[name][0], FOLDER, name).log
            self._done.add(who)
            held = frozenset(self._names[log.id_at(at)] for at in range(len(log)))
            self._write("base", who, result=held)

    def _write(self, op: str, who: str, number: int = 0, result: frozenset[str] = frozenset()) -> None:
        self._tick()
        self.add(op, who, number, result)

    def _tick(self) -> None:
        now = self.clock.now_ms - self._began_ms
        if now > max((act.number for act in self.events if act.op == "tick"), default=0):
            self.add("tick", number=now)

    def _start(self, who: str, at: int) -> None:
        """When the id was made: its request was answered later, and others may have acted since."""
        times, now = [], 0
        for act in self.events:
            now = act.number if act.op == "tick" else now
            times.append(now)
        place = bisect_right(times, at)
        self.events[place:place] = [Act("tick", number=at), Act("start", who)]
