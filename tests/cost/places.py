"""Where cost is measured: local disk, memory, and a real S3 server, each with counts of what was asked."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.store.requests import RequestCounts

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("x", pa.float64())])


@dataclass(frozen=True)
class Place:
    """A root nobody else uses, and how to open it."""

    url: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    page_objects: int = 1_000_000

    def open(self, **options: Any) -> Catalog:
        return Catalog(self.url, self.storage_options, **{"upkeep": False, **options})

    def pages(self, files: int) -> int:
        """LIST pages it takes to list so many files."""
        return max(1, -(-files // self.page_objects))


class Cost:
    """What was asked of a catalog's store inside a `measured` block."""

    def __init__(self) -> None:
        self.counts = RequestCounts()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.counts, name)

    @property
    def requests(self) -> dict[str, int]:
        """Requests by kind, those that happened only."""
        kinds = ("put", "get", "list", "delete", "head")
        return {kind: getattr(self.counts, kind) for kind in kinds if getattr(self.counts, kind)}


@contextmanager
def measured(catalog: Catalog) -> Iterator[Cost]:
    cost = Cost()
    before = catalog.store.requests.snapshot()
    yield cost
    cost.counts = catalog.store.requests.since(before)


def asked(catalog: Catalog, call: Callable[[], Any]) -> dict[str, int]:
    """Requests by kind that a call makes."""
    with measured(catalog) as cost:
        call()
    return cost.requests


def few(n: int = 3, start: int = 0) -> pa.Table:
    """Rows that are inlined."""
    return rows(start, start + n)


def many(n: int = 20_000, start: int = 0) -> pa.Table:
    """Rows that need a segment: more than 64 KiB encoded."""
    return rows(start, start + n)


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "n": numbers,
            "text": [f"{number * 2654435761 % 2**32:08x}" for number in numbers],
            "x": [number * 0.7310585786 for number in numbers],
        },
        schema=SCHEMA,
    )


def fresh(name: str) -> str:
    return f"{name}-{secrets.token_hex(6)}"
