"""Traces of switching: writers and those who switch a table's mode, all of them the real library.

Writers update a row each, from a head; others switch the table to CAS mode and back. What they do is written
down as the actions of the model `Switching`, and TLC says whether it is one of its behaviours: listings that
show an announcement or none, files that are void or not, numbers that are taken from a switch, and what each
writer is told in the end. Then a reader says which updates count.

Time is the model's `Age`: a writer's listing is of lately for half of `max_commit_delay_seconds`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.errors import CommitContended
from crdtcat.format.carried import own_frame
from crdtcat.format.version import TO_CAS, TO_MERGE, decode_version
from crdtcat.protocol import claim_number, is_claim, is_version
from crdtcat.protocol.names import last
from crdtcat.store.requests import Kind
from crdtcat.verbs.switch import switch_mode
from proofs.acts import Act, ActRecorder

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
WRITERS = ("v", "w")
FOLDER = "tables/t/main/"
DELAY_MS = 400.5  # half of it is no whole number: the library counts in seconds, which are not exact
ANNOUNCED = re.compile(r"switching-([0-9]{16})")


class SwitchRecorder(ActRecorder):
    """Two writers and one or two who switch, in an order drawn from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._at = dict.fromkeys(WRITERS, "begins")
        self._listed_ms: dict[str, int] = {}
        self._lists: dict[str, int] = {}
        self._looks: dict[str, int] = {}
        self._switching: dict[str, str] = {}
        self._number: dict[str, int] = {}

    def everybody(self) -> None:
        """A table with a row for each writer; then all at once; then a reader says which updates count."""
        options: dict[str, Any] = {
            "upkeep": False,
            "max_commit_delay_seconds": DELAY_MS / 1000,
            "base_delay": 0.001,
        }
        first = Catalog(self.store(), **options).create_table("t", SCHEMA)
        first.append([{"n": row, "x": 0} for row in range(len(WRITERS))])
        switchers = ("s", "t") if self.draw.random() < 0.4 else ("s",)
        back = self.draw.random() < 0.6
        if self.draw.random() < 0.2:
            self.mortal.add("s")
        actors = {name: self._writer(row, options) for row, name in enumerate(WRITERS)}
        actors |= {name: self._switcher(options, back=back) for name in switchers}
        self.perform(actors)
        rows = Catalog(self.store(), **options).table("t").read().to_pylist()
        counted = frozenset(WRITERS[row["n"]] for row in rows if row["x"])
        self.add("counts", result=counted)

    def _writer(self, row: int, options: dict[str, Any]) -> Callable[[], None]:
        name = WRITERS[row]

        def update() -> None:
            table = Catalog(self.store(), **options).table("t")
            try:
                table.update(f"n = {row}", {"x": 1})
            except CommitContended:
                self._looked_again(name)
                self.add("contended", name)
            else:
                self.add("ok", name)

        return update

    def _switcher(self, options: dict[str, Any], *, back: bool) -> Callable[[], None]:
        def switch() -> None:
            session = Catalog(self.store(), **options).table("t")._session
            switch_mode(session, "cas")
            if back:
                switch_mode(session, "merge")

        return switch

    def happened(self, actor: str, kind: Kind, name: str) -> None:
        """One request, as the model's actions."""
        if not actor or not (name == FOLDER or name.startswith(FOLDER)):
            return
        self._age()
        if actor in WRITERS:
            self._written(actor, kind, name)
        else:
            self._switched(actor, kind, name)

    def woke(self, actor: str) -> None:
        """Whoever announced a switch has waited."""
        self._age()
        if self._switching.get(actor) == "announced":
            self._switching[actor] = "waited"
            self.add("wait", actor)

    def _written(self, who: str, kind: Kind, name: str) -> None:
        at = self._at[who]
        if kind == "list":
            if at == "begins":
                self._listed_ms[who] = self.asked_ms
                self._at[who] = "again" if self._mode() == TO_CAS else "listed"
                self.add("list", who)
            elif at == "stored" and not self._open():
                self._at[who] = "again"  # or it is done, and makes no request any more
                self._looks[who] = len(self.events)
                self.add("look", who)
            elif at == "again":
                self._hold(who)
        elif kind == "put" and is_version(name):
            if at == "listed":
                self.add("store", who)
            else:  # by its last listing CAS mode was over
                self.events[self._lists[who]] = Act("again", who)
                self.add("store again", who)
            self._at[who] = "stored"
        elif kind == "put" and is_claim(name):
            taken = self._operation(name) == TO_MERGE
            self.add("take" if taken else "again", who)

    def _switched(self, who: str, kind: Kind, name: str) -> None:
        at = self._switching.get(who, "idle")
        if kind == "put" and ANNOUNCED.fullmatch(last(name)):
            self._switching[who] = "announced"
            self._number[who] = int(last(name).removeprefix("switching-"))
            self.events[self._lists[who]] = Act("decide", who)
            self.add("announce", who)
        elif kind == "list" and at == "waited":
            self._switching[who] = "listed" if self._numbers() < self._number[who] else "idle"
            self.add("list all", who)
        elif kind == "list" and at == "idle":
            self._hold(who)
        elif kind == "get" and at == "listed" and is_claim(name) and claim_number(name) >= self._number[who]:
            self._lost(who)  # it looked before it tried, and found the number taken
        elif kind == "put" and is_claim(name):
            self.add("switch" if self._operation(name) == TO_CAS else "back", who)
            self._switching[who] = "idle"

    def refused(self, actor: str, name: str) -> None:
        """Somebody else has the number that was announced."""
        if self._switching.get(actor) == "listed" and self._is_claim(name):
            self._lost(actor)

    def _lost(self, who: str) -> None:
        self._switching[who] = "idle"
        self.add("switch", who)

    def _age(self) -> None:
        for who, listed_ms in list(self._listed_ms.items()):
            if self._at[who] == "listed" and self.clock.now_ms - listed_ms > DELAY_MS / 2:
                del self._listed_ms[who]
                self.add("age", who)

    def _numbers(self) -> int:
        return max(map(claim_number, filter(self._is_claim, self.objects)), default=0)

    def _is_claim(self, name: str) -> bool:
        return name.startswith(FOLDER) and is_claim(name)

    def _open(self) -> bool:
        numbers = [int(match[1]) for match in map(ANNOUNCED.fullmatch, map(last, self.objects)) if match]
        return any(number > self._numbers() for number in numbers)

    def _operation(self, name: str) -> int:
        _, body = decode_version(own_frame(self.objects[name][0], name), name)
        return int(body["o"])

    def _mode(self) -> int:
        switches = [
            operation
            for name in sorted(filter(self._is_claim, self.objects))
            if (operation := self._operation(name)) in (TO_CAS, TO_MERGE)
        ]
        return switches[-1] if switches else TO_MERGE

    def _looked_again(self, who: str) -> None:
        """What it found was not all there: it looked by the last listing, and not by the one before."""
        if self._lists.get(who, -1) > self._looks[who]:
            self.events[self._looks[who]] = Act("")
            self.events[self._lists[who]] = Act("look", who)

    def _hold(self, who: str) -> None:
        """Keep the place of a listing: what follows from it is seen later."""
        self._lists[who] = len(self.events)
        self.add("", who)
