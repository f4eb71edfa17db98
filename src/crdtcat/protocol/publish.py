"""The publisher: store a few files in order, the last of which makes the others visible.

This is how a writer commits (segment, then version) and how a bundler publishes (segment, then bundle). An
unclear answer is met by repeating the same PUT: same name, same bytes, so it cannot do harm. If a file
before the last stays unclear, nothing became visible and the outcome is `NOTHING`. If the last one does, the
outcome is `UNKNOWN`, and whoever published must not use its sequence number again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from crdtcat.protocol.requests import Answer, Put, Request, Stored

TRIES: Final = 3  # on top of the store's own retries


class Outcome(Enum):
    """How publishing ended."""

    PENDING = "pending"
    DONE = "done"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Publish:
    """Store `puts` one after the other.

    Attributes:
        puts: what remains to be stored, in order.
        tries: how often the first of them was unclear.
        outcome: how it ended, once nothing is wanted.
    """

    puts: tuple[Put, ...]
    tries: int = 0
    outcome: Outcome = Outcome.PENDING

    @property
    def wants(self) -> tuple[Request, ...]:
        """The next PUT."""
        return self.puts[:1] if self.outcome is Outcome.PENDING else ()

    def take(self, answers: Sequence[Answer]) -> Publish:
        """The next step."""
        (answer,) = answers
        assert isinstance(answer, Stored)
        if answer.clear:
            rest = self.puts[1:]
            return Publish(rest, outcome=Outcome.PENDING if rest else Outcome.DONE)
        if self.tries + 1 < TRIES:
            return replace(self, tries=self.tries + 1)
        return replace(self, outcome=Outcome.UNKNOWN if len(self.puts) == 1 else Outcome.NOTHING)
