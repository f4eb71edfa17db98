"""The scheduler's store: what can become of a request, as values.

Objects are a set of names; what a name stands for never changes, so the bytes are kept once. Pages hold one
or two names, deletions go one name at a time, and a PUT may be stored, lost, stored with a lost answer, or
stored later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from crdtcat.protocol import Delete, Deleted, Get, Got, Listed, ListPage, Object, Put, Request, Stored


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
                data = self.data[name] if name in objects else None
                yield Effect(f"gets {name}{'' if data else ', which is gone'}", Got(data))
            case Put(name, data):
                if self.data.setdefault(name, bytes(data)) != data:
                    raise AssertionError(f"two different objects of one name: {name}")
                yield from _puts(name, faults=faults)
            case Delete(names):
                left = names if before is None else before.left
                for name in left:
                    rest = tuple(other for other in left if other != name)
                    answer = Deleting(rest) if rest else Deleted()
                    yield Effect(f"deletes {name}", answer, removed=frozenset({name}))

    def _page(self, objects: frozenset[str], want: ListPage) -> Listed:
        key = (objects, want)
        if key not in self._pages:
            names = sorted(
                name
                for name in objects
                if name.startswith(want.prefix) and name > want.after and "/" not in name[len(want.prefix) :]
            )
            listed = tuple(Object(name, len(self.data[name])) for name in names[: self.page])
            self._pages[key] = Listed(listed, listed[-1].name if len(names) > self.page else None)
        return self._pages[key]


def _puts(name: str, *, faults: bool) -> Iterator[Effect]:
    this = frozenset({name})
    yield Effect(f"puts {name}", Stored(), added=this)
    if faults:
        unclear = Stored(clear=False)
        yield Effect(f"puts {name}, and the answer is lost", unclear, added=this, faults=1)
        yield Effect(f"fails to put {name}", unclear, faults=1)
        yield Effect(f"puts {name}, which will take a while", unclear, late=this, faults=1)
