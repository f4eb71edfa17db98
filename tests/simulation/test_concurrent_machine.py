"""A stateful machine: several handles that act on what they saw when they last looked, against the model.

Every verb there is, on a table of rows and on one with a key, on main and on branches, by writers whose
clocks are hours apart, beside bundling, collection, compaction and expiry. None of them refreshes because
another has committed: what a commit means is computed from the versions that its author had merged
(`said`), and what a table is from the set of all of them, by the reference model. The other machine
(`test_stateful`) has verbs one after the other, tables dropped and made again, and time travel to tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from crdtcat import Version, session
from crdtcat.clock import HybridClock
from crdtcat.errors import CrdtcatError, Expired, StoreUnavailable
from crdtcat.log import State as LogState
from crdtcat.scan import merge_plan
from crdtcat.table import Table
from crdtcat.verbs import change
from tests.bounds import FULL, bounded
from tests.model.expiry import at, expire
from tests.model.versions import Version as Saying
from tests.simulation.concurrent_handles import KEYS, Handles, branches, handles, names, rows, some, tables
from tests.simulation.said import INT64, Seen
from tests.simulation.stale_handles import HOUR_MS

KEPT_SECONDS: Final = 2 * 3600


class ConcurrentMachine(Handles):
    """Every verb, by handles that do not wait for each other."""

    # Rows.

    @rule(handle=handles, branch=branches, task=st.integers(0, 1))
    def runs_a_task(self, handle: int, branch: int, task: int) -> None:
        """A task that others may have run, or are running: it counts once."""
        place = self.place(handle, "rows", branch)
        seen, key = self.seen_at(handle, place), f"task {task}"
        known, data = self.tasks.setdefault(key, (seen.known(), self.records(seen, 3)))
        if known == seen.known():
            self.say(
                handle,
                place,
                lambda it: it.append(rows(it, data), key=key),
                lambda seen, got: seen.appended(got, data, keys=frozenset({key})),
            )

    @rule(
        handle=handles,
        table=tables,
        branch=branches,
        count=st.integers(1, 3),
        p=st.none() | st.integers(0, 1),
    )
    def overwrites(self, handle: int, table: str, branch: int, count: int, p: int | None) -> None:
        place = self.place(handle, table, branch)
        data = self.records(self.seen_at(handle, place), count)
        where = None
        if table != "parted":
            p = None
        elif p is not None:
            where, data = f"p = {p}", [{**record, "p": p} for record in data]
        self.say(
            handle,
            place,
            lambda it: it.overwrite(rows(it, data), where=where),
            lambda seen, got: seen.overwritten(got, data, p),
        )

    @rule(handle=handles, table=tables, branch=branches, some=some, name=names)
    def updates(self, handle: int, table: str, branch: int, some: set[int], name: str) -> None:
        place = self.place(handle, table, branch)
        seen = self.seen_at(handle, place)
        among = self.chosen(seen, some)
        if among and name in seen.known():
            self.count += 1
            value = self.count * 10
            self.say(
                handle,
                place,
                lambda it: it.update(f"n in ({', '.join(map(str, among))})", {name: value}),
                lambda seen, got: seen.updated(got, among, name, value),
            )

    @rule(handle=handles, table=tables, branch=branches, some=some)
    def deletes(self, handle: int, table: str, branch: int, some: set[int]) -> None:
        place = self.place(handle, table, branch)
        among = self.chosen(self.seen_at(handle, place), some)
        if among:
            self.say(
                handle,
                place,
                lambda it: it.delete(f"n in ({', '.join(map(str, among))})"),
                lambda seen, got: seen.deleted(got, among),
            )

    @rule(handle=handles, branch=branches, keys=st.sets(st.integers(0, KEYS - 1), min_size=1, max_size=2))
    def deletes_keys(self, handle: int, branch: int, keys: set[int]) -> None:
        place = self.place(handle, "keyed", branch)
        self.say(
            handle,
            place,
            lambda it: it.delete(keys=sorted(keys)),
            lambda seen, got: seen.keys_deleted(got, keys),
        )

    @rule(handle=handles, branch=branches, key=st.integers(0, KEYS - 1), name=names)
    def upserts_a_cell(self, handle: int, branch: int, key: int, name: str) -> None:
        """Blind, and without the other columns."""
        place = self.place(handle, "keyed", branch)
        if name in self.seen_at(handle, place).known():
            self.count += 1
            cell = {"n": key, name: self.count * 10}
            self.say(
                handle,
                place,
                lambda it: it.upsert(rows(it, [cell])),
                lambda seen, got: Saying(
                    got, seen.appended(got, []).clock, **seen._added([cell], ("n", name))
                ),
            )

    @rule(handle=handles, table=tables, branch=branches, some=some, name=names, new=st.integers(0, 2))
    def writes(self, handle: int, table: str, branch: int, some: set[int], name: str, new: int) -> None:
        """The table as it was seen, with something gone, something changed, something new."""
        place = self.place(handle, table, branch)
        seen = self.seen_at(handle, place)
        if name not in seen.known() or len(seen.shown()) < 2 or table == "parted":
            return  # in a partitioned table the rows of a partition stand together, so that they would move
        changed = self.chosen(seen, some)
        gone = {changed.pop()} if len(changed) > 1 else set()
        there = {record["n"] for record in seen.shown()}
        more = [record for record in self.records(seen, new) if record["n"] not in there]
        values = dict.fromkeys(changed, self.count * 10 + 1)
        left = [
            {**record, name: values.get(record["n"], record[name])}
            for record in seen.shown()
            if record["n"] not in gone
        ]
        if left:
            self.say(
                handle,
                place,
                lambda it: it.write(rows(it, [*left, *more]), on=None if table == "keyed" else ["n"]),
                lambda seen, got: seen.written(got, gone, values, name, more),
            )

    @precondition(lambda self: self.tokens)
    @rule(handle=handles, which=st.integers(0, 9))
    def restores(self, handle: int, which: int) -> None:
        """Where no column was changed yet: what columns a restore brings back is for the other machine. And
        where no cell is missing: under keys these stay missing, or come as nulls, as they are stored."""
        place, token, clock, data = self.tokens[which % len(self.tokens)]
        if place not in self.seen[handle]:
            return
        seen = self.seen_at(handle, place)
        try:
            then = Seen(place[0], at(seen.state, clock))
        except Expired:
            return
        if not seen.is_as_declared() or not clock <= seen.view.clock:
            return
        assert then.shown() == data
        if place[0] != "keyed" or not any(None in record.values() for record in data):
            self.say(handle, place, lambda it: it.restore(token), lambda seen, got: seen.restored(got, data))

    # Columns and properties.

    @rule(handle=handles, table=tables, branch=branches, name=names, value=st.none() | st.integers(0, 9))
    def sets_a_property(self, handle: int, table: str, branch: int, name: str, value: int | None) -> None:
        place = self.place(handle, table, branch)
        self.say(
            handle,
            place,
            lambda it: it.set_properties(**{name: value}),
            lambda seen, got: seen.set(got, name, value),
        )

    @rule(
        handle=handles,
        table=tables,
        branch=branches,
        name=names,
        to=names,
        verb=st.sampled_from(("drop", "rename", "widen")),
    )
    def changes_a_column(self, handle: int, table: str, branch: int, name: str, to: str, verb: str) -> None:
        """Adds it, where it is not there."""
        place = self.place(handle, table, branch)
        known = self.seen_at(handle, place).columns
        acts: dict[str, tuple[Callable[[Table], Version], Callable[[Seen, Any], Saying]]] = {
            "add": (
                lambda it: it.add_column(name, pa.int32()),
                lambda seen, got: seen.column_added(got, name),
            ),
            "drop": (lambda it: it.drop_column(name), lambda seen, got: seen.column_dropped(got, name)),
            "rename": (
                lambda it: it.rename_column(name, to),
                lambda seen, got: seen.column_changed(got, name, to=to),
            ),
            "widen": (
                lambda it: it.widen_column(name, pa.int64()),
                lambda seen, got: seen.column_changed(got, name, type=INT64),
            ),
        }
        if name not in known:
            verb = "add"
        if verb == "rename" and to in known:
            return
        self.say(handle, place, *acts[verb])

    # Branches.

    @rule(handle=handles, table=tables, branch=branches)
    def branches_off(self, handle: int, table: str, branch: int) -> None:
        place = self.place(handle, table, branch)
        self.count += 1
        name = f"b{self.count}"  # another each time: of one that was not made, others may think that it was
        if len(self.now) < 6:
            began = self.seen[handle][place]
            with self.acts(handle) as acting:
                try:
                    acting.table(*place).branch(name)
                    self.now[table, name] = began
                except StoreUnavailable:  # it began before an expiry that it does not know
                    assert self.now[table, "main"].bases != self.seen[handle][table, "main"].bases
                    acting.look()
                    assert name not in acting.table(*place).branches()
            self.look(handle)

    @rule(handle=handles, table=tables, branch=branches, other=branches)
    def merges(self, handle: int, table: str, branch: int, other: int) -> None:
        place, source = self.place(handle, table, branch), self.place(handle, table, other)
        if place != source:
            brought = self.seen[handle][source]
            with self.acts(handle) as acting:
                acting.table(*place).merge(source[1])
            self.now[place] = self.now[place].join(brought)
            self.look(handle)
            self.check(handle, place)

    # Upkeep.

    @rule(handle=handles, table=tables, branch=branches, collects=st.booleans())
    def checkpoints(self, handle: int, table: str, branch: int, collects: bool) -> None:
        place = self.place(handle, table, branch)
        self.tend(handle, place, lambda it: (it.checkpoint(), collects and it.collect()))

    @rule(handle=handles, table=tables, branch=branches, size=st.sampled_from((2, 4, 64)))
    def compacts(self, handle: int, table: str, branch: int, size: int) -> None:
        self.tend(handle, self.place(handle, table, branch), lambda it: it.compact(rows=size))

    @rule(handle=handles, table=tables, last=st.integers(1, 3))
    def expires(self, handle: int, table: str, last: int) -> None:
        place = (table, "main")
        with self.acts(handle) as acting:
            acting.table(*place).expire(keep_last=last)
            acting.look()
            horizon = acting.table(*place)._session.head().log.horizon
        self.now[place] = expire(self.now[place], horizon)
        self.look(handle)
        self.check(handle, place)

    @rule(handle=handles)
    def collects_what_nobody_refers_to(self, handle: int) -> None:
        """Hours pass between the two times: whoever has seen only what was before then looks again."""
        for _ in range(2):
            with self.acts(handle) as acting:
                acting.catalog.collect(grace=KEPT_SECONDS)
            self.lake.clock.now_ms += 2 * HOUR_MS
            for each in range(len(self.seen)):
                self.look(each)


EXAMPLES = bounded(2000, 80)
TestConcurrentMachine = ConcurrentMachine.TestCase
TestConcurrentMachine.settings = settings(  # in full, other histories each time
    max_examples=EXAMPLES, stateful_step_count=30, deadline=None, derandomize=not FULL, database=None
)


def test_what_lost_below_the_horizon_to_a_version_above_it_is_listed() -> None:
    """A clock that is an hour ahead: its overwrite stays in history, and what it beat does not."""
    machine = ConcurrentMachine()
    machine.create()
    machine.overwrites(branch=2, count=3, handle=1, p=1, table="parted")
    machine.overwrites(branch=1, count=1, handle=2, p=1, table="parted")
    machine.expires(handle=2, last=1, table="parted")
    (lost,) = machine.lake.handles[2].table("parted", "main").conflicts()
    assert lost.kind == "overwrite"
    machine.teardown()


def test_a_restored_table_has_its_partitions_where_they_were() -> None:
    machine = ConcurrentMachine()
    machine.create()
    machine.overwrites(branch=0, count=1, handle=0, p=0, table="parted")
    machine.remembers(branch=0, handle=0, table="parted")
    machine.restores(handle=0, which=0)
    machine.updates(branch=0, handle=0, name="b", some={5, 13}, table="parted")
    machine.remembers(branch=0, handle=0, table="parted")
    machine.restores(handle=0, which=1)
    machine.teardown()


FAULTS: Final[dict[str, tuple[Any, str, Callable[..., Any]]]] = {
    "clocks do not move past what was seen": (HybridClock, "observe", lambda *_: None),
    "rows that were deleted one by one stay": (change, "with_deletes", lambda removed, _: dict(removed)),
    "keys that were deleted stay": (merge_plan, "_beside", lambda *_: []),
    "what no bundle covers is collected": (LogState, "covered", lambda _, __, names: list(names)),
    "nobody has seen anything": (session, "seen_clock", lambda _: {}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_mistake_is_found(fault: str) -> None:
    """So the machine finds what it is for."""
    with mock.patch.object(*FAULTS[fault]), pytest.raises((AssertionError, CrdtcatError)):
        run_state_machine_as_test(
            ConcurrentMachine,
            settings=settings(
                max_examples=200,
                stateful_step_count=30,
                deadline=None,
                database=None,
                derandomize=True,
                phases=(Phase.generate,),
                report_multiple_bugs=False,
            ),
        )
