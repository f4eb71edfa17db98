"""Which transactions below a time count: what a file that closes them says.

A frame of kind "T" around big-endian numbers of 8 bytes: the file's own number, the time, then the writers of
all transactions below it whose files were there, rising. One writer makes one transaction, so it names it.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crdtcat.errors import Corrupt
from crdtcat.format.frame import seal, unseal
from crdtcat.support.object_bytes import ObjectBytes

_BYTES = 8


@dataclass(frozen=True, slots=True)
class Closed:
    """What was settled.

    Attributes:
        number: of the file; 0: nothing was ever settled.
        until: the time.
        admitted: writers of the transactions below it that count. The file of any other below it counts for
            nothing: what is in bundles is all there is of it.
    """

    number: int = 0
    until: int = 0
    admitted: frozenset[int] = frozenset()

    def passed_by(self, hlc: int, writer: int) -> bool:
        """Whether the file of a transaction, by its time and writer, counts for nothing."""
        return hlc < self.until and writer not in self.admitted

    def encode(self) -> bytes:
        """The file's bytes."""
        numbers = (self.number, self.until, *sorted(self.admitted))
        return seal(b"T", b"".join(number.to_bytes(_BYTES, "big") for number in numbers))


NOTHING_CLOSED: Final = Closed()


def decode_closed(data: ObjectBytes, name: str, number: int) -> Closed:
    """What the file of a number says. Raises `Corrupt`, `UnsupportedFormat`."""
    body = bytes(unseal(b"T", data, name))
    numbers = [int.from_bytes(body[at : at + _BYTES], "big") for at in range(0, len(body), _BYTES)]
    if len(body) % _BYTES or len(numbers) < 2:
        raise Corrupt(name, "not a list of transactions: it has a number, a time, and writers, 8 bytes each")
    own, until, *admitted = numbers
    if own != number or admitted != sorted(set(admitted)):
        raise Corrupt(name, f"holds number {own}: the file was renamed, or its name damaged")
    return Closed(number, until, frozenset(admitted))
