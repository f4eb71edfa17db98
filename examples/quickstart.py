"""Quickstart: commit rows, read them back, look at what happened.

Run with `python -m examples.quickstart`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile

from crdtcat import Catalog


def main() -> None:
    """Commit, read, change, look back."""
    # A catalog is at a path, at "s3://bucket/lake", at "memory://", at any fsspec URL.
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        # The first commit creates the table; its columns are what the rows bring.
        cat.commit("events", [{"user": 1, "action": "login"}, {"user": 2, "action": "login"}])
        cat.commit("events", {"user": [1], "action": ["buy"]}, metadata={"source": "shop"})
        print(cat.read("events").to_pylist())

        # Only some columns, only some rows.
        print(cat.read("events", columns=["action"], filter="user = 1").to_pylist())

        # A handle has the other verbs.
        events = cat.table("events")
        events.append([{"user": 3, "action": "login", "amount": 9.5}], evolve=True)  # a new column
        print(events.schema)
        print(events.scan(filter="amount is not null").count(), "row with an amount")

        # Everything that was committed, in the order all readers agree on.
        print(events.history())
        print(events.head())


if __name__ == "__main__":
    main()
