"""A version on its way into a table in CAS mode: its file for any number, and what others mean for it.

Implements `crdtcat.protocol.claimer.Change`: pure values; whoever drives the claimer does the waiting and the
storing. Judgement reads where a version's file leaves something open: what was asked before, and keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.cas.cold_claims import newest
from crdtcat.cas.key_reading import KeyReader
from crdtcat.cas.modes import ModeSwitched
from crdtcat.cas.reading import Asked
from crdtcat.clock import VersionId
from crdtcat.conflicts import Answer, Kind, Overlap, WriteSet, overlaps, write_set
from crdtcat.conflicts.answered import Answered, asked_again, may_change
from crdtcat.conflicts.detect import Seen, taken
from crdtcat.conflicts.resolve import Policy
from crdtcat.conflicts.tagged_rows import Tag, TaggedRows
from crdtcat.format.carried import link_of
from crdtcat.format.version import TO_CAS, TO_MERGE, UPKEEP, decode_version, encode_version
from crdtcat.log import Log, join
from crdtcat.log.commits import log_of_commit
from crdtcat.protocol import claim_name
from crdtcat.protocol.claimer import NO_CLAIM, Parent, Verdict
from crdtcat.support.cached import cached_property
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.writing.writer import Slot


class KnownKeys:
    """Whose the idempotency keys of a log are, as far as a handle has read it.

    Args:
        log: what it has read.
        read: reads the rest, for a handle that has made commits without reading; `None`: there is none.
    """

    def __init__(self, log: Log, read: Callable[[], Log] | None = None) -> None:
        self._log, self._read = log, read

    def first(self, once: str) -> VersionId | None:
        """The first version under a key. O(versions)."""
        at = pc.index(self._log.key, pa.scalar(once.encode(), pa.large_binary())).as_py()
        return None if at < 0 else self._log.id_at(at)  # the first of several: ids rise

    def complete(self) -> bool:
        """Read what was not; whether that was anything. A refresh, once."""
        if self._read is None:
            return False
        self._log, self._read = self._read(), None
        return True


@dataclass(frozen=True, eq=False)
class LogChange:
    """A version to be committed under the next number. Implements `crdtcat.protocol.claimer.Change`.

    Attributes:
        folder: the log's folder.
        body: the version's keys, without stamp, number and clock.
        beyond: what its author had seen besides the claims.
        slot: writer and sequence number.
        policy: what is to be done about conflicts.
        stands: whether it counts as soon as its claim is there.
        patchable: whether conflicts can be settled by making another change of it; else only by answers under
            which it stands as it is.
        decisions: what is known of transactions in the way.
        keys: the columns of the table's key.
        asked: what was read for it, where its isolation is serializable.
        key_reader: tells the keys of rows in segments, in a keyed table.
        since: the claim that it followed at first: what came later is held against it at every try.
        taken: idempotency keys that it has met, and whose: what comes later under one of them counts for
            nothing, so nothing is in its way, nor is it in anybody's.
        known: such keys in what its handle has read of the log.
        dead: those it has met that took rows away.
        covers: chunks that overwrites had put there which its own were moved past, each with which of its
            versions takes them away. Their files do not name them.
        seen_rows: which rows were there when it was made.
        answered: rows that it has besides, because a function answered so, and what that was asked about.
        bare: what its body says of chunks without these.
    """

    folder: str
    body: Mapping[str, Any]
    beyond: Mapping[int, int]
    slot: Slot
    policy: Policy = field(default_factory=Policy)
    stands: ClassVar[bool] = True
    patchable: ClassVar[bool] = True
    decisions: dict[int, bool] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    asked: Asked | None = None
    key_reader: KeyReader | None = None
    since: Parent = NO_CLAIM
    taken: dict[str, VersionId] = field(default_factory=dict)
    known: KnownKeys | None = None
    dead: dict[VersionId, WriteSet] = field(default_factory=dict)
    covers: tuple[tuple[int, tuple[Tag, ...]], ...] = ()
    seen_rows: Seen | None = None
    answered: tuple[Answered, ...] = ()
    bare: Mapping[str, Any] | None = None

    @property
    def key(self) -> str | None:
        """Its idempotency key."""
        return self.body.get("k")

    def again_from(self, parent: Parent) -> LogChange:
        """The same change, settled with all up to a claim, to be held against what is above it again."""
        before = (
            {name: id for name, id in self.taken.items() if parent.id is not None and id <= parent.id},
            {id: theirs for id, theirs in self.dead.items() if parent.id is not None and id <= parent.id},
        )
        return replace(self, taken=before[0], dead=before[1])

    @property
    def counts_for_nothing(self) -> bool:
        """Whether it repeats what it has met, and nothing else. One that only read is held to that."""
        return bool(self.writes) and all(self.repeats(mine) for mine in self.writes)

    def repeats(self, mine: WriteSet) -> bool:
        """Whether one of its versions has the key of another one that is there."""
        return mine.once is not None and self._first(mine.once) is not None

    def is_void(self, theirs: WriteSet) -> bool:
        """Whether one of theirs, which it meets, repeats another one that is there."""
        if theirs.once is None:
            return False
        first = self._first(theirs.once) or theirs.id
        return self.taken.setdefault(theirs.once, first) != theirs.id

    def knows_more(self, theirs: WriteSet) -> bool:
        """Whether idempotency keys of mine or theirs may be in what was not read yet; then it is read."""
        keyed = theirs.once is not None or any(mine.once is not None for mine in self.writes)
        if not keyed or self.known is None or not self.known.complete():
            return False
        if theirs.once is not None and self.taken.get(theirs.once) == theirs.id:
            del self.taken[theirs.once]  # so it seemed
        return True

    def _first(self, once: str) -> VersionId | None:
        """Whose an idempotency key is, as far as anybody here knows. O(versions) where it was not met."""
        if once in self.taken or self.known is None:
            return self.taken.get(once)
        return self.known.first(once)

    def asking(self, conflicts: Sequence[Overlap]) -> LogChange:
        """The same, of which functions are going to be asked about conflicts."""
        answers = ((item, self.policy.answer(item)) for item in conflicts if may_change(item))
        asked = (item for item, answer in answers if self.patchable and not isinstance(answer, Answer))
        more = tuple(Answered(item, {}, item.first or item.theirs) for item in asked)
        return replace(self, answered=(*self.answered, *more)) if more else self

    def under(self, slot: Slot) -> LogChange:
        """The same change by another writer."""
        return replace(self, slot=slot)

    def sealed(self, parent: Parent, hlc: int) -> tuple[VersionId, bytes]:
        """The file for the number after `parent`."""
        stamp = {"h": hlc, "w": self.slot.writer, "s": self.slot.seq, "l": self.folder}
        clock = {"p": None if parent.id is None else parent.id.to_bytes(), "c": dict(self.beyond)}
        return encode_version({**self.body, **clock, **stamp, "#": parent.number + 1})

    @cached_property
    def writes(self) -> tuple[WriteSet, ...]:
        """What it writes."""
        return (write_set(self._log(Parent(), 1), 0, self.keys),)

    def body_of(self, part: int) -> Mapping[str, Any]:  # noqa: ARG002 (it has one version)
        """The body of one of its versions."""
        return self.body

    def with_body(self, part: int, body: Mapping[str, Any]) -> LogChange:  # noqa: ARG002
        """The same with another body of one of its versions."""
        return replace(self, body=body)

    def log_with_part(self, seen: Log, part: int) -> Log:  # noqa: ARG002
        """What a log becomes with one of its versions and those before it, by the ids that these have in the
        version's own ops. No request."""
        return self.log_on(seen)

    def upto(self, part: int) -> LogChange:  # noqa: ARG002
        """One of its versions and those before it."""
        return self

    def log_on(self, seen: Log) -> Log:
        """What a log becomes with this change, had nobody come between. No request."""
        parent = newest(seen)
        last = int(seen.id_fields["hlc"].max()) if len(seen) else 0
        return join(seen, self._log(parent, last + 1))

    def _log(self, parent: Parent, hlc: int) -> Log:
        _, data = self.sealed(parent, hlc)
        return log_of(self.folder, parent.number + 1, data)

    def judged(self, number: int, data: ObjectBytes) -> Verdict:
        """Somebody else's claim of a number, from its file."""
        return judged(self, number, data)

    def judged_in(self, log: Log, index: int) -> Verdict:
        """The same, for a version that is in a log. Raises `ModeSwitched` for one that switches the mode."""
        return judged_by(self, self.writes, log, index)


