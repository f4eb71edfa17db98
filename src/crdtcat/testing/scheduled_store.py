"""The scheduler's store: what can become of a request, as values.

Objects are a set of names; what a name stands for never changes, so the bytes are kept once. The exception is
what is created exclusively: who wins decides what the name stands for, so such an object is in the set as its
name, a zero and a digest of its bytes. Pages hold one or two names, deletions go one name at a time, and a
PUT may be stored, lost, stored with a lost answer, or stored later; what is to be created later is stored if
its name is free then. A deletion that is answered may arrive once more later on, whatever has the name then:
a first try that seemed lost. (One that is lost, or late without an answer, is an actor that stops.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from blake3 import blake3

from crdtcat.protocol import (
    Created,
    Delete,
    Deleted,
    Get,
    Got,
    Listed,
    ListPage,
    Object,
    Put,
    PutIfAbsent,
    Request,
    Stored,
)

DELETION = "deletion of "
"""Begins what is under way and deletes a name; all else that is under way stores one."""


class Deleting(NamedTuple):
    """A deletion of several names, under way."""

    left: tuple[str, ...]


class Effect(NamedTuple):
    """One way a request can go: in words, its answer, and what it does."""

    words: str
    answer: Any
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()
    faults: int = 0


class ScheduledStore:
    """What requests do to sets of objects.

    Args:
        data: the bytes of every object there is or was.
        page: names in a page of a listing.
    """

    def __init__(self, data: dict[str, bytes], page: int) -> None:
        self.data, self.page = data, page
        self._pages: dict[tuple[frozenset[str], ListPage], Listed] = {}

    def effects(
        self, objects: frozenset[str], want: Request, before: Deleting | None, *, faults: bool
    ) -> Iterator[Effect]:
        """Every way a request can go. `before`: what is left of a deletion under way."""
        match want:
            case ListPage():
                page = self._page(objects, want)
                names = ", ".join(item.name for item in page.objects) or "nothing"
                yield Effect(f"lists {names}", page)
            case Get(name):
                held = _held(objects, name)
                data = None if held is None else self.data[held]
                yield Effect(f"gets {name}{'' if data else ', which is gone'}", Got(data))
            case Put(name, data):
                if self.data.setdefault(name, bytes(data)) != data:
                    raise AssertionError(f"two different objects of one name: {name}")
                yield from _puts(name, faults=faults)
            case PutIfAbsent(name, data):
                key = f"{name}\0{blake3(data).hexdigest(length=8)}"
                self.data.setdefault(key, data)
                yield from _creations(key, _held(objects, name), faults=faults)
            case Delete(names):
                left = names if before is None else before.left
                for name in left:
                    rest = tuple(other for other in left if other != name)
                    answer = Deleting(rest) if rest else Deleted()
                    gone = frozenset({_held(objects, name) or name})
                    yield Effect(f"deletes {name}", answer, removed=gone)
                    if faults:
                        again = frozenset({DELETION + name})
                        words = f"deletes {name}, and once more in a while"
                        yield Effect(words, answer, removed=gone, late=again, faults=1)

    def landed(self, objects: frozenset[str], key: str) -> frozenset[str]:
        """The objects once a request that was on its way has arrived."""
        if key.startswith(DELETION):
            return objects - {_held(objects, key.removeprefix(DELETION))}
        name, *exclusive = key.split("\0")
        return objects if exclusive and _held(objects, name) is not None else objects | {key}

    def _page(self, objects: frozenset[str], want: ListPage) -> Listed:
        key = (objects, want)
        if key not in self._pages:
            keys = sorted(
                key
                for key in objects
                if key.startswith(want.prefix)
                and key.split("\0")[0] > want.after
                and "/" not in key[len(want.prefix) :]
            )
            listed = tuple(Object(name.split("\0")[0], len(self.data[name])) for name in keys[: self.page])
            self._pages[key] = Listed(listed, listed[-1].name if len(keys) > self.page else None)
        return self._pages[key]


def _held(objects: frozenset[str], name: str) -> str | None:
    """The object of that name."""
    if name in objects:
        return name
    return next((key for key in objects if key.startswith(f"{name}\0")), None)


def _creations(key: str, there: str | None, *, faults: bool) -> Iterator[Effect]:
    this, name = frozenset({key}), key.split("\0", maxsplit=1)[0]
    if there is not None:
        yield Effect(f"finds {name} taken", Created(created=False))
        return
    yield Effect(f"creates {name}", Created(created=True), added=this)
    if faults:
        unclear = Created(created=False, clear=False)
        yield Effect(f"creates {name}, and the answer is lost", unclear, added=this, faults=1)
        yield Effect(f"fails to create {name}", unclear, faults=1)
        yield Effect(f"creates {name}, which will take a while", unclear, late=this, faults=1)


def _puts(name: str, *, faults: bool) -> Iterator[Effect]:
    this = frozenset({name})
    yield Effect(f"puts {name}", Stored(), added=this)
    if faults:
        unclear = Stored(clear=False)
        yield Effect(f"puts {name}, and the answer is lost", unclear, added=this, faults=1)
        yield Effect(f"fails to put {name}", unclear, faults=1)
        yield Effect(f"puts {name}, which will take a while", unclear, late=this, faults=1)
