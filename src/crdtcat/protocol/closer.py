"""The closer: settle, for all tables at once, which transactions below a time count.

A transaction in merge mode is one file that brings versions to several tables. A horizon of one of them that
passed a slow one by would leave the rest of it in the others. So no horizon of such a table is above a time
that was closed, and what is closed is settled in one place, by one file that is created once:

    put a closing of time T     from now on nobody who lists it builds on a file below T that is not settled
    list, read                  the latest file: what it settled stays settled
    list `transactions/`        what is there now counts, what comes later below T does not
    create the next file        T, and the transactions below it that are there; of several closers one wins,
                                and the others begin again
    list, read                  the latest file: it closes T, whoever created it
    delete                      closings up to its time, and files before: it says all that they said

Why it holds. Closings sort after transactions, and the files that settle them after closings. Whoever lists a
transaction and, later on in the same listing, no closing above it and no file that passes it by, has seen it
before any such closing was put: every closer lists it, and it counts. So bundles, clocks, branch starts and
tags hold no transaction that is passed by, whatever happens to its author. (Without the closing, or with one
that is put after listing, half of a transaction is lost in a few steps. So it is if the transactions were
listed before the file was read: another closer may have found one meanwhile, and settled that it counts.
`proofs/tla/Closing`, `tests/protocol/test_closer.py`.)
Whoever lists both a transaction and a closing above it closes that time itself, or waits
(`crdtcat.lifecycle.closing`).

A transaction whose file was collected is in bundles of all its tables, and need not be in any list. A number
whose file was deleted may be created again by somebody very late; readers take the highest, and so does the
closer before it deletes anything: times rise with numbers, so what the highest says will be said for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from crdtcat.errors import StoreUnavailable
from crdtcat.format.closed import NOTHING_CLOSED, Closed, decode_closed
from crdtcat.protocol.names import (
    TRANSACTIONS,
    closed_name,
    closed_number,
    closing_until,
    is_version,
    transaction_of,
)
from crdtcat.protocol.requests import (
    Answer,
    Created,
    Delete,
    Get,
    Got,
    Listed,
    ListPage,
    Put,
    PutIfAbsent,
    Request,
    Stored,
)
from crdtcat.support.object_bytes import ObjectBytes

PASSES_MAX: Final = 16  # other closers would have to be faster every time


@dataclass(frozen=True, slots=True)
class Closer:
    """Close the transactions below a time. 2 PUTs, 2 LISTs, 1 GET and 1 DELETE, if nobody else does; a LIST
    and a GET more where something was closed before.

    Attributes:
        name: the closing's name, its own.
        until: the time.
        is_put: whether the closing is there.
        names: what was listed in `transactions/`.
        after: where the next page begins; `None`: all was listed.
        before: what was settled before, as far as it was read.
        listed: whether the listing was begun after that was read, and shows nothing later.
        done: whether the time is closed.
        deleting: names to delete, once it is.
        passes: listings begun.
    """

    name: str
    until: int
    is_put: bool = False
    names: tuple[str, ...] = ()
    after: str | None = ""
    before: Closed = NOTHING_CLOSED
    listed: bool = False
    done: bool = False
    deleting: tuple[str, ...] = ()
    passes: int = 1

    @property
    def wants(self) -> tuple[Request, ...]:
        """One request at a time: each rests on the one before."""
        if self.deleting:
            return (Delete(self.deleting),)
        if self.done:
            return ()
        if not self.is_put:
            return (Put(self.name, b""),)
        if self.after is not None:
            return (ListPage(TRANSACTIONS, self.after),)
        if not self.listed:
            return (Get(closed_name(self._latest)),)
        return (PutIfAbsent(closed_name(self.before.number + 1), self._settled(self.before).encode()),)

    def take(self, answers: Sequence[Answer]) -> Closer:
        """The next step.

        Raises:
            Corrupt: what was settled before cannot be read.
            StoreUnavailable: nothing was closed, or nobody knows: try again.
        """
        (answer,) = answers
        if self.deleting:
            return replace(self, deleting=())
        match answer:
            case Stored(clear):
                if not clear:
                    raise StoreUnavailable(f"{self.name}: the store gave no clear answer; nothing was closed")
                return replace(self, is_put=True)
            case Listed(objects, after, _):
                step = replace(self, names=self.names + tuple(item.name for item in objects), after=after)
                return replace(step, listed=after is None and step._latest == self.before.number)
            case Got(data, _):
                return self._again() if data is None else self._read(data)
            case Created():
                return self._again()  # ours or another's: the highest counts
        raise AssertionError(f"{answer} answers nothing that was asked")

    @property
    def _latest(self) -> int:
        return max(map(closed_number, self.names), default=0)

    def _read(self, data: ObjectBytes) -> Closer:
        before = decode_closed(data, closed_name(self._latest), self._latest)
        if before.until < self.until:
            return replace(self._again(), before=before)
        return replace(self, done=True, deleting=(self.name, *self._behind(before)))

    def _settled(self, before: Closed) -> Closed:
        found = [transaction_of(name) for name in self.names if is_version(name)]
        admitted = {writer for hlc, writer in found if hlc < self.until and not before.passed_by(hlc, writer)}
        return Closed(before.number + 1, self.until, frozenset(admitted))

    def _behind(self, latest: Closed) -> tuple[str, ...]:
        """Others' closings up to what is closed, and files that say less."""
        return tuple(
            name
            for name in self.names
            if 0 < closed_number(name) < latest.number
            or (name != self.name and (closing_until(name) or latest.until + 1) <= latest.until)
        )

    def _again(self) -> Closer:
        if self.passes >= PASSES_MAX:
            raise StoreUnavailable(f"{TRANSACTIONS}: others were faster {PASSES_MAX} times; try again")
        return replace(self, names=(), after="", listed=False, passes=self.passes + 1)
