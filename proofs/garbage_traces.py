"""Traces of segments and their collectors, in the terms of the models `Segments` and `Reuse`.

Writers take up to days, collectors come by when they like, on a clock of their own; all of them are the real
library. A commit that takes longer than `TRANSACTION_SECONDS_MAX` is over in the models as soon as that is so
(a minute is allowed for requests): if the library commits it all the same, the trace is no behaviour.

What deletes is `Catalog.collect`. A list that it stores is, for each segment in it, the models' mark or
sentence; a segment it deletes was in one that is a grace period old.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.chunks.segment import segment_name
from crdtcat.clock import VersionId
from crdtcat.errors import Expired, LimitExceeded, NotFound
from crdtcat.format.condemned import FOLDER as LISTS
from crdtcat.format.condemned import TITLE_BYTES, decode_titles, is_let_go
from crdtcat.format.version import decode_version
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.log.serialize import decode_bundle
from crdtcat.options import COLLECT_GRACE_SECONDS
from crdtcat.protocol import base_number, is_version
from crdtcat.protocol.names import last
from crdtcat.store.requests import Kind
from crdtcat.verbs.parts import commit_parts, plan_parts
from proofs.acts import ActRecorder

SCHEMA = pa.schema([("n", pa.int64())])
FOLDER = "tables/t/main/"
DATA = "data/"
HOUR = 3600
REQUESTS_MS: Final = 60_000  # what the requests of one commit may take, beside what it waits
OPTIONS: dict[str, Any] = {
    "upkeep": False, "inline_bytes": 0, "grace_seconds": 60, "max_commit_delay_seconds": 60
}  # fmt: skip


class _Garbage(ActRecorder):
    """Collectors, and what both models have of them."""

    wakes = 0.0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.named: dict[str, str] = {}
        self.since_ms: dict[str, int] = {}

    def catalog(self) -> Catalog:
        return Catalog(self.store(), **OPTIONS)

    def rows(self) -> pa.Table:
        return pa.table({"n": [self.draw.randrange(2**60) for _ in range(4)]}, schema=SCHEMA)

    def collector(self, times: int, hours_max: int) -> Callable[[], None]:
        def collect() -> None:
            for _ in range(times):
                time.sleep(self.draw.randrange(hours_max) * HOUR)
                self.catalog().collect()

        return collect

    def listed(self, name: str) -> list[str]:
        """Which of the segments that the model knows are in a list."""
        titles = decode_titles(self.objects[name][0], name)
        names = [segment_name(title[:16], title[16:]) for title in titles]
        return sorted(self.named[name] for name in names if name in self.named)

    def referred(self, name: str) -> list[str]:
        """Which of them a version file refers to."""
        _, body = decode_version(self.objects[name][0], name)
        names = [segment_name(item[0][:16], item[0][16:]) for item in body.get("g") or ()]
        return sorted(self.named[name] for name in names if name in self.named)

    def over(self) -> list[str]:
        """Those whose commit has taken too long by now."""
        limit_ms = TRANSACTION_SECONDS_MAX * 1000 + REQUESTS_MS
        late = sorted(who for who, since in self.since_ms.items() if self.clock.now_ms - since > limit_ms)
        for who in late:
            del self.since_ms[who]
        return late

    def damage(self) -> frozenset[str]:
        """What no model has in its outcome: anything that the table's reader misses."""
        report = self.catalog().table("t").verify("content")
        return frozenset() if report.ok else frozenset({"damage"})

    def is_old(self, stored_ms: int) -> bool:
        return stored_ms <= self.clock.now_ms - COLLECT_GRACE_SECONDS * 1000


class SegmentRecorder(_Garbage):
    """Writers that store a segment each and commit it later, or never, and two collectors."""

    writers = ("x", "y", "z")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._old: set[str] = set()
        self._marked: set[str] = set()

    def everybody(self) -> None:
        """All at once; then a reader says whose rows it finds."""
        self.catalog().create_table("t", SCHEMA)
        actors = {name: self._writer(name) for name in self.writers}
        self.perform(actors | {name: self.collector(4, 30) for name in ("c", "d")})
        self._pass()
        whose = frozenset(who for name in self.objects if is_version(name) for who in self.referred(name))
        self.add("read", result=whose | self.damage())

    def _writer(self, name: str) -> Callable[[], None]:
        hours = self.draw.choice((0, 1, 11, 11, 13, 20, 26, 40, 60))

        def commit() -> None:
            time.sleep(self.draw.randrange(30) * HOUR)
            session = self.catalog().table("t")._session
            staging = plan_parts(session, SCHEMA)
            part = staging.stage(self.rows().to_batches())
            if self.draw.random() < 0.2:  # it dies
                del self.since_ms[name]
                self.add("crash", name)
                return
            time.sleep(hours * HOUR)
            try:
                commit_parts(session, staging, [part])
            except LimitExceeded:
                self._pass()
                assert name not in self.since_ms, "refused too early"

        return commit

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        self._pass()
        if kind == "put" and name.startswith(DATA):
            self.named[name] = actor
            self.since_ms[actor] = self.asked_ms
            self.add("put", actor)
        elif kind == "put" and name.startswith(FOLDER) and actor in self.writers:
            self.since_ms.pop(actor, None)
            self.add("commit", actor)
        elif kind == "put" and name.startswith(LISTS):
            for who in self.listed(name):
                if who not in self._marked:  # else another collector was faster
                    self._marked.add(who)
                    self.add("mark", who)
        elif kind == "delete" and (who := self.named.pop(name, "")):
            self._marked.discard(who)
            self.add("delete", who)

    def _pass(self) -> None:
        """What time alone does."""
        for who in self.over():
            self.add("crash", who)
        for name, who in sorted(self.named.items()):
            if who not in self._old and name in self.objects and self.is_old(self.objects[name][1]):
                self._old.add(who)
                self.add("age", who)


