"""Standing back: a handle that commits again and again in CAS mode lets others go first, now and then.

How often and for how long is `crdtcat.cas.pauses`. When is here: before anything is read for the commit. What
rests on a head is tried with what that knew, and a rest between the two would make it old: whoever came
meanwhile would refuse the first try, or have touched the same rows. A verb that reads nothing rests when it
commits, and lists after that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crdtcat.cas.pauses import rest_seconds
from crdtcat.drive import elapsed_clock

if TYPE_CHECKING:
    from crdtcat.head import Head
    from crdtcat.session import Session


def stand_back(session: Session, *, reads: bool = False) -> None:
    """Wait, where the handle's next commit is to come after others. No request. `reads`: whether it is going
    to read."""
    pace = session.chain.pace
    if not pace.is_due or session.settings.mode != "cas":
        return
    session.chain.pace = pace.rested()
    if pause := rest_seconds(pace, elapsed_clock(), session.options, reads=reads):
        time.sleep(pause)


def head_to_change(session: Session) -> Head:
    """The head after a refresh, for a commit that is going to rest on it."""
    stand_back(session, reads=True)
    return session.head()
