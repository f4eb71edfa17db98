"""What a worker can be asked to do with its engine. Every task is a method; suites put them together.

Times are of the engine's calls alone; making the rows is not counted. A task that loops tells each commit as
it is acknowledged, so that a worker which must be ended leaves its account.
"""

from __future__ import annotations

import gc
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import rows as made
from benchmarks.engines.base import Engine, Place, Range
from benchmarks.worker import shown

OPEN_SECONDS_MAX = 30.0
REWRITTEN = {"column": "value", "value": -1.0}
Tell = Callable[[dict[str, Any]], None]


class Bench:
    """One engine in this process, and the table it was last asked to open."""

    def __init__(self, kind: type[Engine], tell: Tell) -> None:
        self._tell = tell
        self._kind = kind
        self._engine: Engine | None = None
        self._batches: list[pa.Table] = []
        self._made = (0, 0, 0)
        self._first = self._each = 0
        self._counted: Callable[[int, int, float], dict[str, Any]]
        self._warm = False

    @property
    def engine(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def _new(self, place: dict[str, Any], variant: str) -> Engine:
        return self._kind(Place(**place), variant)

    def _take(self, place: dict[str, Any], variant: str) -> None:
        """From now on this process works with that table."""
        if self._engine is not None:
            self._engine.close()
        self._engine = self._new(place, variant)

    def _open(self) -> None:
        """A fresh handle. Where many open at once that can be refused, too (a locked database): a program
        that only wants to begin tries again."""
        deadline = time.monotonic() + OPEN_SECONDS_MAX
        while True:
            try:
                return self.engine.open()
            except Exception:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(random.uniform(0.0, 0.1))

    # One table.

    def create(
        self, *, place: dict[str, Any], variant: str, rows: int, rows_max: int, wide: bool = False
    ) -> dict[str, Any]:
        self._take(place, variant)
        self.engine.create(made.wide(rows, 0) if wide else made.batch(0, rows), rows_max)
        return {"note": self.engine.fixed}

    def ready(
        self, *, place: dict[str, Any], variant: str, first: int, commits: int, rows: int
    ) -> dict[str, Any]:
        """Open the table and make the rows of commits `first` to `first + commits - 1`."""
        self._warm_up(place.get("database"))
        self._take(place, variant)
        if self._made != (first, commits, rows):  # else it has them from the point before
            self._made, self._first = (first, commits, rows), first
            self._batches = [made.batch(first + at, rows) for at in range(commits)]
        self._open()
        return {}

    def rest(self) -> dict[str, Any]:
        """Let go of everything until the next suite."""
        if self._engine is not None:
            self._engine.close()
        self._engine, self._batches, self._made = None, [], (0, 0, 0)
        gc.collect()
        return {}

    def warm(self) -> dict[str, Any]:
        """Load what is loaded late."""
        self._warm_up()
        return {}

    def _warm_up(self, database: tuple[str, int] | None = None) -> None:
        """Once in a process: two commits, a read and an update elsewhere, so that what is loaded late is
        not measured."""
        if self._warm:
            return
        with tempfile.TemporaryDirectory(prefix="crdtcat-warm-") as folder:
            engine = self._kind(Place(f"{folder}/aside", f"{folder}/table", database=database))
            engine.create(made.batch(0, 10), 20)
            engine.open()
            for number in range(2):
                engine.append(made.batch(number, 10))
            engine.open()
            engine.read(["id"])
            engine.change({"kind": "update", "low": 0, "high": 1, **REWRITTEN})
            engine.close()
        self._warm = True

    def appends(self, *, seconds: float, pause: float = 0.0) -> dict[str, Any]:
        """Commit what was made ready, until done or until `seconds` have passed. Tells each commit."""
        began = time.time()
        deadline = time.monotonic() + seconds
        done = 0
        for at, batch in enumerate(self._batches):
            if time.monotonic() >= deadline:
                break
            done += self._commit(self._first + at, batch)
            if pause:
                time.sleep(random.uniform(0.5, 1.5) * pause)
        return {"began": began, "ended": time.time(), "done": done}

    def _commit(self, number: int, batch: pa.Table) -> int:
        at = time.perf_counter()
        try:
            retries = self.engine.append(batch)
        except BaseException as error:  # noqa: BLE001 (a failed commit is a result)
            self._tell({"commit": number, "seconds": time.perf_counter() - at, "error": shown(error)})
            # What a program does next: a fresh handle for the next rows. These rows are given up.
            self._open()
            return 0
        self._tell(
            {"commit": number, "seconds": time.perf_counter() - at, "retries": retries, "at": time.time()}
        )
        return 1

    # Rows of one's own.

    def filled(self, *, place: dict[str, Any], variant: str, rows: int) -> dict[str, Any]:
        """A table with so many rows, in one file."""
        self._take(place, variant)
        self.engine.create(made.batch(0, rows), rows)
        self.engine.open()
        self.engine.append(made.batch(0, rows))
        return {}

    def ready_to_update(
        self, *, place: dict[str, Any], variant: str, first: int, each: int
    ) -> dict[str, Any]:
        """Open the table; the rows from `first` on, `each` of them, are this process's own."""
        self._warm_up(place.get("database"))
        self._take(place, variant)
        self._first, self._each, self._made = first, each, (0, 0, 0)
        self._open()
        return {}

    def updates_of_own(self, *, commits: int, seconds: float, at_once: int) -> dict[str, Any]:
        """Update rows of one's own, by a fresh handle each time. Tells each commit."""
        began, deadline = time.time(), time.monotonic() + seconds
        for number in range(commits):
            if time.monotonic() >= deadline:
                break
            low = self._first + number * at_once % self._each
            said: dict[str, Any] = {
                "low": low,
                "high": low + at_once,
                "value": float(self._first + number + 1),
            }
            at = time.perf_counter()
            said |= self._persisting({**said, "kind": "update", "column": "value"}, deadline)
            self._tell({**said, "seconds": time.perf_counter() - at, "at": time.time()})
        return {"began": began, "ended": time.time()}

    def ready_to_count(self, *, place: dict[str, Any], first: int, each: int) -> dict[str, Any]:
        """Open the table by a handle that will be kept, and that tells what its commits cost."""
        self._first, self._each = first, each
        self._counted = self._new(place, "CAS").counted()
        return {}

    def counted_updates(self, *, commits: int, seconds: float, at_once: int) -> dict[str, Any]:
        """Update rows of one's own by that handle. Tells each commit."""
        deadline = time.monotonic() + seconds
        for number in range(commits):
            if time.monotonic() >= deadline:
                break
            low = self._first + number * at_once % self._each
            try:
                self._tell(self._counted(low, low + at_once, float(number)))
            except Exception as error:  # noqa: BLE001 (a failed commit is a result)
                self._tell({"error": shown(error)})
        return {}

    def _persisting(self, change: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Change rows by a fresh handle; where the variant is generous, until it stands or time is up."""
        retries = 0
        while True:
            try:
                self.engine.open()
                self.engine.change(change)
            except BaseException as error:  # noqa: BLE001 (a failed commit is a result)
                if not self.engine.generous or type(error).__name__ == "Unsupported":
                    return {"error": shown(error), "retries": retries}
                if time.monotonic() >= deadline:
                    return {"cut": shown(error), "retries": retries}
                retries += 1
                time.sleep(random.uniform(0.0, 0.05))
            else:
                return {"retries": retries}

    def values(self, *, place: dict[str, Any], variant: str) -> dict[str, Any]:
        """Ids and values, as a cold reader finds them."""
        self._take(place, variant)
        self.engine.open()
        found = self.engine.read(["id", "value"])
        return {"ids": found["id"].to_pylist(), "values": found["value"].to_pylist()}

    def count(self, *, place: dict[str, Any], variant: str, rows: int, commits: int) -> dict[str, Any]:
        """Which commits a cold reader finds."""
        self._take(place, variant)
        self.engine.open()
        return {**made.found(self.engine.read(["id"])["id"], rows, commits)}

    def build(self, *, first: int, commits: int, rows: int, limit: float) -> dict[str, Any]:
        """Many commits on the handle that is open, until `limit` seconds have passed."""
        began = time.monotonic()
        for at in range(commits):
            if time.monotonic() - began >= limit:
                return {"commits": at, "seconds": time.monotonic() - began}
            self.engine.append(made.batch(first + at, rows))
        return {"commits": commits, "seconds": time.monotonic() - began}

    def upkeep(self, *, place: dict[str, Any], variant: str) -> dict[str, Any]:
        self._take(place, variant)
        self.engine.open()
        began = time.perf_counter()
        self.engine.upkeep()
        return {"seconds": time.perf_counter() - began}

    def upkeeps(self, *, seconds: float, pause: float) -> dict[str, Any]:
        """Upkeep again and again, on the handle that is open."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            at = time.perf_counter()
            try:
                self.engine.open()
                self.engine.upkeep()
                self._tell({"upkeep": time.perf_counter() - at})
            except BaseException as error:
                if type(error).__name__ == "Unsupported":
                    raise
                self._tell({"upkeep": time.perf_counter() - at, "error": shown(error)})
            time.sleep(pause)
        return {}

    def updates(self, *, low: int, high: int, seconds: float, pause: float) -> dict[str, Any]:
        """Rewrite one cell of one row after another, each row once, until `seconds` have passed."""
        deadline = time.monotonic() + seconds
        for at in range(low, high):
            if time.monotonic() >= deadline:
                break
            began = time.perf_counter()
            try:
                self.engine.open()
                self.engine.change({"kind": "update", "low": at, "high": at + 1, **REWRITTEN})
                self._tell({"update": at, "seconds": time.perf_counter() - began})
            except BaseException as error:
                if type(error).__name__ == "Unsupported":
                    raise
                self._tell({"update": at, "seconds": time.perf_counter() - began, "error": shown(error)})
            time.sleep(random.uniform(0.5, 1.5) * pause)
        return {}

    def updated(self, *, place: dict[str, Any], variant: str) -> dict[str, Any]:
        """The ids of rows that were rewritten, as a cold reader finds them, and how many rows there are."""
        self._take(place, variant)
        self.engine.open()
        found = self.engine.read(["id", "value"])
        ids, values = found["id"].to_numpy(), found["value"].to_numpy()
        return {"ids": sorted(ids[values == -1.0].tolist()), "rows": len(ids)}

    # Reading, cold.

    def read(
        self,
        *,
        place: dict[str, Any],
        variant: str,
        columns: list[str] | None = None,
        where: Range | None = None,
        times: int = 1,
    ) -> dict[str, Any]:
        """Open and read everything, from nothing: seconds (the least of `times`), and memory it took at
        its height."""
        self._warm_up(place.get("database"))
        taken = []
        resting = _resident()
        _forget_peak()
        opening = 0.0
        for _ in range(times):
            engine = self._new(place, variant)
            began = time.perf_counter()
            engine.open_to_read()
            opened = time.perf_counter() - began
            found = engine.read(columns, where)
            taken.append(time.perf_counter() - began)
            if taken[-1] == min(taken):
                opening = opened
            count, nbytes = found.num_rows, found.nbytes
            del engine, found
            gc.collect()
        return {
            "seconds": min(taken),
            "open": opening,
            "rows": count,
            "nbytes": nbytes,
            "memory": max(0, _peak() - resting),
        }

    def opening(self, *, place: dict[str, Any], variant: str) -> dict[str, Any]:
        """Open from nothing and count the rows, without reading them where the engine can."""
        self._warm_up(place.get("database"))
        engine = self._new(place, variant)
        began = time.perf_counter()
        engine.open()
        count = engine.count()
        return {"seconds": time.perf_counter() - began, "rows": count}

    # Throughput.

    def ingest(self, *, place: dict[str, Any], variant: str, rows: int, parts: int) -> dict[str, Any]:
        """Six columns in `parts` commits of `rows` rows; seconds of the commits alone, and Arrow bytes."""
        self._take(place, variant)
        self.engine.create(made.wide(rows, 0), rows * parts)
        self.engine.open()
        seconds, nbytes = 0.0, 0
        for part in range(parts):
            table = made.wide(rows, part)
            nbytes += table.nbytes
            began = time.perf_counter()
            self.engine.append(table)
            seconds += time.perf_counter() - began
        stored = _stored(Path(place["path"]), Path(place["aside"]))
        return {"seconds": seconds, "nbytes": nbytes, "stored": stored}

    def rewrite(self, *, place: dict[str, Any], variant: str, low: int, high: int) -> dict[str, Any]:
        """Give rows with ids from `low` up to `high` a new value in one column; seconds, rows with it."""
        engine = self._new(place, variant)
        began = time.perf_counter()
        engine.open()
        engine.change({"kind": "update", "low": low, "high": high, "column": "a", "value": -1.0})
        seconds = time.perf_counter() - began
        engine = self._new(place, variant)
        engine.open()
        return {"seconds": seconds, "rows": int((engine.read(["a"])["a"].to_numpy() == -1.0).sum())}

    # Versions of one table.

    def versions(
        self, *, place: dict[str, Any], variant: str, case: str, rows: int, count: int, how: str
    ) -> dict[str, Any]:
        """Store `count` versions of a table, each made from the one before by `case`; bytes after each."""
        from benchmarks.changes import CASES, change, rewritten  # noqa: PLC0415 (few workers need it)

        self._take(place, variant)
        table = made.wide(rows, 0) if case in CASES else made.batch(0, rows)
        (self.engine.create_to_merge if how == "merge" else self.engine.create)(table, rows * 4)
        self.engine.open()
        self.engine.append(table)
        sizes = [_stored(Path(place["path"]), Path(place["aside"]))]
        seconds = 0.0
        for number in range(1, count):
            if case in CASES:
                after, changed, deleted = change(table, case, number)
            else:
                after, changed = rewritten(table, number, scattered=case == "scattered")
                deleted = table.slice(0, 0)
            self.engine.open()
            began = time.perf_counter()
            if how == "merge":
                self.engine.merge(changed, deleted)
            else:
                self.engine.replace(after)
            seconds += time.perf_counter() - began
            table = after
            sizes.append(_stored(Path(place["path"]), Path(place["aside"])))
        self.engine.open()
        expected = table.select(table.column_names[:2]).sort_by("id")
        read = self.engine.read(expected.column_names).sort_by("id")
        right = read.cast(expected.schema).equals(expected)  # of a key it is said that it is never null
        return {"sizes": sizes, "seconds": seconds, "right": right}

    # Two changes that know nothing of each other.

    def pair(
        self,
        *,
        place: dict[str, Any],
        variant: str,
        rows: int,
        parts: int,
        first: dict[str, Any],
        second: dict[str, Any],
    ) -> dict[str, Any]:
        """Both read the same snapshot, then commit one after the other. What was refused, and what is
        there after."""
        writer = self._new(place, variant)
        before = [made.batch(part, rows // parts) for part in range(parts)]
        writer.create(before[0], rows)
        writer.open()
        for part in before:
            writer.append(part)
        outcomes: list[str] = []
        sides = []
        for _ in range(2):
            side = self._new(place, variant)
            side.open()
            sides.append(side)
        commits = []
        for side, change in zip(sides, (first, second), strict=True):
            try:
                commits.append(side.prepare(change))
            except BaseException as error:
                if type(error).__name__ == "Unsupported":
                    raise
                commits.append(_raises(error))
        for commit in commits:
            try:
                commit()
                outcomes.append("committed")
            except BaseException as error:  # noqa: BLE001 (a refusal is a result)
                outcomes.append(shown(error))
        reader = self._new(place, variant)
        reader.open()
        found = reader.read(["id", "value"]).sort_by("id")
        for used in (writer, *sides, reader):
            used.close()
        return {
            "outcomes": outcomes,
            "ids": found["id"].to_pylist(),
            "values": found["value"].to_pylist(),
            "before": pa.concat_tables(before)["value"].to_pylist(),
        }


def _raises(error: BaseException) -> Callable[[], None]:
    def refuse() -> None:
        raise error

    return refuse


def _stored(*folders: Path) -> int:
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
