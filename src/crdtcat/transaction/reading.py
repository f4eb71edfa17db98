"""What a serializable transaction has read, and whether it would read the same now.

A transaction that reads at one moment and commits at another is as if it had done both at the later one, if
none of its reads would have given anything else there. So every read is remembered, by what was asked and not
by which rows came back: a row that was moved into a filter, or added to it, changes the answer as well as one
that was moved out. Before the commit takes its place behind others, its reads are made again, on what they
left, and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from crdtcat.chunks.read import FooterCache
from crdtcat.errors import UserError
from crdtcat.head import Head
from crdtcat.log import Log
from crdtcat.scan import Scan
from crdtcat.session import Session


class Read(NamedTuple):
    """What was asked: columns, all by default, and a filter."""

    columns: tuple[str, ...] | None
    filter: Any


def changed(session: Session, reads: Sequence[Read], before: Log, after: Log) -> tuple[str, ...]:
    """Those reads, in words, that give other rows on `after` than on `before`. Costs what the reads do."""
    heads = [Head(session.table, log, session.settings) for log in (before, after)]
    found = []
    for read in reads:
        try:
            first, second = (_rows(session, head, read) for head in heads)
        except UserError:  # a column is gone, or became another
            found.append(str(read.filter))
            continue
        if not first.equals(second):
            found.append("all rows" if read.filter is None else str(read.filter))
    return tuple(dict.fromkeys(found))


def _rows(session: Session, head: Head, read: Read) -> Any:
    columns = None if read.columns is None else list(read.columns)
    verify = session.options.verify
    scan = Scan(
        head, session.store, columns=columns, filter=read.filter, verify=verify, footers=FooterCache()
    )
    return scan.to_table()
