"""Time travel: read the table as it was, name a moment, undo a mistake.

Run with `python -m examples.time_travel`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile

import pyarrow as pa

from crdtcat import Catalog


def main() -> None:
    """Make a mistake, find it, undo it."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        prices = cat.create_table("prices", pa.schema([("item", pa.string()), ("price", pa.float64())]))
        prices.append([{"item": "tea", "price": 3.0}, {"item": "cake", "price": 4.5}])
        friday = prices.tag("friday")

        mistake = prices.overwrite([{"item": "tea", "price": 300.0}], metadata={"by": "a script"})
        prices.drop_column("item")
        print("now:         ", prices.read().to_pylist())

        # `at=` takes a tag, a version id, a snapshot, its token, or a moment.
        print("on friday:   ", prices.read(at="friday").to_pylist())
        print("by version:  ", prices.read(at=mistake.id).to_pylist())
        print("by snapshot: ", prices.read(at=friday).num_rows, "rows")
        print("by a moment: ", prices.read(at=mistake.time).num_rows, "row")
        print("a token to keep:", str(friday)[:40] + "…")

        # A restore is a new version over the old chunks: rows, order and columns are back.
        prices.restore("friday", metadata={"why": "the script was wrong"})
        print("restored:    ", prices.read().to_pylist())
        print(prices.history())


if __name__ == "__main__":
    main()
