"""The reader: list, fetch what is new, join; again if anything slipped away in between.

Why this is enough. The reader lists `transactions/`, then the table's folder, each ascending. A file that
was deleted before its page was read is covered by a bundle of higher rank, which sorts later and had been
durable before the deletion, so it is on a page still to be read (or was deleted in favour of yet another,
later one). Bundles before versions, the table before transactions, or descending ranks each lose data;
`tests/counterexamples` keeps the histories.

A table that never took part in a transaction need not list `transactions/`. Whoever commits one stores a
mark in every folder it touches, and waits for the answer, before the transaction itself. So a listing of the
folder without the mark was begun before any transaction on the table was acknowledged, and is complete. One
with the mark is thrown away: `transactions/` is listed, and the folder again, because a transaction may have
moved from its file into a bundle in between. (Model: `Marks` in proofs/tla.)

Three things send it back to listing, each bounded by `passes`:

- a listed file that is gone when fetched (collected in the meantime): list again, never skip;
- a version that names another, by its writer's count or in its clock, which the state does not have: its
  page was read before it was stored. Seen again in a listing that began after, it is damage: `Corrupt`;
- on a store that lists in no order, a pass longer than half the grace period;
- claims fetched later than that: their numbers may have been collected since they were listed, and their
  names may hold something else, that nobody may read.

Claims of a transaction count once it was committed, so its decision is fetched, too; one that is not decided
is left out, and asked for again next time. Transactions in merge mode are settled by time
(`crdtcat.protocol.closer`): the file that says which of them count is fetched after bundles, before them.

Bundles are fetched from the highest rank down, because a bundle names those it replaces: what is replaced is
never fetched. An eager reader takes a few small ones of lower ranks together with the highest: each rank is a
round trip, which over a network costs more than bytes that turn out to be replaced.

It ends, whatever is in the store: in one pass no file is fetched twice. One that was joined, and that the
state still lacks, cannot be taken in: the log is not what the protocol makes. `Corrupt`, naming the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from crdtcat.errors import Corrupt, StoreUnavailable
from crdtcat.protocol.names import (
    TRANSACTIONS,
    bundle_rank,
    is_claim,
    is_decision,
    mark_name,
    sorted_out,
)
from crdtcat.protocol.requests import Answer, Get, Got, Listed, ListPage, Object, Request
from crdtcat.support.object_bytes import ObjectBytes

PASSES_MAX: Final = 16  # a collector would have to outrun every one of them
FIRST: Final = "?"  # the folder that a pass begins with, whichever that is
EAGER_FILES_MAX: Final = 3  # bundles of lower ranks that an eager reader fetches beside the highest, at most
EAGER_BYTES_MAX: Final = 2**20  # of them together: what a round trip is worth
FETCH_FILES: Final = 512  # version files asked for at once: bounds memory, keeps connections busy


class Readable(Protocol):
    """The state as the reader sees it. Immutable."""

    def missing(self, versions: Sequence[str]) -> Sequence[str]:
        """Those of the version files that the state does not hold."""
        ...

    def unread(self, bundles: Sequence[str]) -> Sequence[str]:
        """Those of the bundles that were neither joined nor replaced by one that was."""
        ...

    def unsettled(self, names: Sequence[str]) -> Sequence[str]:
        """The file among these that settles which transactions count, if it is a later one."""
        ...

    def joined(self, files: Sequence[tuple[str, ObjectBytes]]) -> Self:
        """The state with these files in it."""
        ...

    def undecided(self) -> Sequence[str]:
        """Names of decisions that it would have to know to take in what it was given."""
        ...

    def gaps(self) -> frozenset[tuple[int, int]]:
        """(writer, seq) of versions that must exist, by what is there, and are not in the state."""
        ...


S = TypeVar("S", bound=Readable)


class Names(NamedTuple):
    """The names of a listing by what they are of: every step asks for them again, and they may be many.

    Attributes:
        listing: which.
        all: every name.
        bundles: those of bundles.
        commits: those of files that hold one commit.
        settling: those in `transactions/`.
    """

    listing: tuple[Object, ...] = ()
    all: Sequence[str] = ()
    bundles: Sequence[str] = ()
    commits: Sequence[str] = ()
    settling: Sequence[str] = ()

    @classmethod
    def of(cls, listing: tuple[Object, ...]) -> Names:
        """Sort out a listing."""
        names = [item.name for item in listing]
        settling = [name for name in names if name.startswith(TRANSACTIONS)]
        return cls(listing, names, *sorted_out(names), settling)


@dataclass(frozen=True, slots=True)
class Reader(Generic[S]):
    """Bring `state` up to date with one log folder. Theorem: `listing_complete`.

    Attributes:
        folder: the log's folder, ending in a slash.
        state: what is known so far; the result once `wants` is empty.
        ordered: whether the store lists in order.
        grace_ms: the collectors' grace period, for stores that do not.
        marked: whether the folder is known to have a mark; once it has one, it has it for ever.
        described: whether the listing is to tell sizes and times.
        eager: whether to fetch all bundles together, where they are few and small; for a `described` listing.
        listing: objects seen in the current pass.
        prefix: the folder being listed now; empty when listing is over.
        began_ms: the store's clock at the pass's first page.
        now_ms: the store's clock at the latest page.
        gaps: what was missing at the end of the previous pass.
        passes: passes begun.
        fetching: names asked for now.
        asked: names that were asked for in this pass; no answer to one is waited for twice.
        pending: version files to be asked for after those.
        listed: the names of the listing, once they were looked at.
    """

    folder: str
    state: S
    ordered: bool = True
    grace_ms: int = 600_000
    marked: bool = False
    described: bool = False
    eager: bool = False
    listing: tuple[Object, ...] = ()
    prefix: str = FIRST
    after: str = ""
    began_ms: int | None = None
    now_ms: int = 0
    gaps: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    passes: int = 1
    fetching: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()
    pending: tuple[str, ...] = ()
    listed: Names = field(default=Names(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.prefix == FIRST:
            object.__setattr__(self, "prefix", TRANSACTIONS if self.marked else self.folder)

    @property
    def wants(self) -> tuple[Request, ...]:
        """One page, or the next files; nothing when the state is complete."""
        if self.prefix:
            return (ListPage(self.prefix, self.after, self.described),)
        return tuple(Get(name) for name in self.fetching)

    def take(self, answers: Sequence[Answer]) -> Reader[S]:
        """The next step.

        Raises:
            Corrupt: a file is damaged, or cannot be taken in; or a version that must exist is nowhere.
            StoreUnavailable: files kept vanishing for PASSES_MAX passes.
        """
        if self.prefix:
            (page,) = answers
            assert isinstance(page, Listed)
            return self._listed(page)
        found: list[tuple[str, ObjectBytes]] = []
        vanished = False
        for name, answer in zip(self.fetching, answers, strict=True):
            assert isinstance(answer, Got)
            if is_decision(name) and self._is_late(answer.now_ms):
                vanished = True  # it may have been deleted, and made again by somebody who slept
                continue
            if answer.data is None and is_decision(name):
                continue  # not decided: what it is about does not count yet
            if answer.data is None or (is_claim(name) and self._is_late(answer.now_ms)):
                vanished = True
            else:
                found.append((name, answer.data))
        step = replace(self, state=self.state.joined(found), fetching=())
        if vanished:
            return step._again()
        return step._more() if step.pending else step._fetch()

    def _is_late(self, now_ms: int) -> bool:
        return self.began_ms is not None and 2 * (now_ms - self.began_ms) > self.grace_ms

    def _listed(self, page: Listed) -> Reader[S]:
        began = self.began_ms if self.began_ms is not None else page.now_ms
        step = replace(self, listing=self.listing + page.objects, began_ms=began, now_ms=page.now_ms)
        if page.after is not None:
            return replace(step, after=page.after)
        if self.prefix == TRANSACTIONS:
            return replace(step, prefix=self.folder, after="")
        step = step._looked_at()
        if not self.marked and mark_name(self.folder) in step.listed.all:
            return replace(self, marked=True, listing=(), prefix=FIRST, after="", began_ms=None)
        step = replace(step, prefix="", after="")
        if not self.ordered and step._is_late(page.now_ms):
            return step._again()
        return step._fetch()

    @property
    def names(self) -> Sequence[str]:
        """The names seen in the current pass."""
        return self._looked_at().listed.all

    def _looked_at(self) -> Reader[S]:
        if self.listed.listing is self.listing:
            return self
        return replace(self, listed=Names.of(self.listing))

    def _fetch(self) -> Reader[S]:
        listed = self._looked_at().listed
        bundles = self.state.unread(listed.bundles)
        if bundles:
            top = max(bundle_rank(name) for name in bundles)
            small = self.eager and self._are_small({name for name in bundles if bundle_rank(name) < top})
            return self._ask(name for name in bundles if small or bundle_rank(name) == top)
        closed = self.state.unsettled(listed.settling)
        if closed:  # after bundles: a transaction that is in one of them is settled
            return self._ask(closed)
        versions = self.state.missing(listed.commits)
        if versions:
            return self._ask(versions)
        decisions = tuple(name for name in self.state.undecided() if name not in self.asked)
        if decisions:
            return self._ask(decisions)
        gaps = self.state.gaps()
        if not gaps:
            return self
        lost = gaps & self.gaps
        if lost:
            writer, seq = min(lost)
            raise Corrupt(
                self.folder, f"version {seq} of writer {writer:016x} is missing; later ones are there"
            )
        return replace(self._again(), gaps=gaps)

    def _are_small(self, bundles: Collection[str]) -> bool:
        if len(bundles) > EAGER_FILES_MAX:
            return False
        return sum(item.size for item in self.listing if item.name in bundles) <= EAGER_BYTES_MAX

    def _ask(self, names: Iterable[str]) -> Reader[S]:
        """Fetch these. Raises `Corrupt` where one was fetched before, and joined, and is wanted still."""
        pending = tuple(names)
        again = self.asked.intersection(pending)
        if again:
            raise Corrupt(
                min(again), f"was read, and {self.folder} still lacks what it holds: it cannot be taken in"
            )
        return replace(self, pending=pending, asked=self.asked.union(pending))._more()

    def _more(self) -> Reader[S]:
        return replace(self, fetching=self.pending[:FETCH_FILES], pending=self.pending[FETCH_FILES:])

    def _again(self) -> Reader[S]:
        if self.passes >= PASSES_MAX:
            raise StoreUnavailable(
                f"{self.folder}: files kept vanishing while they were read, {PASSES_MAX} times over; "
                "is the grace period of collection shorter than a listing takes?"
            )
        return replace(
            self,
            eager=False,  # what vanished may have been replaced, and need not have been asked for
            listing=(),
            prefix=FIRST,
            after="",
            began_ms=None,
            fetching=(),
            asked=frozenset(),
            pending=(),
            passes=self.passes + 1,
        )
