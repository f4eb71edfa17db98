"""A machine's handles, what each of them has seen, and how what it finds is held against the model.

`test_concurrent_machine` has the verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from crdtcat import Version
from crdtcat.errors import Expired
from crdtcat.table import Table
from crdtcat.testing.invariants import head_value
from tests.head.test_fold import check_conflicts
from tests.model.expiry import at
from tests.model.versions import State
from tests.model.versions import Version as Saying
from tests.simulation.said import SETTINGS, Seen
from tests.simulation.stale_handles import Handle, Lake

Place = tuple[str, str]
"""A table and a branch."""

SCHEMA: Final = pa.schema([("n", pa.int64()), ("p", pa.int32()), ("a", pa.int32()), ("b", pa.int32())])
TYPES: Final = {pa.int32(): "int32", pa.int64(): "int64"}
KEYS: Final = 4  # of the keyed table, so that they meet

handles = st.integers(0, 2)
tables = st.sampled_from(sorted(SETTINGS))
branches = st.integers(0, 7)
names = st.sampled_from(("a", "b", "c"))
some = st.sets(st.integers(0, 5), min_size=1, max_size=3)


class Handles(RuleBasedStateMachine):
    """`now` is all that was said, by place; `seen[h]` what of it handle h has merged."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = Lake()
        self.count, self.is_broken = 0, False
        self.tokens: list[tuple[Place, str, Any, list[dict[str, Any]]]] = []
        self.tasks: dict[str, tuple[Any, list[dict[str, int]]]] = {}

    @initialize()
    def create(self) -> None:
        first = self.lake.handles[0]
        with self.lake.time_of(first):
            first.catalog.create_table("rows", SCHEMA)
            first.catalog.create_table("parted", SCHEMA, partition_by=["p"])
            first.catalog.create_table("keyed", SCHEMA, key=["n"])
        self.now: dict[Place, State] = {(table, "main"): State() for table in SETTINGS}
        self.seen = [dict(self.now) for _ in self.lake.handles]
        for table in SETTINGS:
            self.appends(0, table, 7, 4)
        for handle in range(len(self.seen)):
            self.look(handle)

    # What all verbs have in common.

    def place(self, handle: int, table: str, branch: int) -> Place:
        """One of the branches that a handle has seen."""
        there = sorted(place for place in self.seen[handle] if place[0] == table)
        return there[-1 - branch % len(there)] if branch < 5 else (table, "main")

    def seen_at(self, handle: int, place: Place) -> Seen:
        return Seen(place[0], self.seen[handle][place])

    def say(
        self, handle: int, place: Place, act: Callable[[Table], Version], means: Callable[[Seen, Any], Saying]
    ) -> None:
        """Commit, by a handle that rests on what it has seen; then it looks, and finds what it must."""
        seen = self.seen_at(handle, place)
        with self.acts(handle) as acting:
            table = acting.table(*place)
            assert table.schema is not None  # as of then: blind verbs go by what columns were called
            version = act(table)
            assert all(version.id > known.id for known in seen.view.data), "sorts before what it has seen"
        self.now[place] = self.now[place].join(State(frozenset({means(seen, version.id)})))
        self.look(handle)
        self.check(handle, place)

    def tend(self, handle: int, place: Place, act: Callable[[Table], object]) -> None:
        """Upkeep says nothing."""
        with self.acts(handle) as acting:
            act(acting.table(*place))
        self.look(handle)
        self.check(handle, place)

    @contextmanager
    def acts(self, handle: int) -> Iterator[Handle]:
        """At the time that a handle takes it for. Where that fails, nothing is looked at in the end."""
        self.is_broken = True
        with self.lake.time_of(self.lake.handles[handle]):
            yield self.lake.handles[handle]
        self.is_broken = False

    def look(self, handle: int) -> None:
        self.lake.handles[handle].look()
        self.seen[handle] = dict(self.now)

    def check(self, handle: int, place: Place) -> None:
        with self.acts(handle) as acting:
            check(acting, place, self.seen_at(handle, place), is_history_known=self.is_history_known(place))

    def is_history_known(self, place: Place) -> bool:
        """How much of its start's history a branch still has depends on when its source was read last."""
        return place[1] == "main" or not any(s.bases for at, s in self.now.items() if at[0] == place[0])

    def records(self, seen: Seen, count: int) -> list[dict[str, int]]:
        """New rows, in all the columns that are known. No two rows have equal values anywhere."""
        made = []
        for _ in range(count):
            self.count += 1
            values = dict.fromkeys(seen.known(), self.count * 10)
            made.append({**values, "n": self.count, "p": self.count % 2})
        if seen.settings.key:
            keys = dict.fromkeys(record["n"] % KEYS for record in made)
            made = [{**record, "n": key} for record, key in zip(made, keys, strict=False)]
        return made

    def chosen(self, seen: Seen, some: set[int]) -> list[int]:
        """The n of some rows that were seen, the newest first."""
        there = [record["n"] for record in seen.shown()][::-1]
        return sorted({there[at % len(there)] for at in some}) if there else []

    # Looking.

    @rule(handle=handles, table=tables, branch=branches)
    def reads(self, handle: int, table: str, branch: int) -> None:
        """What it saw when it looked last is what it finds, whatever was done since."""
        self.check(handle, self.place(handle, table, branch))

    @rule(handle=handles)
    def looks(self, handle: int) -> None:
        self.look(handle)

    @rule(handle=handles, table=tables, branch=branches)
    def remembers(self, handle: int, table: str, branch: int) -> None:
        place = self.place(handle, table, branch)
        with self.acts(handle) as acting:
            scan = acting.table(*place).scan()
            rows = scan.to_table().to_pylist()
        seen = self.seen_at(handle, place)
        self.tokens.append((place, str(scan.snapshot), seen.view.clock, rows))

    @precondition(lambda self: self.tokens)
    @rule(handle=handles, which=st.integers(0, 9))
    def travels(self, handle: int, which: int) -> None:
        """Reads the same for ever, until it is expired. It has to have seen what it reads."""
        place, token, clock, rows = self.tokens[which % len(self.tokens)]
        self.look(handle)
        with self.acts(handle) as acting:
            table = acting.table(*place)
            try:
                at(self.now[place], clock)
            except Expired:
                with pytest.raises(Expired):
                    table.read(at=token)
            else:
                assert table.read(at=token).to_pylist() == rows

    @rule(handle=handles, table=tables, branch=branches, count=st.integers(1, 5))
    def appends(self, handle: int, table: str, branch: int, count: int) -> None:
        place = self.place(handle, table, branch)
        data = self.records(self.seen_at(handle, place), count)
        self.say(
            handle, place, lambda it: it.append(rows(it, data)), lambda seen, got: seen.appended(got, data)
        )

    def teardown(self) -> None:
        """In the end everybody has the same, and so has somebody who has seen nothing yet."""
        if self.is_broken:
            return
        newcomer = self.lake.newcomer()
        for place, state in self.now.items():
            found = []
            for handle in (*self.lake.handles, newcomer):
                handle.look()
                known = self.is_history_known(place)
                with self.lake.time_of(handle):
                    check(handle, place, Seen(place[0], state), is_history_known=known)
                    found.append(head_value(handle.table(*place)._session.head()))
            # A branch's start is stored as it was when its source was read last, compacted or not.
            assert all(each == found[0] for each in found) or place[1] != "main"
            with self.lake.time_of(newcomer):
                assert newcomer.table(*place).verify("content").ok


def rows(table: Table, records: list[dict[str, Any]]) -> pa.Table:
    """Rows with their columns in the types and in the order that the table has: others would be a change."""
    schema = table._session.head(refresh=False).schema
    fields = [field for field in schema if field.name in records[0]]
    return pa.Table.from_pylist(records, pa.schema(fields))


def check(handle: Handle, place: Place, seen: Seen, *, is_history_known: bool) -> None:
    """What a handle shows is what the model says."""
    table = handle.table(*place)
    found, head = table.read(), table._session.head(refresh=False)
    expected = seen.head
    assert found.to_pylist() == [dict(row) for row in expected.rows]
    assert {(item.name, TYPES[item.type]) for item in found.schema} == set(expected.schema)
    assert dict(head.properties) == expected.properties
    assert head.version == expected.version
    if not is_history_known:
        return
    assert [version.id for version in head.history] == list(expected.history)
    if not seen.settings.key:
        check_conflicts(head, expected)
