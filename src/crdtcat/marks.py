"""Knowing early that a table took part in transactions.

A folder that has the mark is listed after `transactions/`. Whoever finds that out by listing the folder has
listed it in vain, and a LIST costs a dozen GETs. So the mark is asked for before, by its name: beside the
settings where a table is opened by its name, in the same round trip; else right before the first listing.

Always safe: a mark that was stored stays for ever, so whoever knows of one knows what every later listing
would say. That there was none says nothing, and nothing is concluded from it: the reader then begins with the
folder, like one who did not ask, and finds a mark that was stored since. Whoever only appends never asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from crdtcat.errors import StoreError
from crdtcat.format.settings import log_folder
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.protocol import mark_name
from crdtcat.store import Store
from crdtcat.store.values import Answers

if TYPE_CHECKING:
    from crdtcat.session import Session


def with_mark(store: Store, names: Sequence[str], table: str) -> tuple[Answers, bool]:
    """What these objects hold, and whether the log that a table most likely has is marked. One GET each, all
    at once; without the mark once more where the store failed: it may be the mark alone that it refuses, as
    some do for what is not there, to those who may not list."""
    mark_too = (*names, mark_name(log_folder(table, MAIN, 1)))
    try:
        *found, mark = store.get_many([(name, 0, None) for name in mark_too])
    except StoreError:
        return store.get_many([(name, 0, None) for name in names]), False
    return found, mark is not None


def ask_for_mark(session: Session) -> None:
    """Before a handle lists its log for the first time: find out about the mark. One GET, unless that is
    known or was asked. A store that will not say is not asked again: listing tells."""
    if session.marked or session.mark_asked:
        return
    try:
        (mark,) = session.store.get_many([(mark_name(session.folder), 0, None)])
    except StoreError:
        mark = None
    session.marked, session.mark_asked = mark is not None, True
