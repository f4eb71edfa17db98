"""Random histories of keyed tables: real version files by several authors, each beside its model.

Every step makes bytes as a writer would, and the same version for the reference model (`tests.model`). All of
it follows from a seed. Two shapes of table: key `k`, and key `(p, k)` partitioned by `p`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.inline import encode_inline
from crdtcat.chunks.keys import KEY_BOUNDS, key_bounds
from crdtcat.chunks.partitions import encode_values
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.statistics import statistics
from crdtcat.clock import VectorClock
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.schema_code import StoredField, encode_schema
from crdtcat.format.settings import ColumnSetting, Settings
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.head import Head
from crdtcat.head.keyed import KeyedRows
from crdtcat.log import State
from crdtcat.maintenance.compact_keyed import KeyedCompactor
from crdtcat.maintenance.compact_overlaps import folded_beside
from crdtcat.maintenance.compact_plan import Simple
from crdtcat.options import Options
from crdtcat.protocol import version_name
from crdtcat.scan import Scan
from crdtcat.scan.merge_plan import Group, plan_merge
from crdtcat.session import Session
from crdtcat.store import open_store
from crdtcat.verbs.rows import removals
from crdtcat.writing.version_keys import seen_clock as clock_since
from tests.model import versions as model

FOLDER: Final = "tables/t/main/"
TYPES: Final = {"p": "string", "k": "int64", "a": "int64", "b": "string"}
ARROW: Final = {"string": pa.string(), "int64": pa.int64()}

Record = Mapping[str, Any]
Rows = Sequence[Record]


def settings_for(key: tuple[str, ...]) -> Settings:
    """A table with a key."""
    names = [*key, "a", "b"]
    columns = tuple(ColumnSetting(name=name, type=TYPES[name], nullable=name not in key) for name in names)
    return Settings(columns=columns, key=key, partition_by=("p",) if "p" in key else ())


def model_settings(settings: Settings) -> model.Settings:
    """The same for the model."""
    columns = tuple((column.name, column.type) for column in settings.columns or ())
    return model.Settings(columns=columns, key=settings.key)


@dataclass(frozen=True)
class Made:
    """One version: its file, what it is to the model, and the rows of its chunks."""

    name: str
    data: bytes
    version: model.Version
    chunks: tuple[Rows, ...]
    is_upkeep: bool = False


@dataclass
class Author:
    """One writer, with what it knows."""

    number: int
    settings: Settings
    known: dict[str, Made] = field(default_factory=dict)
    time: int = 0
    seq: int = 0

    @property
    def head(self) -> Head:
        return head_of(list(self.known.values()), self.settings)

    def learn(self, other: Author) -> None:
        self.known.update(other.known)

    def commit(
        self,
        operation: str,
        chunks: Sequence[tuple[int, Rows]] = (),
        *,
        ops: Ops | None = None,
        blind: bool = False,
        time: int = 0,
        idempotency_key: str | None = None,
        overwrites: model.Scope | None = None,
        drops: frozenset[model.Instance] = frozenset(),
    ) -> Made:
        """Make a version file, its model, and learn it. `time` is how far ahead of the last it is."""
        head = self.head
        seen = 0 if blind else max((made.version.id.hlc for made in self.known.values()), default=0)
        self.time, self.seq = max(self.time, seen) + 1 + time, self.seq + 1
        body = {
            **({} if blind else clock_since(head)),
            **_chunks(chunks, self.settings),
            "h": self.time,
            "w": self.number,
            "s": self.seq,
            "l": FOLDER,
            "o": OPERATIONS.index(operation),
            "k": idempotency_key,
            "x": (ops or Ops()).encode(),
        }
        id, data = encode_version(body)
        own = VectorClock({self.number: self.seq})
        added = [rows for kind, rows in chunks if kind == ROWS]
        gone = {self.key_of(row) for kind, rows in chunks if kind == GONE for row in rows}
        named = list(dict.fromkeys(name for rows in added for row in rows for name in row))
        version = model.Version(
            id,
            own if blind else head.clock.merge(own),
            adds=tuple(model.Chunk(model.rows_of(rows)) for rows in added),
            key_deletes=frozenset(gone),
            columns=tuple((model.column(name), TYPES[name]) for name in named),
            overwrite=overwrites,
            drops=drops,
            keys=frozenset() if idempotency_key is None else frozenset({idempotency_key}),
        )
        made = Made(version_name(FOLDER, id), data, version, tuple(rows for _, rows in chunks))
        self.known[made.name] = made
        return made

    def compact(self, choose: random.Random) -> Made | None:
        """Compact some entries, as if nothing else were there: by a writer of its own, as upkeep does."""
        head = self.head
        group = _some_entries(choose, head)
        if group is None:
            return None
        return self._compacted(head, group, choose.choice([1, 2, 100]), choose.getrandbits(60))

    def compact_these(self, *which: Made) -> Made:
        """Compact what some versions brought, which lies in one partition."""
        head = self.head
        assert head.keyed is not None
        ids = [one.version.id for one in which]
        found = [at for at, chunk in enumerate(head.chunks) if chunk.version in ids]
        writer = 1000 * self.number + len(self.known)
        return self._compacted(head, _group_of(head, head.keyed, found), 100, writer)

    def _compacted(self, head: Head, group: Group, target: int, writer: int) -> Made:
        caught = _Caught()
        assert head.keyed is not None
        KeyedCompactor(cast("Session", caught), head, head.keyed, target).write(group)
        self.time = max(self.time, *(made.version.id.hlc for made in self.known.values())) + 1
        body = {**clock_since(head), **caught.body, "h": self.time, "w": writer, "s": 1, "l": FOLDER}
        id, data = encode_version({**body, "o": OPERATIONS.index("compact")})
        version = model.Version(id, VectorClock({writer: 1}))
        made = Made(version_name(FOLDER, id), data, version, (), is_upkeep=True)
        self.known[made.name] = made
        return made

    def key_of(self, row: Record) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.settings.key)


class _Caught:
    """What a compaction asks of a session: sizes, where rows are (they are inlined), and to be published."""

    def __init__(self) -> None:
        self.options = Options(inline_bytes=2**20)
        self.store = open_store("memory://keyed-histories")
        self.body: dict[str, Any] = {}

    def upkeep_writer(self) -> None:
        return None

    def commit(self, operation: str, *, body: dict[str, Any], **_: Any) -> None:
        assert operation == "compact"
        self.body = body


def _some_entries(choose: random.Random, head: Head) -> Group | None:
    """Some entries of one partition, and the deletes that a compaction of those would fold."""
    keyed = head.keyed
    simple = Simple(head)
    if keyed is None or not len(keyed.entries):
        return None
    partition = head.log.partition[keyed.entries]
    inside = [
        at
        for at in np.flatnonzero(partition == choose.choice(partition.tolist())).tolist()
        if simple.is_chunk(int(keyed.entries[at]))
    ]
    if not inside:
        return None
    return _group_of(head, keyed, choose.sample(inside, choose.randint(1, len(inside))))


def _group_of(head: Head, keyed: KeyedRows, chosen: Sequence[int]) -> Group:
    plan = plan_merge(head, keyed, np.array(sorted(chosen), np.int64))
    beside = {one.chunk: one for group in plan.groups for one in folded_beside(keyed, group.beside)}
    lows = (None,) * len(plan.chunks)
    return Group(tuple(plan.chunks.tolist()), lows, tuple(beside.values()), None, None)


def _chunks(chunks: Sequence[tuple[int, Rows]], settings: Settings) -> dict[str, Any]:
    """The version file's keys for chunks: inlined, each with a schema of its own."""
    if not chunks:
        return {}
    tables = [_table(rows, settings.key) for _, rows in chunks]
    names = sorted({name for table in tables for name in table.column_names})
    bounds: dict[str, list[Any]] = {}
    for name in names:
        found = [statistics(table[name]) if name in table.column_names else None for table in tables]
        sides = [[None if one is None else getattr(one, side) for one in found] for side in ("min", "max")]
        nulls = [
            table.num_rows if one is None else one.nulls for one, table in zip(found, tables, strict=True)
        ]
        bounds[name] = ["b" if TYPES[name] == "string" else "i", *sides, nulls]
    ranges = [key_bounds([table[name].combine_chunks() for name in settings.key]) for table in tables]
    bounds[KEY_BOUNDS] = ["b", [low for low, _ in ranges], [high for _, high in ranges], [0] * len(tables)]
    schemas = [encode_schema(_fields(table, settings.key)) for table in tables]
    distinct = list(dict.fromkeys(schemas))
    return {
        "f": distinct,
        "j": [distinct.index(schema) for schema in schemas],
        "b": [kind for kind, _ in chunks],
        "y": b"".join(hash_table(table)[0] for table in tables),
        "n": [table.num_rows for table in tables],
        "z": [table.nbytes for table in tables],
        "q": [encode_values((rows[0]["p"],)) for _, rows in chunks] if settings.partition_by else None,
        "i": [encode_inline(table) for table in tables],
        "e": bounds,
    }


