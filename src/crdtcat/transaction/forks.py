"""What a fork of a transaction takes along and brings back, and when it may not come back.

What a fork stages names, by their ids, versions that it saw staged when it was made. Joined to a transaction
that does not have them, it would be committed without what it rests on, and the table could not be read.
And in CAS mode a change is judged by what was committed since its table was pinned: forks that pinned one
table at two moments would be judged by the later one, and an update be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crdtcat.cas.reading import Read
from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.head import Snapshot
from crdtcat.writing.restamp import StagedVersion

Name = tuple[str, str]
"""A table and a branch."""


class Kept(NamedTuple):
    """What a copy of a transaction takes along of one table.

    Attributes:
        snapshot: what is pinned.
        staged: what is staged over it.
        inherited: how much of that was there when the copy was made.
        reads: what was read, each with what was staged by then.
        joined: of what forks brought, by the id that it had there, the id that it has here.
    """

    snapshot: Snapshot
    staged: list[StagedVersion]
    inherited: int
    reads: list[tuple[Read, tuple[StagedVersion, ...]]]
    joined: Mapping[VersionId, VersionId]

    def forked(self) -> Kept:
        """What a fork of it begins with."""
        return Kept(self.snapshot, list(self.staged), len(self.staged), [], {})

    def untouched(self) -> Kept:
        """The same moment of the table, with nothing staged."""
        return Kept(self.snapshot, [], 0, [], {})


def require_as_it_was(
    begun: Mapping[Name, list[StagedVersion]], now: Mapping[Name, list[StagedVersion]]
) -> None:
    """For whoever writes back what a transaction had when it began.

    Raises `InvalidArgument` if more is staged by now: by a function that was asked about a conflict.
    """
    if any(staged != begun.get(name, []) for name, staged in now.items()):
        raise InvalidArgument(
            "a function that answered a conflict staged or joined something itself, in this very "
            "transaction: nothing was joined, what it did stands; join again"
        )


def require_joinable(here: Mapping[Name, Kept], fork: Mapping[Name, Kept], *, strict: bool) -> None:
    """What a transaction has, and what a fork of it brings. O(staged).

    Raises `InvalidArgument` where the fork saw something that is not staged here any more, or where what it
    has staged is here already; with `strict` (CAS mode), too, where it uses a table of another moment.
    """
    for name, kept in fork.items():
        known = [item.id for item in here[name].staged] if name in here else []
        theirs = [item.id for item in kept.staged]
        if known[: kept.inherited] != theirs[: kept.inherited]:
            raise InvalidArgument(
                f"this fork rests on changes of {name[0]!r} that a savepoint has forgotten: fork again"
            )
        taken = here[name].joined if name in here else {}
        twice = set(known) | {first for first, last in taken.items() if last in set(known)}
        if not twice.isdisjoint([*theirs[kept.inherited :], *kept.joined]):
            raise InvalidArgument(
                f"this fork's changes of {name[0]!r} were joined before, from another copy of it"
            )
    if strict:
        _require_one_moment(here, fork)


def _require_one_moment(here: Mapping[Name, Kept], fork: Mapping[Name, Kept]) -> None:
    """A table is judged by what was committed since it was pinned: for all who use it that is one moment.

    A table that is new here was pinned at the moment of all others that the fork had: those must be all.
    """
    news = fork.keys() - here.keys()
    other = {name for name in here.keys() & fork.keys() if here[name].snapshot != fork[name].snapshot}
    other |= here.keys() - fork.keys() if news else set()
    if other:
        tables = ", ".join(sorted(repr(name[0]) for name in other | news))
        raise InvalidArgument(
            f"this fork and its transaction first used tables at different moments: {tables}. Name them when "
            "the transaction begins, transaction([...]), so that all forks see one snapshot"
        )
