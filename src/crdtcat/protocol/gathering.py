"""Gathering: the files under consecutive numbers, with as few looks as what they carry allows.

The newest is looked at first. Then every so manieth below it, as if each carried as many; then whatever is
missing, all together: three rounds at most, two where the newest carries nothing. A value; the lowest number
is place 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crdtcat.support.object_bytes import ObjectBytes


@dataclass(frozen=True, slots=True)
class Gathering:
    """Files that are being gathered. Begin with `Gathering.of`.

    Attributes:
        files: what was found, by place; `None`: nothing yet.
        stride: of what is missing, from the highest down, every so manieth is looked at next; 0: nothing was
            looked at yet, and the newest is.
    """

    files: tuple[ObjectBytes | None, ...]
    stride: int = 0

    @classmethod
    def of(cls, count: int) -> Gathering:
        """So many files, none of which is here."""
        return cls((None,) * count)

    @property
    def asked(self) -> tuple[int, ...]:
        """Places to be looked at next, together, the highest first; none: all are here."""
        missing = [place for place, file in enumerate(self.files) if file is None]
        return tuple(missing[:: -self.stride] if self.stride else missing[-1:])

    @property
    def found(self) -> tuple[ObjectBytes, ...]:
        """What is here, from the lowest number on without a gap."""
        gap = next((place for place, file in enumerate(self.files) if file is None), len(self.files))
        return tuple(file for file in self.files[:gap] if file is not None)

    def take(self, answers: Sequence[Sequence[ObjectBytes]]) -> Gathering:
        """For each place asked for, its file and those that it carries, downwards; none: nothing is there, so
        whatever is above is not known to be next, and left out."""
        files, stride = list(self.files), 1
        for place, frames in zip(self.asked, answers, strict=True):
            if not frames:
                del files[place:]
                continue
            for at, frame in zip(reversed(range(place + 1)), frames, strict=False):
                if files[at] is None:
                    files[at] = frame
            stride = 1 if self.stride else len(frames)
        return Gathering(tuple(files), stride)
