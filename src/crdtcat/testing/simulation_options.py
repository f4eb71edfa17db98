"""What a simulation can be told: how often requests fail, and what users' own code does in it.

Everything here is part of what a seed means, so everything has a `repr` that can be written back into
`replay`, and a workload is given as a class: every run makes one of its own, and nothing is left over from
the run before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from crdtcat.errors import InvalidArgument
from crdtcat.testing.simulated_store import Trouble

if TYPE_CHECKING:
    from crdtcat.catalog import Catalog

_PLACES = "error", "lost_answer", "transient", "transient_lost_answer", "crash", "crash_after"


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong: weights of requests, against 1 for those with which nothing does.

    Attributes:
        error: nothing happened, and the caller is told so.
        lost_answer: it took effect, and the caller is told that it did not.
        transient: as `error`, but of the kind that is repeated without asking.
        transient_lost_answer: as `lost_answer`, of that kind.
        crash: the process dies before the request.
        crash_after: the process dies after it, before it knows.
        lasting: the share of errors and lost answers after which the same request fails again and again.
        interrupted: the share of requests during which another process acts.
        slow_ms: no request takes longer than this, but for what happens meanwhile.
        skews_hours: by how much the clocks of processes may be wrong.
        page_limit: how many names a page of a listing has.

    Raises:
        InvalidArgument: what is no rate, or no time.
    """

    error: float = 0.015
    lost_answer: float = 0.01
    transient: float = 0.02
    transient_lost_answer: float = 0.01
    crash: float = 0.008
    crash_after: float = 0.008
    lasting: float = 0.5
    interrupted: float = 0.15
    slow_ms: int = 50
    skews_hours: tuple[int, ...] = (0, 0, -3, 5)
    page_limit: int = 3

    def __post_init__(self) -> None:
        for name in (*_PLACES, "lasting", "interrupted"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidArgument(f"{name}={getattr(self, name)!r} is not between 0 and 1")
        if self.slow_ms < 1 or self.page_limit < 1 or not self.skews_hours:
            raise InvalidArgument(f"{self!r}: needs times and pages of at least 1, and one clock")

    def __repr__(self) -> str:
        """What is not as it is by default."""
        held = [(each.name, getattr(self, each.name), each.default) for each in fields(self)]
        return f"Faults({', '.join(f'{name}={value!r}' for name, value, usual in held if value != usual)})"

    def weights(self) -> dict[Trouble | None, float]:
        """What may become of a request, and how often."""
        troubles: tuple[Trouble, ...] = (
            "error", "lost answer", "transient", "transient lost answer", "crash", "crash after"
        )  # fmt: skip
        return {None: 1.0, **dict(zip(troubles, (getattr(self, name) for name in _PLACES), strict=True))}


class Workload:
    """What users' own code does in a simulation. Subclass it; `simulate(seed, workload=Mine)`.

    A step is a method `step(catalog, chance)`: it is called in one of the processes, with that process's
    catalog, and draws whatever it draws from `chance`. It may return a line for the trace. While it waits for
    the store, steps of other processes run. `StoreUnavailable` may leave it: nothing was done. So may
    `CommitUnknown`, and `Crash`, which is no `Exception`: write down what you are about to do before you do
    it, and that it is done after. Whatever else it raises fails the simulation.

    Attributes:
        steps: the methods that are steps, and how often each is taken, beside the weights of `VERBS`.
    """

    steps: ClassVar[Mapping[str, float]] = {}

    def prepare(self, catalog: Catalog) -> None:
        """Before anything goes wrong: create tables."""

    def check(self, catalog: Catalog) -> None:
        """At the end, when nothing goes wrong any more, with a catalog that has just been opened."""


def drawn(chance: random.Random, weights: Mapping[str, float]) -> str:
    """One of several, by their weights."""
    return chance.choices(list(weights), list(weights.values()))[0]
