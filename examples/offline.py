"""A laptop without network: both sides commit, then they sync and have the same table.

Run: python -m examples.offline
"""

from __future__ import annotations

import tempfile

from crdtcat import Catalog


def main() -> None:
    """Run it in folders that are deleted afterwards."""
    with (
        tempfile.TemporaryDirectory() as desk,
        tempfile.TemporaryDirectory() as bag,
        Catalog(desk) as office,
        Catalog(bag) as laptop,
    ):
        play(office, laptop)


def play(office: Catalog, laptop: Catalog) -> None:
    """Commit on both sides, then sync."""
    office.commit("visits", [{"place": "north", "count": 1}])
    office.sync(laptop)

    laptop.commit("visits", [{"place": "east", "count": 2}])  # on the train
    laptop.table("visits").set_properties(checked="by the laptop")
    office.commit("visits", [{"place": "south", "count": 3}])  # meanwhile
    office.table("visits").set_properties(checked="by the office")

    result = laptop.sync(office)
    print(f"sent {result.sent['visits'].versions} versions, received {result.received['visits'].versions}")
    here, there = laptop.table("visits").head(), office.table("visits").head()
    print("the same table:", here.root_hash == there.root_hash, here.snapshot == there.snapshot)
    print(sorted(row["place"] for row in office.read("visits").to_pylist()))
    for conflict in laptop.table("visits").conflicts():
        print("lost and listed:", conflict.kind, conflict.subject)
    print("again:", laptop.sync(office).sent["visits"].versions, "versions sent")


if __name__ == "__main__":
    main()