class ReuseRecorder(_Garbage):
    """Users who restore old rows by a head that they read long before, one who lets these go, a collector."""

    users = ("u", "v")
    segment = "a"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._pauses: dict[str, int] = {}
        self._is_let_go = False
        self._is_referred = True
        self._said = False
        self._since_ms = 0
        self._versions: dict[VersionId, list[str]] = {}

    def everybody(self) -> None:
        """Rows that only history refers to; then all at once; then whether the segment is there."""
        table = self.catalog().create_table("t", SCHEMA)
        table.append(self.rows())
        self.clock.now_ms += 72 * HOUR * 1000
        table.overwrite(self.rows())
        self.clock.now_ms += 1000
        actors = {name: self._user(name) for name in self.users}
        actors |= {"owner": self._owner, "c": self.collector(6, 20)}
        self.perform(actors)
        stored = frozenset(self.named[name] for name in self.objects if name in self.named)
        self.add("stored", result=stored | self.damage())

    def _user(self, name: str) -> Callable[[], None]:
        sleeps, hours = self.draw.randrange(25), self.draw.choice((0, 3, 6, 11, 11, 14))

        def restore() -> None:
            time.sleep(sleeps * HOUR)
            table = self.catalog().table("t")
            having = [each.id for each in table.history() if self._versions.get(each.id)]
            if not having:
                return
            self.since_ms[name] = self.clock.now_ms
            self._pauses[name] = hours * HOUR
            try:
                table.restore(having[-1])
            except (Expired, NotFound, LimitExceeded):
                self._give_up(name)

        return restore

    def _owner(self) -> None:
        for _ in range(2):
            time.sleep(self.draw.randrange(1, 30) * HOUR)
            table = self.catalog().table("t")
            table.overwrite(self.rows())
            table.expire(older_than=timedelta(0))
            table.collect()

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        for who in self.over():
            self.add("give up", who)
        if kind == "list" and name == FOLDER and actor in self.since_ms:
            self._listed(actor)
        elif kind == "put":
            self._put(actor, name)
        elif kind == "delete" and name in self.named:
            if self._is_let_go and self.is_old(self._since_ms):
                self.add("ripen", self.segment)
            self.add("delete", self.segment)

    def _listed(self, who: str) -> None:
        if self._pauses.get(who, -1) < 0:  # once more: what it had listed before was not all there
            self.add("give up", who)
        self.add("read", who, result=frozenset())
        pause, self._pauses[who] = self._pauses[who], -1
        if pause > 0:
            self._sleep(pause)

    def _put(self, actor: str, name: str) -> None:
        if name.startswith(DATA):
            if not self.named:
                self.named[name] = self.segment
        elif name.startswith(LISTS):
            self._list_put(name)
        elif name.startswith(FOLDER) and is_version(name):
            id = VersionId.parse(last(name).removesuffix(".v"))
            self._versions[id] = self.referred(name)
            if actor in self.users:
                self.since_ms.pop(actor, None)
                self.add("use", actor, result=frozenset(self._versions[id]))
                self._is_referred = True
        elif name.startswith(FOLDER) and base_number(name):
            self._based(name)

    def _list_put(self, name: str) -> None:
        if self.segment not in self.listed(name):
            return
        if is_let_go(name):
            self._said, self._since_ms = True, self.clock.now_ms
        elif not self._is_let_go:
            self._is_let_go, self._since_ms = True, self.clock.now_ms
            self.add("condemn", self.segment)

    def _based(self, name: str) -> None:
        """History below a horizon is forgotten: what does the table still refer to?"""
        log = decode_bundle(self.objects[name][0], FOLDER, name).log
        data = log.segment_name.tobytes()
        titles = [data[at : at + TITLE_BYTES] for at in range(0, len(data), TITLE_BYTES)]
        kept = any(segment_name(title[:16], title[16:]) in self.named for title in titles)
        later = any(held for id, held in self._versions.items() if id.hlc >= log.horizon)
        if self._is_referred and not kept and not later:
            self.add("let go" if self._said else "let go in silence", self.segment)
            self._is_referred, self._is_let_go, self._said = False, True, False

    def _give_up(self, who: str) -> None:
        if self.since_ms.pop(who, None) is not None:
            self.add("give up", who)
