"""Version files made by hand: real bytes, real ids, real inlined rows, by authors who know what they choose.

`crdtcat.testing.strategies_log` draws histories of these; tests with a model keep what went into each version
beside its bytes. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.inline import encode_inline
from crdtcat.chunks.statistics import domain, statistics
from crdtcat.chunks.type_codes import encode_type
from crdtcat.clock import VectorClock, VersionId
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import Ops
from crdtcat.format.schema_code import StoredField, encode_schema
from crdtcat.format.settings import Settings
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.head import Head
from crdtcat.log import State
from crdtcat.protocol import version_name
from crdtcat.writing.version_keys import seen_clock as clock_since

FOLDER: Final = "tables/t/main/"
TYPES: Final = (pa.int32(), pa.int64(), pa.float64(), pa.string())


@dataclass(frozen=True)
class Chunk:
    """Rows as an author wrote them: values by column, in the chunk's own order."""

    fields: tuple[StoredField, ...]
    table: pa.Table
    partition: bytes | None
    hash: bytes
    kind: int = ROWS


@dataclass(frozen=True)
class Made:
    """One version file, and what went into it, for whoever keeps a model beside it.

    Attributes:
        id: its id.
        name: its file's name.
        data: its file's bytes.
        clock: what its author had seen, itself included.
        chunks: what it added.
        ops: what else it did; columns it added have the birth `SELF`.
        key: idempotency key.
    """

    id: VersionId
    name: str
    data: bytes
    clock: VectorClock
    chunks: tuple[Chunk, ...]
    ops: Ops
    key: str | None


@dataclass(frozen=True)
class History:
    """Versions in the order in which they were made, and the settings of their table."""

    versions: tuple[Made, ...]
    settings: Settings

    @property
    def files(self) -> list[tuple[str, bytes]]:
        """(name, bytes) of every version file."""
        return [(made.name, made.data) for made in self.versions]

    def state(self) -> State:
        """Everything, merged at once."""
        return State(FOLDER).joined(self.files)


@dataclass
class Author:
    """One writer that knows a state of its own."""

    number: int
    settings: Settings
    state: State = field(default_factory=lambda: State(FOLDER))
    hlc: int = 0
    seq: int = 0

    def head(self) -> Head:
        """What this author sees."""
        return Head("t", self.state.log, self.settings)

    def learn(self, other: Author) -> None:
        """Come to know everything another author knows."""
        files = [(made.name, made.data) for made in other.known.values() if made.name not in self.known]
        self.state = self.state.joined(files)
        self.known.update(other.known)

    def __post_init__(self) -> None:
        self.known: dict[str, Made] = {}

    def commit(
        self,
        operation: str,
        *,
        chunks: Sequence[Chunk] = (),
        ops: Ops | None = None,
        key: str | None = None,
        ahead: int = 0,
        blind: bool = False,
    ) -> Made:
        """Make a version file over what is known and learn it."""
        head, ops = self.head(), ops or Ops()
        seen = max((made.id.hlc for made in self.known.values()), default=0)
        self.hlc, self.seq = max(self.hlc, seen) + 1 + ahead, self.seq + 1
        body = {
            **({} if blind else clock_since(head)),
            **chunk_columns(chunks),
            "h": self.hlc,
            "w": self.number,
            "s": self.seq,
            "l": FOLDER,
            "o": OPERATIONS.index(operation),
            "k": key,
            "x": ops.encode(),
        }
        id, data = encode_version(body)
        clock = (VectorClock() if blind else head.clock).merge(VectorClock({self.number: self.seq}))
        made = Made(id, version_name(FOLDER, id), data, clock, tuple(chunks), ops, key)
        self.known[made.name] = made
        self.state = self.state.joined([(made.name, data)])
        return made


def chunk_of(fields: tuple[StoredField, ...], partition: bytes, start: int, rows: int) -> Chunk:
    """Rows that count from `start`, in every column alike."""
    numbers = range(start, start + rows)
    arrays = [
        pa.array([str(number) for number in numbers] if item.type == "string" else numbers, _type(item))
        for item in fields
    ]
    table = pa.Table.from_arrays(arrays, names=[item.name for item in fields])
    return Chunk(fields, table, partition, hash_table(table)[0])


def _type(item: StoredField) -> pa.DataType:
    return next(kind for kind in TYPES if encode_type(kind) == item.type)


def chunk_columns(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The version file's keys for chunks that are all inlined and share one schema."""
    if not chunks:
        return {}
    codes = {"int": "i", "float": "f", "bytes": "b", None: "-"}
    bounds: dict[str, list[Any]] = {}
    for name in chunks[0].table.column_names:
        found = [statistics(chunk.table[name]) for chunk in chunks]
        code = codes[domain(chunks[0].table[name].type)]
        bounds[name] = [code, *([getattr(one, part) for one in found] for part in ("min", "max", "nulls"))]
    return {
        "f": [encode_schema(chunks[0].fields)],
        "y": b"".join(chunk.hash for chunk in chunks),
        "n": [chunk.table.num_rows for chunk in chunks],
        "z": [chunk.table.nbytes for chunk in chunks],
        "b": [chunk.kind for chunk in chunks] if any(chunk.kind for chunk in chunks) else None,
        "q": [chunk.partition for chunk in chunks],
        "i": [encode_inline(chunk.table) for chunk in chunks],
        "e": bounds,
    }
