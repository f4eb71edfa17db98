"""The committer: a claim that may rest on old knowledge, and what it does so as not to be fooled.

What a claim rests on is "nothing was above this number". Once the claims above it are bundled and collected
their names are free again, and creating one would succeed, for nothing: the log has that number. So whatever
is known counts for half a grace period, and for no longer:

    at the beginning     it is young                           claim
                         it is old                             list claims and bundles above the parent
    they are listed      no bundle has a number above it       look at all claims listed, then claim
                         one has                               read the log, and begin again
    claiming             would create above others that it     read the log, and begin again: they may stand
                         met, and it is old by now             under names that were used before
    the claim is there   it is young still                     done
                         it is old by now                      list the bundles
    bundles listed       nothing as high as the number         done
                         something                             read the log: done if it has this very claim,
                                                               else it is void: begin again

Walking up from claim to claim does not make it younger: what is met on the way may be void itself. What is
listed is not, if no bundle listed with it, or after it, has its number: a void claim stands in the place of
one that was collected, which a bundle has that was there before. So whoever lists first makes k + 2 requests
past k others, and is refused by none of them. Of claims one page is listed, of bundles all.

No clock: the driver, which has one, says `aged`. It reads the log, too, when it is told to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from crdtcat.protocol.claimer import C, Claimer, ClaimOutcome, Parent
from crdtcat.protocol.names import bundle_number, claim_name
from crdtcat.protocol.requests import Answer, Listed, ListPage, Request


@dataclass(frozen=True, slots=True)
class Committer(Generic[C]):
    """Commit by a claim that stands. Begin with `Committer.begin`. Theorem: `cas_claim_stands`.

    Attributes:
        claim: the claim.
        old: whether what it rests on is known from too long ago.
        listing: after which name claims and bundles, or bundles, are listed; empty: they are not, now.
        taken: the highest number in the names listed.
        reading: whether the log has to be read: see `read`.
        void: whether the log was read, and the commit has to begin again above what is in it.
    """

    claim: Claimer[C]
    old: bool = False
    listing: str = ""
    taken: int = 0
    reading: bool = False
    void: bool = False

    @classmethod
    def begin(
        cls, folder: str, change: C, parent: Parent, hlc: int, *, old: bool = False, **more: Any
    ) -> Committer[C]:
        """A commit under the number after `parent`, or a later one; `old`: that is known from long ago;
        `more`: as `Claimer.begin` takes it."""
        claim = Claimer.begin(folder, change, parent, hlc, **more)
        return cls(claim, listing=claim_name(folder, parent.number) if old else "")

    @property
    def outcome(self) -> ClaimOutcome:
        """How it ended, or why it waits; `STALE`: read the log and go on with `read`; `VOID`: begin again."""
        if self.void:
            return ClaimOutcome.VOID
        if self.reading:
            return ClaimOutcome.STALE
        return ClaimOutcome.PENDING if self.listing else self.claim.outcome

    @property
    def created(self) -> bool:
        """Whether the claim is there, for what it is worth."""
        return self.claim.outcome is ClaimOutcome.DONE

    @property
    def acknowledges(self) -> tuple[str, ...]:
        """The version that is committed; none before it is known to stand."""
        return self.claim.acknowledges if self.outcome is ClaimOutcome.DONE else ()

    @property
    def wants(self) -> tuple[Request, ...]:
        """A page of names, or what the claim wants."""
        if self.outcome is not ClaimOutcome.PENDING:
            return ()
        return (ListPage(self.claim.folder, self.listing),) if self.listing else self.claim.wants

    def aged(self) -> Committer[C]:
        """What it rests on has become old. To be said before the answers are taken that came so late."""
        return replace(self, old=True)

    def take(self, answers: Sequence[Answer]) -> Committer[C]:
        """The next step."""
        if self.listing:
            (page,) = answers
            assert isinstance(page, Listed)
            return self._listed(page)
        return replace(self, claim=self.claim.take(answers))._looked_after()

    def resumed(self, change: C | None = None) -> Committer[C]:
        """Go on, as `Claimer.resumed`. If it has become old meanwhile, `aged` is to be said before."""
        return replace(self, claim=self.claim.resumed(change))._looked_after()

    def read(self, *, held: bool) -> Committer[C]:
        """Go on after the log was read; `held`: it has this claim, under its number."""
        return replace(self, reading=False, void=not (self.created and held))

    def _looked_after(self) -> Committer[C]:
        claim = self.claim
        if self.old and self.created:
            return replace(self, listing=_bundles(claim.folder), taken=0)
        if claim.outcome is ClaimOutcome.STALE or (self.old and claim.passed and claim.creating):
            return replace(self, reading=True)
        return self

    def _listed(self, page: Listed) -> Committer[C]:
        taken = max((bundle_number(item.name) for item in page.objects), default=0)
        bundles = _bundles(self.claim.folder)
        claim = self.claim.named(page) if self.listing < bundles else self.claim
        listing = "" if page.after is None else max(page.after, bundles)
        step = replace(self, claim=claim, taken=max(self.taken, taken), listing=listing)
        return step if listing else replace(step, reading=step.taken >= self.claim.number)


def _bundles(folder: str) -> str:
    """The name after which a listing has the bundles, and little else."""
    return f"{folder}z"
