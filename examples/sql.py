"""SQL over tables by their names: one snapshot of all of them, and only the bytes that the query wants.

python -m examples.sql
"""

from __future__ import annotations

import tempfile

import pyarrow as pa

from crdtcat import Catalog


def main() -> None:
    """Join two tables, see what is fetched, and that a query goes on seeing what it saw."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder, inline_bytes=0, chunk_rows=1000) as cat:
        numbers = list(range(10_000))
        cat.commit("sales", pa.table({"n": numbers, "shop": [n % 3 for n in numbers], "amount": numbers}))
        cat.commit("shops", [{"shop": 0, "city": "Oslo"}, {"shop": 1, "city": "Rome"}])

        totals = cat.sql(
            "select city, sum(amount) as total from sales join shops using (shop) where n < ? group by city",
            [3000],
        )
        print(totals)

        # Nobody's commit changes what a query gives once it was asked; the next query sees it.
        cat.commit("shops", [{"shop": 2, "city": "Bern"}])
        print("the same again:", sorted(totals.fetchall()))
        print("asked anew:    ", cat.sql("select count(*) from shops").fetchall()[0][0], "shops")

        # Of ten chunks one can hold n = 1234, and of it one column is read.
        before = cat.store.requests.snapshot()
        cat.sql("select amount from sales where n = 1234").fetchall()
        few = cat.store.requests.since(before).bytes_in
        before = cat.store.requests.snapshot()
        cat.sql("select * from sales").fetchall()
        print(f"bytes fetched: {few:,} for one row, {cat.store.requests.since(before).bytes_in:,} for all")

        # A scan is a relation, too.
        print(cat.table("sales").scan(["n", "shop"], "n >= 9990").to_duckdb().aggregate("shop, count(*)"))


if __name__ == "__main__":
    main()
