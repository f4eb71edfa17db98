"""One snapshot of several tables: every transaction is in all of them or in none.

Tables are read one after the other, and a transaction may be stored in between. If what is pinned already has
it, the next table is listed until it has it too: its file was there before. If the next table has one that
what is pinned lacks, it is left out of the snapshot, with every version that had seen it.
(Models: `Transactions`, `Marks` in proofs/tla.)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crdtcat.errors import StoreUnavailable
from crdtcat.head.clocks import Clocks
from crdtcat.log import Log, select
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol.reader import PASSES_MAX
from crdtcat.session import Session


def pin(session: Session, pinned: Mapping[str, Log]) -> Log:
    """The versions of one more table, as of the same moment as those that are pinned, by log folder.

    Costs a refresh; one more for each time that a transaction was stored in between.
    """
    held = {folder: transactions_in(log) for folder, log in pinned.items()}
    due = {
        writer for found in held.values() for writer, item in found.items() if session.folder in item.folders
    }
    for _ in range(PASSES_MAX):
        session.refresh()
        log = session.state.log
        here = transactions_in(log)
        if all(writer in here and here[writer].whole for writer in due):
            early = {
                writer
                for writer, item in here.items()
                if any(folder in held and writer not in held[folder] for folder in item.folders)
            }
            return _without(log, early) if early else log
    raise StoreUnavailable(
        f"{session.folder}: a transaction that another table shows is not here after {PASSES_MAX} listings"
    )


def _without(log: Log, writers: set[int]) -> Log:
    """A log without some transactions, and without whatever had seen one of them."""
    clocks = Clocks(log)
    own = np.isin(log.id_fields["writer"].astype(np.uint64), np.array(sorted(writers), np.uint64))
    observing = np.asarray(log.clock.is_valid())
    dropped = own.copy()
    for at in np.flatnonzero(observing & ~own).tolist():
        dropped[at] = any(writer in clocks.of(at) for writer in writers)
    return select(log, ~dropped)
