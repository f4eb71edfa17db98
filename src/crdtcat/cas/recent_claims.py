"""Claims that a handle has met lately: what the file of its next one carries, if others are about.

Only what is known to be the log's goes in: what was looked at while the handle's knowledge was young, what a
refresh has read, and its own claims that stand. Whatever is under such a number is there for ever, so what is
carried is true however late the file that carries it arrives, and whatever becomes of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from crdtcat.limits import CARRIED_BYTES_MAX, CARRIED_CLAIMS_MAX
from crdtcat.support.object_bytes import ObjectBytes


@dataclass
class RecentClaims:
    """Version files of the newest claims that a handle knows.

    Attributes:
        frames: by number; at most `CARRIED_CLAIMS_MAX`, none larger than what may be carried.
        own: the number of its own last one.
    """

    frames: dict[int, bytes] = field(default_factory=dict)
    own: int = 0

    @property
    def crowded(self) -> bool:
        """Whether others came since its own last claim."""
        return max(self.frames.copy(), default=0) > self.own

    def add(self, number: int, frame: ObjectBytes) -> None:
        """Keep the version file of a claim, if it is among the newest."""
        if len(frame) <= CARRIED_BYTES_MAX:
            self.frames.setdefault(number, bytes(frame))
        for old in sorted(self.frames.copy())[:-CARRIED_CLAIMS_MAX]:
            self.frames.pop(old, None)

    def made(self, number: int, frame: ObjectBytes) -> None:
        """Keep one's own, which stands."""
        self.add(number, frame)
        self.own = max(self.own, number)

    def below(self, number: int) -> Iterator[bytes]:
        """A claim's version file and those before it, as far as they are known, the highest first."""
        while (frame := self.frames.get(number)) is not None:
            yield frame
            number -= 1
