"""The mode of a handle: what its log says, or, before it has read it, its settings.

The log decides (`crdtcat.log.modes`); a handle learns it with the next listing. What has to happen while one
is switched is in `crdtcat.cas.switching`. No request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crdtcat.format.settings import Settings
from crdtcat.log import Log, State
from crdtcat.log.modes import mode_of, switch_of
from crdtcat.protocol import Put, Reader

if TYPE_CHECKING:
    from crdtcat.session import Session

_ANNOUNCED = "switching-"
_NUMBER = re.compile(r"[0-9]{16}")


class ModeSwitched(Exception):
    """The table is in another mode than the commit was begun in. Nothing was committed.

    No error: caught where commits are made, and acted on.
    """


def announcement(folder: str, number: int) -> Put:
    """The file that says: the claim of this number will switch the table to CAS mode. It says so until
    somebody has that number."""
    return Put(f"{folder}{_ANNOUNCED}{number:016d}", b"")


def is_switching(reader: Reader[State]) -> bool:
    """Whether a listing showed that somebody is about to switch the table to CAS mode."""
    done = int(reader.state.log.number.max(initial=0))
    beginning = reader.folder + _ANNOUNCED
    numbers = [name.removeprefix(beginning) for name in reader.names if name.startswith(beginning)]
    return any(int(number) > done for number in numbers if _NUMBER.fullmatch(number))


def with_mode_of(session: Session, log: Log) -> Settings:
    """The session's settings, in the mode that the log says it is in.

    A branch that was made before its table was switched has no such claim, and stays what it was: in CAS
    mode if it ever had a claim.
    """
    mode = mode_of(log)
    if mode is None and session.source is not None and session.settings.switched:
        mode = "cas" if log.number.any() else "merge"
    if mode is None or mode == session.settings.mode:
        return session.settings
    return session.settings.model_copy(update={"mode": mode})


def knows_switch(log: Log, seen: Log) -> bool:
    """Whether an earlier state of a log had the switch that counts in it, if there is one. O(n)."""
    at = switch_of(log)
    return at < 0 or seen.index_of(log.id_at(at)) >= 0
