"""CAS mode: strict history. Writers on different rows pass each other; on the same rows one is told.

Run with `python -m examples.cas`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.errors import CommitConflict


def main() -> None:
    """Eight writers on rows of their own, then two on one row."""
    schema = pa.schema([("account", pa.int64()), ("balance", pa.int64())])
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        accounts = cat.create_table("accounts", schema, mode="cas")
        accounts.append([{"account": n, "balance": 100} for n in range(8)])

        # Each thread is a writer of its own. They all begin at once, and all commit.
        def pay(n: int) -> int:
            table = Catalog(folder).table("accounts")
            return table.update(f"account = {n}", {"balance": 100 + n}).rebases

        with ThreadPoolExecutor(8) as threads:
            print("moved past others this often:", sorted(threads.map(pay, range(8))))
        print("numbers:", [version.number for version in accounts.history()])

        # Two change one row: the second is told which, and by whom. Its change was not committed.
        mine, theirs = Catalog(folder).table("accounts"), Catalog(folder).table("accounts")

        def late(rows: pa.Table) -> list[int]:
            theirs.update("account = 1", {"balance": 0})  # while mine is working it out
            return [balance + 1 for balance in rows["balance"].to_pylist()]

        try:
            mine.update("account = 1", {"balance": late})
        except CommitConflict as conflict:
            print("conflict:", conflict.conflicts[0])
        print("balance:", accounts.read(filter="account = 1")["balance"].to_pylist())


if __name__ == "__main__":
    main()