def _table(rows: Rows, key: tuple[str, ...]) -> pa.Table:
    names = list(rows[0])
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in key))
    return pa.table({name: pa.array([row[name] for row in ordered], ARROW[TYPES[name]]) for name in names})


def _fields(table: pa.Table, key: tuple[str, ...]) -> tuple[StoredField, ...]:
    return tuple(
        StoredField(name, ColumnId(name), TYPES[name], nullable=name not in key)
        for name in table.column_names
    )


def state_of(made: Sequence[Made]) -> State:
    return State(FOLDER).joined([(one.name, one.data) for one in made])


def head_of(made: Sequence[Made], settings: Settings) -> Head:
    return Head("t", state_of(made).log, settings)


def scan_of(head: Head, columns: Sequence[str] | None = None, filter: Any = None) -> Scan:
    """A scan; all rows are inlined, so the store is never asked."""
    store = open_store("memory://keyed-histories")
    return Scan(head, store, columns=columns, filter=filter, verify=True, footers=FooterCache())


def history(seed: int, key: tuple[str, ...] = ("k",), steps: int = 12) -> list[Made]:
    """Versions in the order they were made."""
    choose = random.Random(seed)
    settings = settings_for(key)
    people = [Author(number, settings) for number in (1, 2, 3)]
    made: list[Made] = []
    for step in range(steps):
        author = choose.choice(people)
        if choose.random() < 0.5:
            author.learn(choose.choice(people))
        found = _act(choose, author, step)
        if found is not None:
            made.append(found)
    return made


