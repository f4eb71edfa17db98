"""The rules of the TLA+ model `Claims`, restated in Python: is a trace one of its behaviours?

As far as claimers are fresh. Independent of the library.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OVERLAPS = frozenset({frozenset({"c1", "c2"})})
CLAIMING = ("put", "created", "exists")


class ClaimEvent(NamedTuple):
    """One action of the model: whose, about which number; for a result, what has which number."""

    op: str
    who: str = ""
    number: int = 0
    result: frozenset[tuple[int, str]] = frozenset()


def check(trace: Iterable[ClaimEvent]) -> None:
    """Raise AssertionError at the first event that the model does not allow; the rules are in
    tla/Claims.tla."""
    model = _Model()
    for at, event in enumerate(trace):
        words = f"event {at}, {event}"
        getattr(model, f"on_{event.op}")(event, words)
        model.must_hold(words)


class _Model:
    """The model's state, and one method for each of its actions."""

    def __init__(self) -> None:
        self.claims: dict[int, str] = {}
        self.bundled: dict[int, str] = {}
        self.phase: dict[str, str] = {}
        self.base: dict[str, int] = {}
        self.attempt: dict[str, int] = {}
        self.lost: tuple[str, int] | None = None
        self.won: dict[int, str] = {}
        self.listed: dict[int, str] = {}
        self.must: set[str] = set()

    @property
    def history(self) -> dict[int, str]:
        return {**self.claims, **self.bundled}

    def must_hold(self, words: str) -> None:
        """The invariants."""
        now = self.history
        assert sorted(now) == list(range(1, len(now) + 1)), f"{words}: a gap"
        assert len(set(now.values())) == len(now), f"{words}: one commit, two numbers"
        for who, phase in self.phase.items():
            assert phase != "ok" or who in now.values(), f"{words}: {who} is lost"

    def on_start(self, event: ClaimEvent, words: str) -> None:
        assert event.who not in self.phase, words
        head = len(self.history)
        self.phase[event.who], self.base[event.who], self.attempt[event.who] = "put", head, head + 1

    def on_put(self, event: ClaimEvent, words: str) -> None:
        assert self.phase[event.who] == "put", words
        number = self.attempt[event.who]
        self.phase[event.who] = "exists" if number in self.claims else "created"
        self.claims.setdefault(number, event.who)

    def on_created(self, event: ClaimEvent, words: str) -> None:
        assert self.phase[event.who] == "created", f"{words}: it was not"
        self._won(event.who, words)

    def on_exists(self, event: ClaimEvent, words: str) -> None:
        there = self.claims.get(self.attempt[event.who])
        assert self.phase[event.who] == "exists", words
        assert there is not None, f"{words}: nothing there"
        if there == event.who:
            self._won(event.who, words)
        elif frozenset({event.who, there}) in OVERLAPS:
            self.phase[event.who] = "conflict"
        else:
            self.phase[event.who] = "put"
            self.attempt[event.who] += 1

    def _won(self, who: str, words: str) -> None:
        assert self.won.setdefault(self.attempt[who], who) == who, f"{words}: two winners"
        self.phase[who] = "ok"

    def on_unanswered(self, event: ClaimEvent, words: str) -> None:
        assert self.phase[event.who] == "put", words
        assert self.lost is None, words
        self.lost = (event.who, self.attempt[event.who])

    def on_late(self, event: ClaimEvent, words: str) -> None:
        assert self.lost == (event.who, event.number), words
        assert event.number not in self.claims, f"{words}: it is taken"
        self.lost = None
        self.claims[event.number] = event.who

    def on_bundle(self, event: ClaimEvent, words: str) -> None:
        held = self.history
        assert len(self.bundled) < event.number <= len(held), f"{words}: bundles what is not there"
        self.bundled = {number: held[number] for number in range(1, event.number + 1)}

    def on_collect(self, event: ClaimEvent, words: str) -> None:
        bases = [self.base[who] for who, phase in self.phase.items() if phase in CLAIMING]
        assert event.number in self.claims, words
        assert event.number in self.bundled, f"{words}: no bundle has it"
        assert event.number <= min(bases, default=event.number), f"{words}: the grace period is not over"
        del self.claims[event.number]

    def on_begin(self, _: ClaimEvent, __: str) -> None:
        self.listed = dict(self.claims)
        self.must = {who for who, phase in self.phase.items() if phase == "ok"}

    def on_listed(self, _: ClaimEvent, __: str) -> None:
        self.listed |= self.bundled

    def on_result(self, event: ClaimEvent, words: str) -> None:
        assert event.result == frozenset(self.listed.items()), f"{words}: the model reads {self.listed}"
        assert self.must <= set(self.listed.values()), f"{words}: what was acknowledged is missing"

    def on_ended(self, event: ClaimEvent, words: str) -> None:
        assert self.phase[event.who] == ("ok" if event.number else "conflict"), words
        assert not event.number or self.won[event.number] == event.who, words
