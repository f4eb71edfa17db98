"""Transactions: several tables change together, or not at all; threads and processes stage, one commit.

Run with `python -m examples.transactions`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from crdtcat import Catalog


def main() -> None:
    """Move stock between two shops, fail once, and stage with many threads."""
    schema = pa.schema([("item", pa.string()), ("count", pa.int64())])
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        for shop in ("north", "south"):
            cat.create_table(shop, schema).append([{"item": "tea", "count": 10}])

        # One PUT makes both changes visible. Reads inside see them already; nobody else does.
        with cat.transaction() as tx:
            tx.update("north", "item = 'tea'", {"count": 7})
            tx.update("south", "item = 'tea'", {"count": 13})
            print("inside: ", tx.read("north")["count"].to_pylist(), tx.read("south")["count"].to_pylist())
            print("outside:", cat.read("north")["count"].to_pylist(), cat.read("south")["count"].to_pylist())
        print("after:  ", cat.read("north")["count"].to_pylist(), cat.read("south")["count"].to_pylist())

        # An error aborts: nothing becomes visible.
        try:
            with cat.transaction() as tx:
                tx.delete("north", "item = 'tea'")
                raise RuntimeError("the lorry broke down")
        except RuntimeError as error:
            print(f"{tx.status}: {error}; north still has", cat.read("north")["count"].to_pylist())

        # Threads stage side by side. Other processes do the same with tx.fork(), and tx.join() takes it back.
        with cat.transaction() as tx, ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda n: tx.append("south", [{"item": f"cake {n}", "count": n}]), range(8)))
        print("south:  ", cat.read("south").num_rows, "rows,", len(tx.versions["south"]), "versions at once")


if __name__ == "__main__":
    main()