def _act(choose: random.Random, author: Author, step: int) -> Made | None:
    verb = choose.choice(
        ["upsert"] * 5 + ["delete"] * 3 + ["overwrite"] * 2 + ["both", "drop"] + ["compact"] * 3
    )
    if verb == "compact":
        return author.compact(choose)
    blind, time = choose.random() < 0.5, choose.randrange(4)
    if verb == "upsert":
        if choose.random() < 0.2:
            return _retried(author, choose.randrange(2), blind=blind, time=time)
        return author.commit("upsert", _upserts(choose, author, step), blind=blind, time=time)
    if verb == "delete":
        return author.commit("delete", _gone(choose, author), blind=blind, time=time)
    if verb == "both":
        return author.commit("write", [*_gone(choose, author), *_upserts(choose, author, step)], time=time)
    if verb == "drop":
        ops = Ops(drops=(ColumnId("b"),))
        return author.commit("schema", ops=ops, time=time, drops=frozenset({model.column("b")}))
    return _overwrite(choose, author, step, time)


def _retried(author: Author, task: int, *, blind: bool, time: int) -> Made:
    """The same rows whoever tries."""
    again = random.Random(task)
    chunks = _upserts(again, author, 100 + task)
    return author.commit("upsert", chunks, blind=blind, time=time, idempotency_key=f"task {task}")


def causally_closed(made: Sequence[Made], some: Sequence[Made]) -> list[Made]:
    """Some versions, and everything that they and those had seen."""
    kept = [one for one in made if one in some and not one.is_upkeep]
    while True:
        seen = [one for one in made if one in kept or any(other.version.saw(one.version) for other in kept)]
        if len(seen) == len(kept):
            return [*kept, *(one for one in some if one.is_upkeep)]
        kept = seen


def _overwrite(choose: random.Random, author: Author, step: int, time: int) -> Made:
    head = author.head
    chunks, live = _upserts(choose, author, step)[:1], head.live
    if not author.settings.partition_by or choose.random() < 0.5:
        ops = Ops(is_overwrite=True, **removals(head, live))
        return author.commit("overwrite", chunks, ops=ops, time=time, overwrites=model.ALL)
    value = chunks[0][1][0]["p"]
    packed = encode_values((value,))
    inside = [at for at in live.tolist() if head.log.partitions[int(head.log.partition[at])] == packed]
    doomed = live[[at in inside for at in live.tolist()]]
    ops = Ops(is_overwrite=True, scope=frozenset({packed}), **removals(head, doomed, frozenset({packed})))
    return author.commit("overwrite", chunks, ops=ops, time=time, overwrites=frozenset({value}))


def _upserts(choose: random.Random, author: Author, step: int) -> list[tuple[int, Rows]]:
    """One or two chunks, which may hold the same keys: the later wins."""
    found: list[tuple[int, Rows]] = []
    for number in range(choose.choice([1, 1, 2])):
        names = choose.choice([("a", "b"), ("a",), ("b",), ()])
        value = step * 10 + number
        rows = [
            {**one, **{name: _value(choose, name, value) for name in names}} for one in _keys(choose, author)
        ]
        found.append((ROWS, rows))
    return found


def _value(choose: random.Random, name: str, value: int) -> Any:
    if choose.random() < 0.15:
        return None
    return value if TYPES[name] == "int64" else f"t{value}"


def _gone(choose: random.Random, author: Author) -> list[tuple[int, Rows]]:
    return [(GONE, _keys(choose, author))]


def _keys(choose: random.Random, author: Author) -> list[dict[str, Any]]:
    numbers = choose.sample(range(8), choose.randint(1, 4))
    if choose.random() < 0.5:  # close together, so that some chunks overlap nothing
        first = choose.randrange(6)
        numbers = list(range(first, first + 2))
    if "p" not in author.settings.key:
        return [{"k": number} for number in numbers]
    part = choose.choice("xy")
    return [{"p": part, "k": number} for number in numbers]
