"""A clock that tests move by hand, in the place of the one that counts suspension."""

from __future__ import annotations


class HandClock:
    """`crdtcat.drive.elapsed_clock`, moved by hand: the fixture `clock` puts one in its place."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
