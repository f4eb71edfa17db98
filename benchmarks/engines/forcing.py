"""Whether files are forced to disk, for engines that do so: a switch of the benchmarks, of no library.

crdtcat has no setting that acknowledges what a power failure may take. Some peers never wait for the disk, so
on local disk a line without the waits stands beside the real one: it shows what waiting costs, and what is
left to compare.
"""

from __future__ import annotations

import os
from unittest import mock

from benchmarks.engines import UNFORCED


def _at_once(_: int) -> None:
    """In place of `os.fsync`."""


_unforced = mock.patch.object(os, "fsync", _at_once)
_off = False


def force(variant: str) -> None:
    """From now on this process forces files to disk, unless `variant` says otherwise."""
    global _off  # noqa: PLW0603 (a worker is asked for one variant after the other)
    if (variant == UNFORCED) != _off:
        _off = not _off
        if _off:
            _unforced.start()
        else:
            _unforced.stop()
