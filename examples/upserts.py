"""A table with a key: everybody upserts without looking, and everybody reads the same rows.

python -m examples.upserts
"""

from __future__ import annotations

import tempfile

import pyarrow as pa

from crdtcat import Catalog


def main() -> None:
    """Upsert, update some columns, delete by key, and see what is merged."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        stock = cat.create_table(
            "stock",
            pa.schema([("item", pa.string()), ("count", pa.int64()), ("price", pa.float64())]),
            key=["item"],
        )
        stock.upsert([{"item": "tea", "count": 5, "price": 2.5}, {"item": "cake", "count": 1, "price": 4.0}])

        # Two programs that know nothing of each other: one counts, one sets prices. Both hold.
        counting, pricing = (Catalog(folder).table("stock") for _ in range(2))
        counting.upsert([{"item": "tea", "count": 4}, {"item": "milk", "count": 9}])
        pricing.upsert([{"item": "tea", "price": 2.75}])
        for row in stock.read().to_pylist():
            print(row)

        stock.delete(keys=["cake", "never there"])
        stock.delete("count > 8")
        print("left:", stock.read(["item"])["item"].to_pylist())

        # Keys that nobody else has touched are read without merging.
        stock.upsert([{"item": f"x{number:03}", "count": number} for number in range(100)])
        print(next(line for line in stock.scan().explain().splitlines() if "merge" in line).strip())


if __name__ == "__main__":
    main()
