"""Catalogs for tests: fresh ones in memory, second handles on the same store, what is in them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import CrdtcatError


def lake(**options: Any) -> Catalog:
    """A fresh catalog, in memory. No upkeep unless asked for: tests count what is there."""
    return Catalog(f"memory://lake-{secrets.token_hex(8)}", **{"upkeep": False, **options})


def another(catalog: Catalog, **options: Any) -> Catalog:
    """A second catalog over the same store, as another process would have: it knows nothing yet.

    They share a clock, as machines with good clocks do whose commits are more than a millisecond apart: what
    is committed later has the greater id.
    """
    other = Catalog(catalog.store, **{"upkeep": False, **options})
    other._clock = catalog._clock
    return other


def objects(catalog: Catalog) -> dict[str, int]:
    """Every object in the store, and its size."""
    found: dict[str, int] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        found.update((item.name, item.size) for item in catalog.store.list(folder))
        folders += [f"{folder}{name}/" for name in catalog.store.folders(folder)]
    return found


@contextmanager
def refused(catalog: Catalog, kind: type[CrdtcatError], *parts: str) -> Iterator[None]:
    """Expect a typed error whose text has every part, and nothing written."""
    before = objects(catalog)
    with pytest.raises(kind) as caught:
        yield
    for part in parts:
        assert part in str(caught.value)
    assert objects(catalog) == before


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts, in order."""
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def append_noise(table: Table, mebibytes: int) -> None:
    """So much that no encoder makes smaller, 4 MiB in a commit."""
    for number in range(mebibytes // 4):
        random = np.random.default_rng(number)
        count = 4 * 2**20 // 16
        table.append(pa.table({"a": random.integers(0, 2**60, count), "b": random.random(count)}))
