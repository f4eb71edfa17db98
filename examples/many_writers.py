"""Many writers, one table, nobody waits: handles that have never heard of each other, all at once.

Each thread here has a catalog of its own, as processes on different machines would. Run with
`python -m examples.many_writers`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor

from crdtcat import Catalog, Version

WRITERS, COMMITS = 8, 10


def work(url: str, number: int) -> list[Version]:
    """One writer: append, with an idempotency key so that a repeated task counts once."""
    cat = Catalog(url)
    done = []
    for task in range(COMMITS):
        rows = [{"writer": number, "task": task, "value": number * task}]
        done.append(cat.commit("results", rows, key=f"writer-{number}-task-{task}"))
    return done


def main() -> None:
    """Let them all write, repeat some tasks, and compare readers."""
    with tempfile.TemporaryDirectory() as url, Catalog(url), ThreadPoolExecutor(WRITERS) as pool:
        versions = [version for done in pool.map(work, [url] * WRITERS, range(WRITERS)) for version in done]
        print(f"{len(versions)} commits by {WRITERS} writers, none refused, none repeated")

        work(url, 3)  # a scheduler that runs a task again
        table = Catalog(url).table("results")
        head = table.head()
        print(f"{head.row_count} rows; {len(head.void)} commits do not count: their keys were used before")

        # Whoever has the same files has the same table.
        other = Catalog(url).table("results").head()
        print("another reader agrees:", other.snapshot == head.snapshot, other.root_hash == head.root_hash)

        # Two people add the same column at once, with different types: nothing is lost in silence.
        one, two = Catalog(url).table("results"), Catalog(url).table("results")
        print("both look at the same table:", one.head().snapshot == two.head().snapshot)
        one.append([{"writer": 1, "note": "a text"}], evolve=True)
        two.append([{"writer": 2, "note": 5}], evolve=True)
        print("note is now", table.schema.field("note").type)
        for conflict in table.conflicts():
            print(conflict)


if __name__ == "__main__":
    main()
