"""Reading several claims at once: the newest first, and of the others only what it does not carry.

What a step asks for is answered as if every file had been fetched; that some came with others is known here
and nowhere else. It is a round trip more where they do not, so it is for handles that have read before and
find several new claims: one that reads for the first time is far from knowing whether writers meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from crdtcat.cas.cold_claims import Chain
from crdtcat.drive import Unclear, answers
from crdtcat.format.carried import own_frame, proven_frames
from crdtcat.log import State
from crdtcat.protocol import Reader, claim_number, is_claim
from crdtcat.protocol.gathering import Gathering
from crdtcat.protocol.requests import Answer, Get, Got, Request
from crdtcat.store import Store
from crdtcat.support.object_bytes import ObjectBytes

GATHERED_MIN: Final = 3  # new claims for which the newest is asked for first: one round trip more


class ClaimReads:
    """Answers the requests of a step; what it has read of claims.

    Args:
        chain: what the handle knows of claims.
        cold: whether the handle reads for the first time.
    """

    def __init__(self, chain: Chain, *, cold: bool) -> None:
        self._chain, self._cold = chain, cold
        self._read: dict[int, ObjectBytes] = {}

    def answers(
        self,
        store: Store,
        wants: Sequence[Request],
        unclear: Unclear,
        at_hand: Mapping[str, ObjectBytes] = MappingProxyType({}),
    ) -> Sequence[Answer]:
        """As `crdtcat.drive.answers`."""
        names = [want.name for want in wants if isinstance(want, Get) and is_claim(want.name)]
        new = [name for name in names if name not in at_hand]
        if not new:
            return answers(store, wants, unclear, at_hand)
        numbers = [claim_number(name) for name in new]
        follow = numbers == list(range(numbers[0], numbers[0] + len(new)))
        if not self._cold and follow and len(new) >= GATHERED_MIN:
            at_hand = {**at_hand, **self._gathered(store, new)}
        found = answers(store, wants, unclear, at_hand)
        for want, answer in zip(wants, found, strict=True):
            if isinstance(want, Get) and isinstance(answer, Got) and answer.data and want.name in new:
                self._read[claim_number(want.name)] = own_frame(answer.data, want.name)
        return found

    def kept(self, reader: Reader[State]) -> Reader[State]:
        """The same reader; what it has read may be carried by the next claim of the handle.

        Not the first time, when it says nothing of who is about, nor after several passes: some files may
        have been read so late that their names had been used again.
        """
        if not self._cold and reader.passes == 1:
            self._chain.read(self._read)
        return reader

    def _gathered(self, store: Store, names: Sequence[str]) -> dict[str, ObjectBytes]:
        """What is found of claims under consecutive numbers, by name; less, where one of them is gone."""
        step = Gathering.of(len(names))
        while asked := step.asked:
            got = zip(asked, store.get_many([(names[place], 0, None) for place in asked]), strict=True)
            step = step.take(
                [() if data is None else proven_frames(data, names[place]) for place, data in got]
            )
        return dict(zip(names, step.found, strict=False))
