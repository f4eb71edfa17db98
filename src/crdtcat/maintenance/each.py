"""Who does the same to many things: a thread here, or tasks elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


class Each(Protocol):
    """Does one thing to each of many items, anywhere: `work` and items pickle, and results are in order."""

    def __call__(self, what: str, work: Callable[[Item], Found], items: Sequence[Item]) -> Iterable[Found]:
        """The results. `what` says what is being done."""
