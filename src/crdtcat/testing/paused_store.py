"""A process that has read what it needs, and is suspended before it writes.

Whatever is done through such a store reads what was there when the store was made, and writes to what is
there now; from its first write on it sees the present, as one does who looks whether it was too late. So a
verb whose reads lie long before its commit is run in one go, and every order of such reads and commits can be
tried without threads.
"""

from __future__ import annotations

from crdtcat.store.requests import Kind
from crdtcat.store.values import Data, Names
from crdtcat.testing.simulated_store import Objects, SimulatedStore, Trouble, VirtualClock


class PausedStore(SimulatedStore):
    """One process's way to shared objects, which it has read already.

    Args:
        objects: shared by all stores of a simulation.
        clock: the store's time.
        past: what it has read; by default what is there now.
    """

    def __init__(self, objects: Objects, clock: VirtualClock, past: Objects | None = None) -> None:
        super().__init__(dict(objects) if past is None else past, clock, _no_trouble, page_limit=1000)
        self._present = objects

    def _put(self, name: str, data: Data) -> None:
        self.objects = self._present
        super()._put(name, data)

    def _put_if_absent(self, name: str, data: Data) -> None:
        self.objects = self._present
        super()._put_if_absent(name, data)

    def _delete(self, names: Names) -> None:
        self.objects = self._present
        super()._delete(names)


def _no_trouble(_: Kind, __: str) -> Trouble | None:
    return None
