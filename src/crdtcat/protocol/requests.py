"""What steps ask of a store, and what it answers. Plain frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.scattered import Scattered


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of names under `prefix`, after the name `after`, ascending; `described`: with sizes and times,
    which may be left at 0 otherwise."""

    prefix: str
    after: str = ""
    described: bool = False


@dataclass(frozen=True, slots=True)
class Get:
    """A whole object."""

    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Store an object. Repeating the same PUT is harmless: same name, same bytes."""

    name: str
    data: ObjectBytes | Scattered


@dataclass(frozen=True, slots=True)
class PutIfAbsent:
    """Store an object unless one of that name is there: of any number who try, one wins."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete objects; names that are gone already are no error."""

    names: tuple[str, ...]


class Object(NamedTuple):
    """A listed object: its name, its size, and when it was stored by the store's clock."""

    name: str
    size: int = 0
    modified_ms: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """One page. `after` is where the next begins, `None` at the end; `now_ms` is the store's clock."""

    objects: tuple[Object, ...]
    after: str | None
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Got:
    """An object's bytes, or `None` where there is no such object; `now_ms` is the store's clock."""

    data: ObjectBytes | None
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """Whether the store said so. `clear=False`: it may or may not be stored."""

    clear: bool = True


@dataclass(frozen=True, slots=True)
class Created:
    """Whether the object was created. False: one of that name is there, which may be this caller's own, from
    a try whose answer was lost. `clear=False`: it may or may not be stored."""

    created: bool
    clear: bool = True


@dataclass(frozen=True, slots=True)
class Deleted:
    """The names are gone."""


Request = ListPage | Get | Put | PutIfAbsent | Delete
Answer = Listed | Got | Stored | Created | Deleted


class Step(Protocol):
    """A sans-I/O step."""

    @property
    def wants(self) -> tuple[Request, ...]:
        """Requests to carry out, in any order; none when finished."""
        ...

    def take(self, answers: Sequence[Answer]) -> Self:
        """The next step, given the answers in the order of `wants`."""
        ...


class AgingStep(Step, Protocol):
    """A step to which it matters how long it takes."""

    def aged(self) -> Self:
        """What it has seen is old by now."""
        ...
