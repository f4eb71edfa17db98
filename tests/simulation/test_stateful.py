"""A stateful machine: several handles on one table, every verb, upkeep without grace, against plain rows."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import fsspec
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crdtcat import Catalog
from crdtcat.errors import NotFound
from crdtcat.table import Table
from crdtcat.testing.invariants import head_value

handles = st.integers(0, 2)
names = st.sampled_from(("a", "b", "c", "d"))


@dataclass(frozen=True)
class Expected:
    """The table as it should be: columns by name (their identity and type), rows by identity."""

    columns: dict[str, tuple[int, pa.DataType]]
    rows: tuple[dict[int, int], ...] = ()
    properties: dict[str, int] = field(default_factory=dict)

    def shown(self) -> Counter[Any]:
        return Counter(
            tuple(sorted((name, row.get(identity)) for name, (identity, _) in self.columns.items()))
            for row in self.rows
        )


def shown(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(sorted(row.items())) for row in table.to_pylist())


class CatalogMachine(RuleBasedStateMachine):
    """Verbs one after the other, by any handle; what is remembered must read the same for ever."""

    runs = 0

    def __init__(self) -> None:
        super().__init__()
        CatalogMachine.runs += 1
        self.url = f"memory://machine-{CatalogMachine.runs}"
        options: dict[str, Any] = {"grace_seconds": 0, "bundle_every": 2, "chunk_rows": 2}
        self.catalogs = [
            Catalog(self.url, upkeep=False, **options),
            Catalog(self.url, upkeep="synchronous", inline_bytes=0, **options),
            Catalog(self.url, upkeep="synchronous", **options),
        ]
        self.identity = 0
        self.value = 0
        self.remembered: list[tuple[str, list[dict[str, Any]], Expected]] = []
        self.tags: dict[str, Expected] = {}

    def teardown(self) -> None:
        filesystem = fsspec.filesystem("memory")
        root = "/" + self.url.removeprefix("memory://")
        if filesystem.exists(root):
            filesystem.rm(root, recursive=True)

    def table(self, handle: int) -> Table:
        """A handle that knows the newest columns; one of a dropped table is replaced."""
        table = self.catalogs[handle].table("t")
        try:
            assert table.schema is not None
        except NotFound:
            table = self.catalogs[handle].table("t")
            assert table.schema is not None
        return table

    def fresh(self) -> int:
        self.identity += 1
        return self.identity

    @initialize(declared=st.booleans())
    def create(self, declared: bool) -> None:
        schema = pa.schema([("id", pa.int64()), ("a", pa.int32())])
        columns = {item.name: (self.fresh(), item.type) for item in schema}
        self.catalogs[0].create_table("t", schema if declared else None)
        self.expected = Expected(columns)
        if not declared:
            self.write(0, 1, overwrite=False)

    def write(self, handle: int, count: int, *, overwrite: bool, key: str | None = None) -> None:
        rows = []
        for _ in range(count):
            self.value += 1
            rows.append({identity: self.value for identity, _ in self.expected.columns.values()})
        arrays = {
            name: pa.array([row[identity] for row in rows], kind)
            for name, (identity, kind) in self.expected.columns.items()
        }
        table = self.table(handle)
        data = pa.table(arrays)
        if overwrite:
            table.overwrite(data)
            self.expected = replace(self.expected, rows=tuple(rows))
        else:
            for _ in range(1 if key is None else 2):  # a task that is run twice counts once
                table.append(data, key=key)
            self.expected = replace(self.expected, rows=(*self.expected.rows, *rows))

    @rule(handle=handles, count=st.integers(0, 5), keyed=st.booleans())
    def append(self, handle: int, count: int, keyed: bool) -> None:
        self.write(handle, count, overwrite=False, key=f"{self.value}" if keyed and count else None)

    @rule(handle=handles, count=st.integers(0, 3))
    def overwrite(self, handle: int, count: int) -> None:
        self.write(handle, count, overwrite=True)

    @rule(handle=handles, name=names)
    def add_column(self, handle: int, name: str) -> None:
        if name not in self.expected.columns:
            self.table(handle).add_column(name, pa.int32())
            columns = {**self.expected.columns, name: (self.fresh(), pa.int32())}
            self.expected = replace(self.expected, columns=columns)

    @rule(handle=handles, name=names)
    def drop_column(self, handle: int, name: str) -> None:
        if name in self.expected.columns:
            self.table(handle).drop_column(name)
            left = {other: column for other, column in self.expected.columns.items() if other != name}
            self.expected = replace(self.expected, columns=left)

    @rule(handle=handles, name=names, to=names)
    def rename_column(self, handle: int, name: str, to: str) -> None:
        if name in self.expected.columns and to not in self.expected.columns:
            self.table(handle).rename_column(name, to)
            renamed = {to if old == name else old: column for old, column in self.expected.columns.items()}
            self.expected = replace(self.expected, columns=renamed)

    @rule(handle=handles, name=names)
    def widen_column(self, handle: int, name: str) -> None:
        if name in self.expected.columns and self.expected.columns[name][1] == pa.int32():
            self.table(handle).widen_column(name, pa.int64())
            columns = {**self.expected.columns, name: (self.expected.columns[name][0], pa.int64())}
            self.expected = replace(self.expected, columns=columns)

    @rule(handle=handles, name=names, value=st.none() | st.integers(0, 9))
    def set_property(self, handle: int, name: str, value: int | None) -> None:
        self.table(handle).set_properties(**{name: value})
        properties: dict[str, Any] = {**self.expected.properties, name: value}
        left = {other: number for other, number in properties.items() if number is not None}
        self.expected = replace(self.expected, properties=left)

    @rule(handle=handles)
    def checkpoint(self, handle: int) -> None:
        self.table(handle).checkpoint()

    @rule(handle=handles)
    def collect(self, handle: int) -> None:
        self.table(handle).collect()

    @rule(handle=handles)
    def remember(self, handle: int) -> None:
        scan = self.table(handle).scan()
        rows = scan.to_table().to_pylist()
        assert Counter(tuple(sorted(row.items())) for row in rows) == self.expected.shown()
        self.remembered.append((str(scan.snapshot), rows, self.expected))

    @rule(handle=handles, name=names)
    def tag(self, handle: int, name: str) -> None:
        self.table(handle).tag(name, replace=True)
        self.tags[name] = self.expected

    @precondition(lambda self: self.remembered)
    @rule(handle=handles, data=st.data())
    def travel(self, handle: int, data: st.DataObject) -> None:
        token, rows, _ = data.draw(st.sampled_from(self.remembered))
        assert self.table(handle).read(at=token).to_pylist() == rows

    @precondition(lambda self: self.tags)
    @rule(handle=handles, data=st.data())
    def travel_to_tag(self, handle: int, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.tags)))
        table = self.table(handle)
        assert set(table.tags()) == set(self.tags)
        assert shown(table.read(at=name)) == self.tags[name].shown()

    @precondition(lambda self: self.remembered)
    @rule(handle=handles, data=st.data())
    def restore(self, handle: int, data: st.DataObject) -> None:
        token, rows, then = data.draw(st.sampled_from(self.remembered))
        table = self.table(handle)
        table.restore(token)
        self.expected = replace(then, properties=self.expected.properties)
        assert table.read().to_pylist() == rows

    @rule(dropper=handles, creator=handles)
    def drop_and_create(self, dropper: int, creator: int) -> None:
        self.catalogs[dropper].drop_table("t")
        schema = pa.schema([("id", pa.int64()), ("a", pa.int32())])
        self.catalogs[creator].create_table("t", schema)
        self.expected = Expected({item.name: (self.fresh(), item.type) for item in schema})
        self.remembered.clear()
        self.tags.clear()

    @invariant()
    def one_handle_reads_what_is_expected(self) -> None:
        if not hasattr(self, "expected"):
            return
        table = self.table(self.value % 3)
        found = table.read()
        assert shown(found) == self.expected.shown()
        kinds = {item.name: item.type for item in found.schema}
        assert kinds == {name: kind for name, (_, kind) in self.expected.columns.items()}
        assert table.properties == self.expected.properties
        # A restore that takes a widening back leaves versions behind whose rows, all removed, would not fit.
        assert {item.kind for item in table.conflicts()} <= {"misfit"}

    @rule()
    def all_handles_agree(self) -> None:
        heads = [head_value(self.table(handle)._session.head()) for handle in range(3)]
        assert heads[0] == heads[1] == heads[2]


TestCatalogMachine = CatalogMachine.TestCase
EXAMPLES = 400 if os.environ.get("CRDTCAT_SLOW") == "full" else 20
TestCatalogMachine.settings = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None)
