"""Where a log in CAS mode stands, without reading it: the newest claim, from the hint and one listing.

The hint names a claim that was there once, and the bundle whose newest that was. One LIST from there on shows
what came after it and, in the names of bundles, up to which number everything is taken. If nothing came, and
that bundle is there, whose name is a hash of what is in it, the claim is the newest: an id that the log does
not have would be a parent that is missing for ever. If something came, one GET more brings the newest one's
id. A hint that leads nowhere, or to another log than this one, as after a log was put back without it, is
passed over: it is advice, never proof, and then the log is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from crdtcat.cas.modes import ModeSwitched
from crdtcat.cas.pauses import Pace
from crdtcat.cas.recent_claims import RecentClaims
from crdtcat.clock import VersionId
from crdtcat.drive import elapsed_clock
from crdtcat.errors import DataError
from crdtcat.format.carried import own_frame, proven_frames
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.version import TO_MERGE, UPKEEP, decode_version
from crdtcat.limits import CARRIED_CLAIMS_MAX
from crdtcat.log import Log, State
from crdtcat.log.modes import mode_of
from crdtcat.protocol import bundle_number, claim_name, claim_number, is_claim
from crdtcat.protocol.claimer import Claimer, Parent
from crdtcat.protocol.names import hint_name, last
from crdtcat.protocol.requests import Answer, Get, Got, Request
from crdtcat.support.object_bytes import ObjectBytes

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session


MET_MAX: Final = 256  # files of claims, each at most as large as what may be inlined


@dataclass
class Chain:
    """What a handle knows of a log's claims.

    Attributes:
        parent: the newest claim it knows; `None`: it knows nothing yet.
        known_at: when that was known to be the newest, by `elapsed_clock`.
        crowded: whether the last commit had to pass others, and nothing was listed since: then the next one
            lists before it tries.
        pace: how it has been committing: when it lets others go first.
        met: version files of claims read or made on the way, which the next refresh need not ask for.
        met_at: when the first of them was.
        recent: those that the next claim of this handle may carry.
    """

    parent: Parent | None = None
    known_at: float = 0.0
    crowded: bool = False
    pace: Pace = field(default_factory=Pace)
    met: dict[str, ObjectBytes] = field(default_factory=dict)
    met_at: float = 0.0
    recent: RecentClaims = field(default_factory=RecentClaims)

    def saw(self, parent: Parent, known_at: float) -> None:
        """A listing or a creation begun at `known_at` showed that `parent` was the newest."""
        if self.parent is None or parent.number >= self.parent.number:
            self.parent, self.known_at = parent, known_at

    def meet(self, folder: str, number: int, data: ObjectBytes, *, young: bool = False) -> None:
        """Keep what the file of a claim holds for the next refresh, up to a few; `young`: what it was found
        by counts, so it is the log's."""
        for at, frame in enumerate(proven_frames(data, claim_name(folder, number))):
            if not self.met:
                self.met_at = elapsed_clock()
            if len(self.met) < MET_MAX:
                self.met.setdefault(claim_name(folder, number - at), frame)
            if young:
                self.recent.add(number - at, frame)

    def looked(self, folder: str, wants: Sequence[Request], found: Sequence[Answer], *, young: bool) -> None:
        """Keep what looks at claims have shown. As `meet`."""
        for want, answer in zip(wants, found, strict=True):
            if isinstance(want, Get) and isinstance(answer, Got) and answer.data is not None:
                self.meet(folder, claim_number(want.name), answer.data, young=young)

    def met_since(self, claim: Claimer[Any], log: Log) -> tuple[int, frozenset[int]]:
        """How many came since the handle's last claim, and who made them: those that this one had to pass,
        and those that were read before it. O(n) where there are any."""
        own = self.recent.own
        count = max(0, claim.number - own - 1) if own else claim.passed
        if not count or not own:
            return count, claim.writers
        return count, claim.writers.union(log.id_fields["writer"][log.number > own].tolist())

    def made(self, claim: Claimer[Any]) -> None:
        """Keep one's own claim, which stands, or waits for its decision."""
        self.recent.made(claim.number, own_frame(claim.data, claim_name(claim.folder, claim.number)))

    def before(self, parent: Parent) -> dict[str, Any]:
        """How to begin the claim after one, as `Claimer.begin` takes it."""
        below = tuple(self.recent.below(parent.number))
        return {"listing": self.crowded, "below": below, "crowded": self.recent.crowded}

    def read(self, files: Mapping[int, ObjectBytes]) -> None:
        """Keep the newest of what a refresh has read for the next claim."""
        for number, frame in sorted(files.items())[-CARRIED_CLAIMS_MAX:]:
            self.recent.add(number, frame)

    def at_hand(self, young_seconds: float) -> dict[str, ObjectBytes]:
        """Such files, if they are young enough that their names cannot have been used again. Once."""
        met, self.met = self.met, {}
        return met if elapsed_clock() - self.met_at < young_seconds else {}


