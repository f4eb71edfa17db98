"""The Python side of questions about history, intervals of rows, bundles, compaction and pruning.

Compaction and pruning are asked of whole tables, in memory: two catalogs that exchange versions are sides
that do not know of each other, and time is a number, so that what happens later has the greater stamp.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from crdtcat import Catalog
from crdtcat.clock import VersionId
from crdtcat.drive import run
from crdtcat.format.frame import digest
from crdtcat.format.ops import Ops, decode_ops
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.intervals.runs import Runs, canonical
from crdtcat.intervals.runs import overlap as runs_overlap
from crdtcat.log import Log, State, encode_bundle
from crdtcat.log.horizon import below
from crdtcat.log.serialize import decode_bundle
from crdtcat.protocol import Reader, base_name, bundle_name, version_name
from crdtcat.protocol.claimer import Parent
from crdtcat.table import Table
from crdtcat.testing.made_versions import FOLDER
from crdtcat.testing.simulated_store import SimulatedStore, VirtualClock, virtual_time
from proofs.log_questions import APPEND, COMPACT, DELETE, SYNC, UPDATE
from tests.protocol.claims import Setting, claimed

SCHEMA = pa.schema([("row", pa.int64()), ("v", pa.int64())])


def overlap(mine: list[Any], theirs: list[Any]) -> int:
    """Whether a row is in both lists of intervals."""
    return int(runs_overlap(_runs(mine), _runs(theirs)))


def _runs(intervals: list[list[int]]) -> Runs:
    return canonical(*(np.array([item[at] for item in intervals], np.int64) for at in range(3)))


def bundle(versions: list[list[int]], files: list[list[int]], more: list[list[int]]) -> Any:
    """Real files: what a bundle of some covers, and what it holds once it was bundled again with others."""
    stored = [_file(*version) for version in versions]
    first = _bundle(State(FOLDER), [[stored[at] for at in file] for file in files])
    log = decode_bundle(first[1], FOLDER, first[0]).log
    again = _bundle(State(FOLDER).joined([first]), [[stored[at] for at in file] for file in more])
    held = decode_bundle(again[1], FOLDER, again[0]).log
    assert State(FOLDER).joined([again, first]).log.ids.tolist() == held.ids.tolist()
    return [[_id(id) for id in _ids(log)], _versions(held)]


def expired(versions: list[list[int]], horizon: int, found: list[int], later: list[int]) -> Any:
    """A real base of what an expiry found below its horizon, read with what is there later, in any order."""
    stored = [_file(*version) for version in versions]
    folded = below(State(FOLDER).joined([stored[at] for at in found]).log, horizon).with_(horizon=horizon)
    base = base_name(FOLDER, 1), encode_bundle(folded, FOLDER, number=1)
    files = [stored[at] for at in later]
    first, last = (State(FOLDER).joined(every) for every in ([base, *files], [*files, base]))
    apart = State(FOLDER).joined(files).joined([base])
    assert _versions(first.log) == _versions(last.log) == _versions(apart.log)
    return _versions(first.log)


def claims(bundled: list[int], files: list[list[int]]) -> Any:
    """A folder with a bundle, claims, and ghosts below its boundary, read: whose the numbers are."""
    clock, objects = VirtualClock(), {}
    above = {number: whose for number, whose in files if number > len(bundled)}
    parents, chain = [Parent()], []
    for whose in [*bundled, *above.values()]:
        parent, file = claimed(Setting(whose), parents[-1], 10 * len(parents))
        parents.append(parent)
        chain.append(file)
    stored = chain[len(bundled) :]
    stored += [
        claimed(Setting(whose), parents[number - 1], 10 * number)[1]
        for number, whose in files
        if number <= len(bundled)
    ]
    if bundled:
        log = State(FOLDER).joined(chain[: len(bundled)]).log
        data = encode_bundle(log, FOLDER)
        stored.append((bundle_name(FOLDER, 1, digest(data), len(bundled)), data))
    objects.update({name: (data, clock.now_ms) for name, data in stored})
    store = SimulatedStore(objects, clock, lambda *_: None, page_limit=1000)
    log = run(Reader(FOLDER, State(FOLDER)), store).state.log
    found = sorted(zip(log.number.tolist(), log.id_fields["writer"].tolist(), strict=True))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [whose for _, whose in found]


def _versions(log: Log) -> list[list[int]]:
    return [[*_id(id), _content(log, at)] for at, id in enumerate(_ids(log))]


def _file(time: int, writer: int, count: int, content: int) -> tuple[str, bytes]:
    stamp = {"h": time, "w": writer, "s": count, "l": FOLDER, "o": OPERATIONS.index("properties")}
    id, data = encode_version({**stamp, "x": Ops(properties={"p": content}).encode()})
    return version_name(FOLDER, id), data


def _bundle(state: State, files: list[list[tuple[str, bytes]]]) -> tuple[str, bytes]:
    for file in files:
        state = state.joined(file)
    data = encode_bundle(state.log, FOLDER)
    return bundle_name(FOLDER, 1, digest(data)), data


def _ids(log: Log) -> list[VersionId]:
    return [log.id_at(at) for at in range(len(log))]


def _id(id: VersionId) -> list[int]:
    return [id.hlc, id.writer, id.seq]


def _content(log: Log, at: int) -> int:
    value = decode_ops(log.ops.to_pylist()[at], log.id_at(at), "a bundle").properties["p"]
    assert isinstance(value, int)
    return value


def compacted(happened: list[list[int]]) -> Any:
    """Two catalogs to which this happens, and what is in both once they have all of each other."""
    with virtual() as clock:
        sides = [lake_of(clock) for _ in range(2)]
        sides[0].create_table("t", SCHEMA)
        sides[0].sync(sides[1])
        for what, side, row, value in happened:
            clock.now_ms += 1
            table = sides[side].table("t")
            if what == APPEND:
                table.append([{"row": row, "v": value}])
            elif what == UPDATE:
                table.update(f"row = {row}", {"v": value})
            elif what == DELETE:
                table.delete(f"row = {row}")
            elif what == COMPACT:
                table.compact()
            elif what == SYNC:
                sides[0].sync(sides[1])
        sides[0].sync(sides[1])
        first, second = (_rows(side.table("t")) for side in sides)
    assert first == second
    return first


def pruned(entries: list[list[int]], updates: list[list[int]], low: int, high: int) -> Any:
    """What a filter finds in a table, one chunk for each entry, and updates over them."""
    with virtual() as clock:
        return _rows(pruned_table(clock, entries, updates), f"v >= {low} and v <= {high}")


def pruned_table(clock: VirtualClock, entries: list[list[int]], updates: list[list[int]]) -> Table:
    """The table that is asked."""
    table = lake_of(clock).create_table("t", SCHEMA)
    first = 1
    for values in entries:
        clock.now_ms += 1
        table.append([{"row": first + at, "v": value} for at, value in enumerate(values)])
        first += len(values)
    for row, value in updates:
        clock.now_ms += 1
        table.update(f"row = {row}", {"v": value})
    return table


@contextmanager
def virtual() -> Iterator[VirtualClock]:
    """While this lasts, time stands still, unless it is moved."""
    clock = VirtualClock()
    with virtual_time(clock, random.Random(1)):  # noqa: S311 - names of files, not secrets
        yield clock


def lake_of(clock: VirtualClock) -> Catalog:
    """A catalog of its own, in memory."""
    return Catalog(SimulatedStore({}, clock, lambda *_: None, page_limit=1000), upkeep=False)


def _rows(table: Table, filter: str | None = None) -> list[list[int]]:
    return sorted([row["row"], row["v"]] for row in table.read(filter=filter).to_pylist())