def conflicts_with(change: LogChange, writes: Sequence[WriteSet], theirs: WriteSet) -> tuple[Overlap, ...]:
    """What versions of a change and one of theirs both touched, as far as it is not to stand as it is.

    Before it says so of commits under idempotency keys, it reads what may show that one of them counts for
    nothing: a refresh, once, of a handle that has made commits without reading what was there.
    """
    if change.is_void(theirs):
        return ()
    reader, deletes = change.key_reader, change.policy.minds(Kind.DELETE_DELETE)
    dead = [earlier for id, earlier in change.dead.items() if id < theirs.id]
    own: list[TaggedRows] = []
    met: list[Overlap] = []
    for part, mine in enumerate(writes):
        if change.repeats(mine):
            continue
        pair = (mine, theirs) if reader is None else reader.exact(mine, theirs, deletes=deletes)
        covers = [TaggedRows.whole(tags) for at, tags in change.covers if at == part]
        found = overlaps(*pair, dead=dead, own=own, covers=covers, seen=change.seen_rows)
        met += (replace(item, part=part) for item in found)
        own += [mine.gone] if mine.deletes else []
    if change.answered:
        takes = partial(taken, theirs, dead=dead, seen=change.seen_rows)
        met = asked_again(change.answered, theirs, met, takes)
    minded = tuple(item for item in met if item.instead or change.policy.answer(item) is not Answer.BOTH)
    if minded and change.knows_more(theirs):
        return conflicts_with(change, writes, theirs)
    if theirs.takes_rows and writes and any(mine.minds_rows for mine in change.writes):
        change.dead[theirs.id] = theirs
    return minded


