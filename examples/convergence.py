"""Several processes commit to one table at once, and readers agree on what it is. No Spark, no Java.

Run with `python -m examples.convergence`. It works in a temporary folder, prints what it does, and takes a
few seconds. To look at the files afterwards, name a new folder: `python -m examples.convergence ./demo-lake`.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from crdtcat import Catalog, Head
from crdtcat.head import Head as LinearHead
from crdtcat.log import State

WRITERS = 6
COMMITS = 20
ROWS = 500


def say(title: str, *lines: str) -> None:
    """One step of the story."""
    print(f"\n\033[1m{title}\033[0m")
    for line in lines:
        print(f"  {line}")


def write(url: str, number: int, start: threading.Barrier) -> None:
    """One writer process: its own handle, its own identity, nobody to ask."""
    catalog = Catalog(url, grace_seconds=0)
    catalog.table("sales")
    start.wait()
    chance = random.Random(number)
    for commit in range(COMMITS):
        rows = {
            "writer": [number] * ROWS,
            "commit": [commit] * ROWS,
            "amount": [round(chance.uniform(1, 100), 2) for _ in range(ROWS)],
            "at": [datetime.now(UTC)] * ROWS,
        }
        catalog.commit("sales", rows, metadata={"source": f"shop {number}"})


def commit_from_many_processes(url: str) -> float:
    """Start all writers at the same moment; return how long they took together."""
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(WRITERS + 1)  # once every interpreter is up, all begin at the same moment
    processes = [context.Process(target=write, args=(url, number, start)) for number in range(WRITERS)]
    for process in processes:
        process.start()
    start.wait()
    began = time.monotonic()
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit(f"a writer failed with exit code {process.exitcode}")
    return time.monotonic() - began


def merged_in_order(url: str, names: Sequence[str]) -> Head:
    """Merge the version files one by one, in the order given: what a reader does, slowly."""
    catalog = Catalog(url)
    session = catalog.table("sales")._session
    state = State(session.folder)
    for name in names:
        state = state.joined([(name, catalog.store.get(name))])
    return LinearHead("sales", state.log, session.settings)


def main() -> None:
    """Tell the story, in the folder named on the command line or in a temporary one."""
    with ExitStack() as stack:
        if len(sys.argv) > 1:
            folder = sys.argv[1]
            if Path(folder).exists():
                raise SystemExit(f"{folder} is there already: name a new folder")
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-demo-"))
        url = str(Path(folder) / "lake")
        catalog = stack.enter_context(Catalog(url, grace_seconds=0))
        table = catalog.create_table("sales")

        say(
            f"1. {WRITERS} processes commit {COMMITS} times each to one table, all at once",
            "No lock, no pointer to swap, no retry: every commit is one new file with a name of its own.",
        )
        seconds = commit_from_many_processes(url)
        head = table.head()
        expected = WRITERS * COMMITS * ROWS
        say(
            "2. Every acknowledged row is there",
            f"{WRITERS * COMMITS} commits in {seconds:.2f} s, {head.row_count:,} of {expected:,} rows",
            f"{head!r}",
        )
        if head.row_count != expected:
            raise SystemExit("rows are missing")

        say("3. Two readers merge the files in different orders and hold the same table")
        folder_name = table._session.folder
        names = [item.name for item in catalog.store.list(folder_name)]
        shuffled = random.Random(7).sample(names, len(names))
        one, two = merged_in_order(url, names), merged_in_order(url, shuffled)
        for reader, merged in (("in listing order", one), ("shuffled", two)):
            print(f"  {reader:<17} snapshot {merged.snapshot.id[:24]}…  root {merged.root_hash[:24]}…")
        if (one.snapshot.id, one.root_hash) != (two.snapshot.id, two.root_hash):
            raise SystemExit("the readers disagree")

        say("4. History: one order that everybody agrees on (the first five)")
        for version in head.history[:5]:
            print(f"  {version}")

        say("5. Time travel")
        tag = table.tag("before-the-mistake")
        table.overwrite({"writer": [0], "commit": [0], "amount": [0.0], "at": [datetime.now(UTC)]})
        print(f"  somebody overwrote the table: {table.scan().count()} row")
        print(f"  at the tag it still has:      {table.scan(at='before-the-mistake').count():,} rows")
        table.restore("before-the-mistake")
        print(f"  restored, by one new version: {table.scan().count():,} rows")
        print(f"  and the tag still names what it did: {table.head('before-the-mistake').snapshot == tag}")

        say("6. Reading only what is needed")
        scan = table.scan(columns=["amount"], filter="writer = 3 and amount > 95")
        print("  " + scan.explain().replace("\n", "\n  "))
        print(f"  -> {scan.count():,} rows")

        say(
            "7. What the log costs",
            "Now and then a writer gathers the version files of others in one larger file, a bundle,",
            "and moves their rows to Parquet segments. Here that is done once more, by hand, and what the",
            "bundles cover is deleted at once (by default files are kept for ten minutes).",
            "What a reader that knows nothing must list and open, before and after. What it waits for are",
            "requests, and one is left. How many bytes it was before depends on how much the writers had",
            "gathered by chance: a file of all versions is larger than bundles of most, and smaller",
            "than many files of one version each, rows and all.",
        )
        print(f"  now:   {cost_of_opening(url)}")
        print(f"  {table.checkpoint()}")
        print(f"  {table.collect()}")
        print(f"  after: {cost_of_opening(url)}")
        if table.head().row_count != expected:
            raise SystemExit("upkeep changed the table")
        say("Done.", "Every reader, everywhere, that lists these files sees this table.")


def cost_of_opening(url: str) -> str:
    """Requests a fresh handle makes to know the whole table."""
    catalog = Catalog(url)
    table = catalog.table("sales")
    before = catalog.store.requests.snapshot()
    table.head()
    used = catalog.store.requests.snapshot() - before
    return f"{used.list} LIST and {used.get} GET requests, {used.bytes_in:,} bytes"


if __name__ == "__main__":
    main()
