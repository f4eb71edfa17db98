"""Column bounds per chunk, kept as they were loaded until a filter asks for them.

A part is the statistics of one bundle, or of a run of version files, with chunk numbers of its own. Joining
logs renumbers chunks; a part is not rewritten for that, it only gets a new map from its own numbers to the
log's. Only the columns a filter names are ever decoded.

Statistics of one column may come in several domains (the column was widened from int to float, say); each
is kept apart, as `(column name in the chunk, domain)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.errors import Corrupt
from crdtcat.format.sections import Array, Column, blobs

DOMAINS: Final = {"i": "int", "f": "float", "b": "bytes", "-": None}
GONE: Final = np.int64(-1)


class Bounds(NamedTuple):
    """One column's statistics in one domain: parallel arrays, one row per chunk that has them.

    `low` and `high` are numpy arrays, or Arrow binaries in the bytes domain; `known` tells where both are
    set; `nulls` counts nulls. In the domain "-" only `nulls` counts.
    """

    chunk: Array
    low: Column
    high: Column
    known: Array
    nulls: Array


@dataclass(frozen=True, eq=False)
class Part:
    """Statistics with chunk numbers of their own, and where those chunks are in the log now (-1: gone);
    `source` is the file or folder they came from."""

    columns: tuple[tuple[str, str], ...]
    load: Callable[[str, str], Bounds]
    position: Array
    source: str

    def loaded(self, name: str, domain: str) -> Bounds:
        """One column's statistics, checked. Raises `Corrupt`, naming the file or folder they came from."""
        try:
            bounds = self.load(name, domain)
            if any(len(column) != len(bounds.chunk) for column in bounds):
                raise ValueError("columns of different lengths")
            if len(bounds.chunk) and not 0 <= int(bounds.chunk.min()) <= int(bounds.chunk.max()) < len(
                self.position
            ):
                raise ValueError("a chunk that is not there")
            if domain != "-" and isinstance(bounds.low, np.ndarray) == (domain == "b"):
                raise ValueError("bounds of another domain")
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException) as error:
            raise Corrupt(self.source, f"malformed statistics of column {name!r}: {error}") from error
        return bounds


@dataclass(frozen=True, eq=False)
class Statistics:
    """All statistics of a log."""

    parts: tuple[Part, ...] = ()

    def moved(self, position: Array) -> Statistics:
        """The same, after chunk `c` of the log became chunk `position[c]` (-1: gone)."""
        parts = []
        for part in self.parts:
            moved = np.where(part.position >= 0, position[part.position], GONE)
            if (moved >= 0).any():
                parts.append(replace(part, position=moved))
        return Statistics(tuple(parts))

    def plus(self, other: Statistics) -> Statistics:
        """Both together; the caller has already given `other` its chunk numbers in the common log."""
        return Statistics(self.parts + other.parts)

    def columns(self) -> set[tuple[str, str]]:
        """Every (column, domain) there is."""
        return {column for part in self.parts for column in part.columns}

    def bounds(self, name: str, domain: str) -> Bounds | None:
        """The statistics of one column in one domain, numbered as the log is. O(chunks with statistics)."""
        found = []
        for part in self.parts:
            if (name, domain) not in part.columns:
                continue
            loaded = part.loaded(name, domain)
            at = part.position[loaded.chunk]
            found.append(_take(loaded._replace(chunk=at), np.flatnonzero(at >= 0)))
        return _concat(found) if found else None


def from_lists(
    columns: Mapping[tuple[str, str], tuple[list[int], list[Any], list[Any], list[int]]],
    chunks: int,
    source: str,
) -> Statistics:
    """Statistics gathered while version files of the folder `source` were read: lists of chunk, low, high,
    nulls per column."""
    if not columns:
        return Statistics()

    def load(name: str, domain: str) -> Bounds:
        chunk, low, high, nulls = columns[name, domain]
        known = np.fromiter(
            (a is not None and b is not None for a, b in zip(low, high, strict=True)), bool, len(low)
        )
        return Bounds(
            np.asarray(chunk, np.int64),
            _values(low, domain),
            _values(high, domain),
            known,
            np.asarray(nulls, np.int64),
        )

    return Statistics((Part(tuple(sorted(columns)), load, np.arange(chunks, dtype=np.int64), source),))


def from_sections(
    columns: Mapping[str, Column], listed: list[tuple[str, str]], chunks: int, source: str
) -> Statistics:
    """Statistics as the bundle `source` keeps them; see `to_sections`."""
    if not listed:
        return Statistics()
    places = {column: index for index, column in enumerate(listed)}

    def load(name: str, domain: str) -> Bounds:
        prefix = f"stat{places[name, domain]}"
        chunk: Any = columns[f"{prefix}.chunk"]
        nulls: Any = columns[f"{prefix}.nulls"]
        if domain == "-":
            nothing = np.zeros(len(chunk), np.int64)
            return Bounds(chunk.astype(np.int64), nothing, nothing, np.zeros(len(chunk), bool), nulls)
        known: Any = columns[f"{prefix}.known"]
        return Bounds(
            chunk.astype(np.int64), columns[f"{prefix}.low"], columns[f"{prefix}.high"], known != 0, nulls
        )

    return Statistics((Part(tuple(listed), load, np.arange(chunks, dtype=np.int64), source),))


def to_sections(statistics: Statistics) -> tuple[list[tuple[str, str]], dict[str, Column]]:
    """Arrays for a bundle: `stat<n>.chunk`, `.low`, `.high`, `.known`, `.nulls` for the n-th column."""
    listed: list[tuple[str, str]] = []
    columns: dict[str, Column] = {}
    for name, domain in sorted(statistics.columns()):
        bounds = statistics.bounds(name, domain)
        if bounds is None or not len(bounds.chunk):  # only versions that are not in this log had any
            continue
        index = len(listed)
        listed.append((name, domain))
        bounds = _take(bounds, np.argsort(bounds.chunk, kind="stable"))
        columns[f"stat{index}.chunk"] = bounds.chunk.astype("<u4")
        columns[f"stat{index}.nulls"] = bounds.nulls.astype("<i8")
        if domain != "-":
            columns[f"stat{index}.known"] = bounds.known.astype("<u1")
            columns[f"stat{index}.low"] = bounds.low
            columns[f"stat{index}.high"] = bounds.high
    return listed, columns


def _values(values: list[Any], domain: str) -> Column:
    if domain == "b":
        return blobs([b"" if value is None else value for value in values])
    kind = np.float64 if domain == "f" else np.int64
    return np.fromiter((0 if value is None else value for value in values), kind, len(values))


def _take(bounds: Bounds, index: Array) -> Bounds:
    return Bounds(
        *(
            column[index] if isinstance(column, np.ndarray) else column.take(pa.array(index))
            for column in bounds
        )
    )


def _concat(parts: list[Bounds]) -> Bounds:
    if len(parts) == 1:
        return parts[0]
    return Bounds(
        *(
            np.concatenate(columns) if isinstance(columns[0], np.ndarray) else pa.concat_arrays(columns)
            for columns in zip(*parts, strict=True)
        )
    )
