"""The first page of a table's log, asked for beside its settings.

Which folder a log is in follows from the settings, but of all tables that were never dropped it is the same.
So whoever reads such a table by its name, and knows nothing of it yet, has one round trip less to wait for;
of others the page is thrown away. The page is for the call that asked for it and for no other: whoever reads
later must see what was committed meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from crdtcat.drive import answers, elapsed_clock
from crdtcat.errors import CrdtcatError
from crdtcat.format.settings import Settings, log_folder
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.log import State
from crdtcat.marks import ask_for_mark
from crdtcat.protocol import Reader
from crdtcat.protocol.requests import Answer, Listed, Request
from crdtcat.store import Store
from crdtcat.support.pools import ThreadPool

if TYPE_CHECKING:
    from crdtcat.session import Session


class FirstPage(NamedTuple):
    """A page that was listed ahead.

    Attributes:
        thread: who asked for it, and alone may use it.
        began: when, by `elapsed_clock`.
        answer: what the store said.
    """

    thread: int
    began: float
    answer: Answer

    @property
    def goes_on(self) -> bool:
        """Whether it is not the last one."""
        return isinstance(self.answer, Listed) and self.answer.after is not None


def with_first_page(
    store: Store, table: str, find: Callable[[], Settings | None]
) -> tuple[Settings | None, FirstPage | None]:
    """What `find` finds, and the first page of the table's log, if that is where it most likely is.

    One LIST page, beside what `find` asks for. An error of the LIST is for those to tell who need it: none.
    """
    began, wants = elapsed_clock(), _wants(log_folder(table, MAIN, 1))
    with ThreadPool(1) as pool:
        page = pool.submit(lambda: answers(store, wants, {}))
        settings = find()
    if settings is None or settings.dropped or settings.incarnation != 1:
        return settings, None
    try:
        (answer,) = page.result()
    except CrdtcatError:
        return settings, None
    return settings, FirstPage(threading.get_ident(), began, answer)


def first_reader(session: Session, pages: list[FirstPage], *, described: bool) -> Reader[State]:
    """A reader that brings a session's state up to date. `pages` has the first page, if it was listed ahead:
    it is taken out, and used by the one who asked for it. Without one, or where more pages follow, the first
    time: `ask_for_mark`."""
    store = session.store
    page = pages.pop() if pages else None
    if page is not None and page.thread != threading.get_ident():
        page = None
    if page is None or page.goes_on:  # the mark would be on the last page, and all of them in vain
        ask_for_mark(session)
    session.mark_asked = True
    eager = store.is_remote and not len(session.state.log)
    reader = Reader(
        session.folder,
        session.state,
        ordered=store.lists_in_order,
        grace_ms=int(session.options.grace_seconds * 1000),
        marked=session.marked,
        described=described or eager,
        eager=eager,
    )
    if page is None or reader.wants != _wants(session.folder):
        return reader
    return reader.take((page.answer,))


def _wants(folder: str) -> tuple[Request, ...]:
    return Reader(folder, State(folder), described=True).wants
