"""What somebody asked of the present, and what it stored: for doing it again without doing the work.

What a process does follows from what it had read before, from the time, and from the answers to its requests.
So where these are the same it does the same, whatever else there is: the same objects are stored and deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blake3 import blake3

from crdtcat.store.values import Data, Names, Page
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock

Step = tuple[Any, ...]
"""A question and its answer, or what was done: see `_asked` and `replayed`."""


class RecordedStore(PausedStore):
    """A paused store that keeps what it does from its first write on, and what it is told."""

    def __init__(self, objects: Objects, clock: VirtualClock, past: Objects | None = None) -> None:
        super().__init__(objects, clock, past)
        self.steps: list[Step] = []

    def _recall(self, *question: Any) -> None:
        if self.objects is self._present:
            self.steps.append((*question, _asked(self.objects, question)))

    def _get(self, name: str, start: int, stop: int | None) -> bytes:
        self._recall("get", name)
        return super()._get(name, start, stop)

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        self._recall("list", prefix)
        return super()._list_page(prefix, after, limit)

    def _folders(self, prefix: str) -> Names:
        self._recall("folders", prefix)
        return super()._folders(prefix)

    def _put(self, name: str, data: Data) -> None:
        super()._put(name, data)
        self.steps.append(("put", name, self.objects[name]))

    def _put_if_absent(self, name: str, data: Data) -> None:
        self.objects = self._present
        self._recall("there", name)
        super()._put_if_absent(name, data)
        self.steps.append(("put", name, self.objects[name]))

    def _delete(self, names: Names) -> None:
        super()._delete(names)
        self.steps.append(("delete", tuple(names)))


def _asked(objects: Objects, question: Sequence[Any]) -> Any:
    """The answer to a question, as far as a process can tell; a listing without its pages."""
    kind, name = question
    if kind == "get":
        return blake3(objects[name][0]).digest() if name in objects else None
    if kind == "there":
        return name in objects
    below = ((each[len(name) :], each) for each in objects if each.startswith(name))
    if kind == "folders":
        return frozenset(rest.split("/")[0] for rest, _ in below if "/" in rest)
    return frozenset(
        (rest, len(objects[each][0]), objects[each][1]) for rest, each in below if "/" not in rest
    )


def replayed(steps: Sequence[Step], objects: Objects) -> Objects | None:
    """What is there once the same was done to other objects; `None`: it would be told something else."""
    then = dict(objects)
    for kind, name, value in ((*step, None)[:3] for step in steps):
        if kind == "put":
            then[name] = value
        elif kind == "delete":
            for each in name:
                then.pop(each, None)
        elif _asked(then, (kind, name)) != value:
            return None
    return then
