"""What somebody asked of the present, and what it stored: for doing it again without doing the work.

What a process does follows from what it had read before, from the time, and from the answers to its requests.
So where these are the same it does the same, whatever else there is: the same objects are stored and deleted.
Of the log's folder it counts, if so wished, which log is in it, and not in which files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from blake3 import blake3

from crdtcat.store.values import Data, Names, Page
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock

Step = tuple[Any, ...]
"""A question and its answer, or what was done: see `Questions` and `RecordedStore`."""


class Questions:
    """What can be asked of objects, and the answers as far as a process can tell.

    Args:
        folder: the log's folder.
        log_of: what of the log that is in it counts; `None`: its files do.
    """

    def __init__(self, folder: str, log_of: Callable[[Objects], object] | None) -> None:
        self._folder, self._log_of = folder, log_of

    def answer(self, objects: Objects, kind: str, name: str) -> Any:
        """The answer to a question; to a listing without its pages."""
        if self._log_of is not None and name.startswith(self._folder) and kind in {"get", "list"}:
            return self._log_of(objects)
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

    def replayed(self, steps: Sequence[Step], objects: Objects, now_ms: int = 0) -> Objects | None:
        """What is there once the same was done to other objects; `None`: it would be told something else."""
        then = dict(objects)
        for kind, name, value in ((*step, None)[:3] for step in steps):
            if kind == "put":
                then[name] = value, now_ms
            elif kind == "delete":
                for each in name:
                    then.pop(each, None)
            elif self.answer(then, kind, name) != value:
                return None
        return then


class RecordedStore(PausedStore):
    """A paused store that keeps what it does from its first write on, and what it is told."""

    def __init__(
        self, objects: Objects, clock: VirtualClock, past: Objects | None, questions: Questions
    ) -> None:
        super().__init__(objects, clock, past)
        self.steps: list[Step] = []
        self._questions = questions

    def _recall(self, kind: str, name: str) -> None:
        if self.objects is self._present:
            self.steps.append((kind, name, self._questions.answer(self.objects, kind, name)))

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
        self.steps.append(("put", name, self.objects[name][0]))

    def _put_if_absent(self, name: str, data: Data) -> None:
        self.objects = self._present
        self._recall("there", name)
        super()._put_if_absent(name, data)
        self.steps.append(("put", name, self.objects[name][0]))

    def _delete(self, names: Names) -> None:
        super()._delete(names)
        self.steps.append(("delete", tuple(names)))
