"""What traces of the library are made of: one act of a model each, and recorders that write them down."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from proofs.turns import Turns


class Act(NamedTuple):
    """One action of a model.

    Attributes:
        op: which; empty: nothing, a place that was kept for one.
        who: whose, or about what.
        number: a time, where it has one.
        result: for an outcome, what is in it.
    """

    op: str
    who: str = ""
    number: int = 0
    result: frozenset[str] = frozenset()


class ActRecorder(Turns):
    """Actors whose requests are written down as acts of a model.

    Args:
        seed: decides who takes part, and the schedule.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[Act] = []

    def run(self) -> list[Act]:
        """The trace, until everybody is finished."""
        with self.simulated():
            self.everybody()
        return [act for act in self.events if act.op]

    @abstractmethod
    def everybody(self) -> None:
        """Set the scene, have actors perform, and write down what there is in the end."""

    def add(self, op: str, who: str = "", number: int = 0, result: frozenset[str] = frozenset()) -> None:
        """One act more."""
        self.events.append(Act(op, who, number, result))
