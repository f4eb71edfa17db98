"""Branches: try something on real data, keep it or throw it away.

Run: python -m examples.branches
"""

from __future__ import annotations

import tempfile

from crdtcat import Catalog


def main() -> None:
    """Run it in folders that are deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as catalog:
        play(catalog)


def play(catalog: Catalog) -> None:
    """Branch, change both sides, merge, delete."""
    catalog.commit("prices", [{"item": "tea", "price": 3.0}, {"item": "jam", "price": 5.0}])
    prices = catalog.table("prices")

    trial = prices.branch("trial")  # one small file; nothing is copied
    trial.update("item = 'tea'", {"price": 2.5})
    trial.append([{"item": "oil", "price": 9.0}])
    catalog.commit("prices", [{"item": "rye", "price": 4.0}])  # meanwhile, on main

    print("main: ", [row["item"] for row in prices.read().to_pylist()])
    print("trial:", [row["item"] for row in catalog.read("prices", branch="trial").to_pylist()])

    print(prices.merge("trial"))  # one PUT; what met is listed
    print("both: ", {row["item"]: row["price"] for row in prices.read().to_pylist()})
    prices.delete_branch("trial")
    print("branches left:", list(prices.branches()))


if __name__ == "__main__":
    main()
