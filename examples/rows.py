"""Change single rows, from two programs at once, and see what was stored, what met, what changed.

Run: python -m examples.rows
"""

from __future__ import annotations

import tempfile

import pyarrow as pa

from crdtcat import Catalog


def main() -> None:
    """A table of a thousand rows, written again with three of them changed; then two writers at once."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        table = cat.create_table(
            "things", pa.schema([("id", pa.int64()), ("note", pa.string()), ("size", pa.float64())])
        )
        rows = [{"id": number, "note": "", "size": 1.0} for number in range(1_000)]
        table.write(rows)

        # The table becomes the data; only what differs travels.
        for number in (3, 500, 999):
            rows[number]["note"] = "marked"
        version = table.write(rows)
        print(f"The second write stores {version.rows} rows of {table.head().row_count:,}.")

        # Two programs that know nothing of each other change one row: different columns, both hold.
        start = table.head().snapshot
        other = Catalog(folder).table("things")
        table.update("id = 7", {"note": "changed by me"})
        other.update("id = 7", {"size": 0.5})
        (row,) = table.read(filter="id = 7").to_pylist()
        print(f"both hold: {row['note']}, {row['size']}")

        # The same cell on two branches: the later one wins, and the other is listed, with its value.
        branch = table.branch("proposal")
        branch.update("id = 8", {"note": "older"})
        table.update("id = 8", {"note": "newer"})
        merged = table.merge("proposal")
        for lost in merged.conflicts:
            print(lost)
            print("it had written", table.lost_values(lost)["note"].to_pylist())

        # What changed since, whoever did it.
        for change in table.changes(start).to_table().to_pylist():
            print(change)

        print(table.compact())

        # Rows in the order of a column: a filter on it reads the chunks it must, and no others.
        print(table.compact(cluster_by=["note", "id"], rows=100))
        print(table.scan(filter="note = 'marked'").explain().splitlines()[3].strip())
        print("again:", table.compact(cluster_by=["note", "id"], rows=100))


if __name__ == "__main__":
    main()
