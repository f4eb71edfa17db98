"""Observed-remove set with causal context: a removal takes away what it saw, and nothing else.

Theory. Every addition makes a new *dot* (in a table: a tag), an identity used once. A dot's life is a chain:

    unseen  <  live with an element  <  removed

and a set is a map from dots to places on that chain. Merge takes the greater place of every dot, so it is
a pointwise maximum of chains: associative, commutative, idempotent. From this follows the behaviour users
expect: adding again after a removal works (a new dot), an addition concurrent with a removal survives (its
dot was not observed), and removing is final (nothing is above `removed`). A removal may arrive before the
addition it names; the addition then never becomes live.

The causal context, every dot ever seen, is what tells "not there because removed" from "not there because
unseen". Dropping it, or skipping the merge when the other side looks older, brings removed elements back
(riak_dt pull request 78: a fast path compared clocks only). Here there is no fast path that looks at less
than every dot of both sides.

Two live elements under one dot cannot happen while dots are unique; if it does, the greater canonical bytes
win, so that merge stays total. No I/O.

A table's rows follow the same rule in columns, where a million of them merge at once (`crdtcat.log.join`,
`crdtcat.head.fold`), and do not use this type: it is for users, and mirrors the definition in the proofs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar

from crdtcat.errors import InvalidArgument
from crdtcat.lattice.base import CanonicalLattice
from crdtcat.lattice.canonical import canonical_bytes, key_bytes

DotT = TypeVar("DotT", bound=Hashable)
ElementT = TypeVar("ElementT", bound=Hashable)


class ORSet(CanonicalLattice, Generic[DotT, ElementT]):
    """An immutable set of elements, each alive under one or more dots.

    Args:
        live: the element each live dot stands for; a dot is an int, str, bytes or a tuple of those.
        removed: the dots that were removed; they win over `live`.

    Raises:
        InvalidArgument: a dot that cannot be a key, or an element without canonical bytes.
    """

    __slots__ = ("_live", "_removed")

    def __init__(self, live: Mapping[DotT, ElementT] | None = None, removed: Iterable[DotT] = ()) -> None:
        self._removed = frozenset(removed)
        self._live = {dot: element for dot, element in (live or {}).items() if dot not in self._removed}
        for dot in (*self._live, *self._removed):
            key_bytes(dot)
        for element in self._live.values():
            canonical_bytes(element)

    def __repr__(self) -> str:
        return f"ORSet({self._live!r}, removed={set(self._removed)!r})"

    def __contains__(self, element: object) -> bool:
        return element in self._live.values()

    @property
    def live(self) -> Mapping[DotT, ElementT]:
        """The live dots and their elements, as a read-only view."""
        return MappingProxyType(self._live)

    @property
    def removed(self) -> frozenset[DotT]:
        """Every dot known to be removed."""
        return self._removed

    @property
    def context(self) -> frozenset[DotT]:
        """The causal context: every dot ever seen, live or removed."""
        return self._removed | self._live.keys()

    @property
    def elements(self) -> frozenset[ElementT]:
        """The elements that have at least one live dot."""
        return frozenset(self._live.values())

    def dots(self, element: ElementT) -> frozenset[DotT]:
        """The live dots of `element`: what a removal of it observes. O(live dots)."""
        return frozenset(dot for dot, held in self._live.items() if held == element)

    def add(self, dot: DotT, element: ElementT) -> ORSet[DotT, ElementT]:
        """This set with `element` under a dot never used before.

        Raises:
            InvalidArgument: `dot` is in the causal context; a dot is used once.
        """
        if dot in self._live or dot in self._removed:
            raise InvalidArgument(f"dot {dot!r} was used before; every addition needs a new one")
        return ORSet({**self._live, dot: element}, self._removed)

    def remove(self, observed: Iterable[DotT]) -> ORSet[DotT, ElementT]:
        """This set without the `observed` dots, for ever. Dots not seen yet are removed in advance."""
        return ORSet(self._live, self._removed.union(observed))

    def merge(self, other: Self) -> Self:
        """The greater place of every dot. O(dots of both).

        Theorems: `orset_merge_semilattice`, `orset_no_resurrection`.
        """
        live: dict[Any, Any] = dict(self._live)
        for dot, element in other._live.items():
            if dot not in live or canonical_bytes(live[dot]) < canonical_bytes(element):
                live[dot] = element
        return type(self)(live, self._removed | other._removed)

    def to_bytes(self) -> bytes:
        """`[map of live dots, sorted removed dots]`."""
        return canonical_bytes((self._live, sorted(self._removed, key=key_bytes)))