def judged_by(change: LogChange, writes: Sequence[WriteSet], log: Log, index: int) -> Verdict:
    """What a version that is in a log means for some of what a change writes. Raises `ModeSwitched`."""
    if log.operation[index] in (TO_CAS, TO_MERGE):
        raise ModeSwitched
    theirs = write_set(log, index, change.keys)
    found = conflicts_with(change, writes, theirs)
    if change.asked and not change.counts_for_nothing:
        found += change.asked.judged(log, index)
    return Verdict(theirs.id, found)


def judged(change: LogChange, number: int, data: ObjectBytes) -> Verdict:
    """What a claim's file means for a change: one version, or those of a transaction, decided or not."""
    claim, body = decode_version(data, str(number))
    follows = link_of(claim, body).follows
    if "t" in body:
        if claim.writer not in change.decisions:
            return Verdict(claim, undecided=claim.writer, follows=follows)
        if not change.decisions[claim.writer]:
            return Verdict(claim, void=True, follows=follows)
    name = claim_name(change.folder, number)
    log = log_of_commit(change.folder, name, data, change.decisions)
    if (log.operation == UPKEEP).all():
        return Verdict(claim, void=True)
    return judged_at_once(change, log, range(len(log)))._replace(follows=follows)


def judged_at_once(change: LogChange, log: Log, indexes: Sequence[int]) -> Verdict:
    """What versions that came at once mean for a change: it is settled with all of them together, for what
    each of them leaves is nothing that was ever there. Raises `ModeSwitched`."""
    conflicts: list[Overlap] = []
    for at in indexes:
        verdict = change.asking(conflicts).judged_in(log, at)
        over = [id(item) for found in verdict.conflicts for item in found.instead]
        conflicts = [*(item for item in conflicts if id(item) not in over), *verdict.conflicts]
    return Verdict(verdict.id, tuple(conflicts))


def log_of(folder: str, number: int, data: ObjectBytes) -> Log:
    """The log of one claim."""
    return log_of_commit(folder, claim_name(folder, number), data, {})
