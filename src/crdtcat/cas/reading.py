"""What a handle or a transaction has read, and whether a commit that came between changed any of it.

Whoever reads at one moment and commits at another is as if it had done both at the later one, if none of its
reads would have given anything else there. So with `isolation="serializable"` every read is remembered, by
what was asked and not by which rows came back: a row that was moved into a filter, or added to it, changes
the answer as well as one that was moved out. Each commit that comes between is held against the questions
as intervals (`crdtcat.scan.answers`); a question is asked again only where these leave something open.

Outside transactions, what counts are the reads that the same thread made through the same handle since its
last commit there.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from blake3 import blake3

from crdtcat.conflicts import Kind, Overlap
from crdtcat.errors import Expired, InvalidArgument
from crdtcat.format.sections import Array
from crdtcat.format.version import UPKEEP
from crdtcat.head import Head
from crdtcat.log import Log, join, select
from crdtcat.log.transactions import claim_of
from crdtcat.protocol.claimer import Parent
from crdtcat.scan.answers import answer_changed, rows_moved

if TYPE_CHECKING:
    from crdtcat.session import Session

READS_MAX: Final = 256  # questions remembered; more of them become one, about all there is
WORDS_MAX: Final = 200  # characters of a filter that an error shows


class Read(NamedTuple):
    """What was asked.

    Attributes:
        columns: their names; `None`: all; empty: only which rows there are.
        filter: which rows; `None`: all.
        numbers: instead of a filter, the first row's number and the last's.
        name: what tells the filter from others; see `kept`.
        of: instead of rows, what else of a head: one of `FACES`.
    """

    columns: tuple[str, ...] | None = None
    filter: Any = None
    numbers: tuple[int, int] | None = None
    name: bytes = b""
    of: str = ""

    def __str__(self) -> str:
        if self.of:
            return f"the {self.of}"
        if self.numbers is not None:
            return f"rows {self.numbers[0]} to {self.numbers[1]}"
        words = "all rows" if self.filter is None else str(self.filter)
        return words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]}..."

    def kept(self) -> Read:
        """The question as it is now, whatever becomes of lists and arrays in its filter. O(the filter).

        Filters of some kinds cannot be compared, and what they print leaves out the middle of long lists: so
        they are known by all their bytes. One that cannot be copied becomes a question about all rows.
        """
        if self.filter is None:
            return self
        try:
            data = pickle.dumps(self.filter)
            kept = pickle.loads(data)  # noqa: S301 (made here)
        except Exception:  # noqa: BLE001 (whatever a value in it says about being copied)
            return Read(self.columns)
        return self._replace(filter=kept, name=blake3(data).digest())

    @property
    def key(self) -> tuple[Any, ...]:
        """Of a question that is kept: equal for equal questions only."""
        return self.columns, self.numbers, self.name, self.of


EVERYTHING: Final = Read()
"""All rows."""
HISTORY: Final = Read(of="history")
"""Whatever was committed: any commit changes it."""
FACES: Final[Mapping[str, Callable[[Head], Any]]] = {
    "history": lambda head: head.log.ids[head.folded.standing].tobytes(),
    "conflicts": lambda head: head.conflicts,
    "schema": lambda head: head.schema,
    "properties": lambda head: head.properties,
}
Note = tuple[Read, Parent]
"""A question, and the newest claim of the state that it was asked of."""


class Notes(threading.local):
    """Questions that a thread has asked through a handle since its last commit, and on top of which claim."""

    def __init__(self) -> None:
        self._reads: dict[tuple[Any, ...], Note] = {}

    def add(self, read: Read, seen: Parent) -> None:
        """Remember one. Asked twice of the same state it is one; too many are one about all there is."""
        if len(self._reads) >= READS_MAX:
            oldest = min((parent for _, parent in self._reads.values()), key=lambda parent: parent.number)
            self._reads = {(): (HISTORY, oldest)}
        read = read.kept()
        self._reads[read.key, seen.number] = read, seen

    def all(self) -> list[Note]:
        """Those asked since the last commit."""
        return list(self._reads.values())

    def forget(self) -> None:
        """There was a commit, or somebody was in its way."""
        self._reads.clear()


class Asked:
    """Questions, each asked of some state of a log, and what became of those states since.

    Args:
        session: reads what intervals leave open.
        groups: questions, by the log that they were asked of.
    """

    def __init__(self, session: Session, groups: Iterable[tuple[Log, Sequence[Read]]]) -> None:
        self._session = session
        self._groups = [(Head(session.table, log, session.settings), reads) for log, reads in groups if reads]

    def __bool__(self) -> bool:
        return bool(self._groups)

    def judged(self, log: Log, index: int) -> tuple[Overlap, ...]:
        """What one more version, the next one, changed of what was read. Asking about it again is free.

        Raises `Expired`: that version was folded since.
        """
        one = select(log, np.arange(len(log)) == index)
        words: dict[str, None] = {}
        for at, (before, reads) in enumerate(self._groups):
            if before.log.find(one.ids)[0] >= 0:
                continue
            _require_not_folded(log, np.arange(len(log)) == index, before.table)
            after = Head(before.table, join(before.log, one), before.settings)
            words |= dict.fromkeys(str(read) for read in reads if self._changed(before, after, read))
            self._groups[at] = after, reads
        if not words:
            return ()
        return (Overlap(Kind.READ_WRITE, log.id_at(index), claim_of(log, index), keys=tuple(words)),)

    def _changed(self, before: Head, after: Head, read: Read) -> bool:
        if read.of:
            return bool(FACES[read.of](before) != FACES[read.of](after))
        if read.numbers is not None:
            return rows_moved(before, after, *read.numbers)
        return answer_changed(
            before,
            after,
            self._session.store,
            columns=read.columns,
            filter=read.filter,
            verify=self._session.options.verify,
        )


def asked_of(session: Session, log: Log, notes: Sequence[Note]) -> Asked:
    """Questions asked of earlier states of a log, which are its versions up to a claim. Raises `Expired`."""
    groups: dict[Parent, list[Read]] = {}
    for read, seen in notes:
        if seen not in groups:
            _require_not_folded(log, claimed_above(log, seen), session.table)
        groups.setdefault(seen, []).append(read)
    return Asked(session, ((select(log, ~claimed_above(log, seen)), reads) for seen, reads in groups.items()))


def _require_not_folded(log: Log, above: Array, table: str) -> None:
    """What came since can be held against what was read as long as its rows can be read."""
    if (above & log.is_folded).any():
        raise Expired(
            f"table {table!r}: what came after what was read for this commit was expired meanwhile, so "
            "nobody can tell whether it changed any of it; nothing was committed: read again, and repeat it"
        )


def claimed_above(log: Log, parent: Parent) -> Array:
    """Per version, whether it was claimed after a number: by itself, or as part of a transaction."""
    above: Array = (log.operation != UPKEEP) & ((log.number > 0) | np.asarray(log.transaction.is_valid()))
    if parent.id is not None:
        above &= log.ids > np.array([parent.id.to_bytes()], log.ids.dtype)[0]
    return above


def require_no_more_than_snapshot(session: Session) -> None:
    """Raises `InvalidArgument` where serializable commits are wanted of a table in merge mode."""
    if session.options.isolation == "serializable":
        raise InvalidArgument(
            f"table {session.table!r} is in merge mode, where commits are not serializable: use a catalog of "
            'isolation="snapshot" for it, or switch_mode("cas")'
        )