def begin(session: Session, seen: Log | None, since: Parent | None = None) -> tuple[Parent, float]:
    """The claim to follow, and since when it is known to be the newest.

    `since`, if it is given; for what rests on something that was read, its newest; else the newest known.
    Cold, as `newest_by_hint`. Raises `ModeSwitched`: the table is in merge mode.
    """
    chain = session.chain
    if since is None and seen is not None:
        since = newest(seen)
    if since is not None:
        return since, chain.known_at if chain.parent == since else -np.inf
    if chain.parent is None:
        began = elapsed_clock()
        found = newest_by_hint(session)
        if found is None or found.id is None:
            session.refresh()
            if session.settings.mode != "cas":
                raise ModeSwitched
        else:
            session.clock.observe(found.id.hlc)
            chain.saw(found, began)
    assert chain.parent is not None
    return chain.parent, chain.known_at


def newest(log: Log) -> Parent:
    """The newest claim in a log. O(n)."""
    if not len(log) or not log.number.any():
        return Parent()
    standing = np.where(log.operation == UPKEEP, 0, log.number)  # an aborted one only takes its number
    at = int(np.argmax(standing))
    return Parent(int(log.number.max()), log.id_at(at) if standing[at] else None)


def holds(state: State, claim: Claimer[Any]) -> bool:
    """Whether a state has a claim under its number, be it that it waits for a decision. O(n)."""
    at = np.flatnonzero(state.log.number == claim.number)
    if len(at):
        return state.log.id_at(int(at[0])) == claim.id
    name = claim_name(state.folder, claim.number)
    return (name, own_frame(claim.data, name)) in state.pending


def beyond_claims(seen: Head, parent: Parent) -> dict[int, int]:
    """What a head has seen that its newest claim had not: versions without a number."""
    if parent.id is None:
        return dict(seen.clock)
    at = seen.log.index_of(parent.id)
    return dict(seen.clock.beyond(seen.folded.clocks.of(at)))


def newest_by_hint(session: Session) -> Parent | None:
    """The newest claim, if the hint leads to it. One GET, one LIST page per 1,000 files after the hint, and
    one GET more where somebody has claimed since what bundles have."""
    store, folder = session.store, session.folder
    (data,) = store.get_many([(hint_name(folder), 0, None)])
    hint = None if data is None else decoded_hint(data, hint_name(folder))
    if hint is None:
        return None
    names = listed_after(session, claim_name(folder, hint.parent.number - 1))
    taken = max(map(bundle_number, names), default=0)
    above = [number for number in map(claim_number, filter(is_claim, names)) if number > taken]
    if not above:  # what is under its name by now is not asked: the log has what its bundle has
        is_it = taken == hint.parent.number and folder + hint.bundle in names
        return hint.parent if is_it else None
    first = max(taken + 1, hint.parent.number)
    if above != list(range(first, first + len(above))):
        return None
    name = claim_name(folder, above[-1])
    (data,) = store.get_many([(name, 0, None)])
    if data is None:
        return None
    id, body = decode_version(own_frame(data, name), name)
    unclear = "t" in body or body.get("o") == TO_MERGE  # what it means is in the log
    return None if unclear else Parent(above[-1], id)


def listed_after(session: Session, after: str) -> list[str]:
    """Names in a log's folder after one. One LIST page per 1,000."""
    names: list[str] = []
    place: str | None = after
    while place is not None:
        page = session.store.list_names(session.folder, place)
        names += page.names
        place = page.after
    return names


def to_be_followed(log: Log) -> Parent:
    """The newest claim of a bundle's log, for a hint; none where there is none, or CAS mode is over, or it
    was aborted: the one before it may be in another bundle. O(n)."""
    at = int(np.argmax(log.number)) if len(log) else -1
    if at < 0 or not log.number[at] or log.operation[at] == UPKEEP or mode_of(log) == "merge":
        return Parent()
    return Parent(int(log.number[at]), log.id_at(at))


def write_hint(session: Session, parent: Parent, bundle: str) -> None:
    """Leave advice for whoever starts cold: the newest claim of a bundle that is stored. One PUT; none
    without a claim."""
    if parent.id is not None:
        content = {
            "format": FORMAT_NUMBER, "number": parent.number, "id": str(parent.id), "bundle": last(bundle)
        }  # fmt: skip
        session.store.put(hint_name(session.folder), seal_json(content))


class Hint(NamedTuple):
    """What a hint says: a claim, and the bundle whose newest it is. Of hints of before no bundle is known."""

    parent: Parent
    bundle: str


def decoded_hint(data: ObjectBytes, name: str) -> Hint | None:
    """What a hint says; `None` where it cannot be read."""
    try:
        content = unseal_json(data, name)
        number, id = content["number"], VersionId.parse(content["id"])
    except (DataError, KeyError, TypeError, ValueError):
        return None
    bundle = content.get("bundle", "")
    known = isinstance(number, int) and number > 0 and isinstance(bundle, str)
    return Hint(Parent(number, id), bundle) if known else None
