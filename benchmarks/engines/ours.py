"""crdtcat, with its defaults: upkeep on, columns verified on read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from benchmarks.engines.base import Engine, Place, Range
from benchmarks.engines.forcing import force
from crdtcat import Catalog
from crdtcat.store.local import LocalStore
from crdtcat.store.values import Content, Data
from crdtcat.table import Table


class Ours(Engine):
    """A handle, as a long-lived program keeps one. Variants: `no upkeep`: nobody bundles; `CAS`: CAS mode;
    `no fsync`: nothing waits for the disk, which the library does not offer."""

    fixed = "fsync on local disk; every column read is checked against its hash"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        force(variant)
        self._table: Table | None = None
        self._lake: Catalog | None = None

    def _catalog(self) -> Catalog:
        upkeep = self.variant != "no upkeep"
        return Catalog(self.place.url, self.place.storage_options, upkeep=upkeep)

    @property
    def _mode(self) -> str:
        return "cas" if self.variant == "CAS" else "merge"

    @property
    def table(self) -> Table:
        assert self._table is not None
        return self._table

    def create(self, sample: pa.Table, rows_max: int) -> None:
        self._table = self._catalog().create_table("bench", sample.schema, mode=self._mode)

    def create_to_merge(self, sample: pa.Table, rows_max: int) -> None:
        self._table = self._catalog().create_table("bench", sample.schema, mode=self._mode, key=["id"])

    def open(self) -> None:
        self._table = self._catalog().table("bench")

    def open_to_read(self) -> None:
        """As the first lines of the README do: `Catalog(url).read(name)`."""
        self._lake = self._catalog()

    def append(self, rows: pa.Table) -> int | None:
        if self.table.key:
            self.table.upsert(rows)
        else:
            self.table.append(rows)
        return 0

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        filter = [(where[0], ">=", where[1]), (where[0], "<", where[2])] if where else None
        if self._lake is not None:
            return self._lake.read("bench", columns, filter)
        return self.table.read(columns, filter)

    def count(self) -> int:
        return self.table.scan().count()

    def upkeep(self) -> None:
        self.table.compact()
        self.table.checkpoint()
        self.table.collect()

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        """Verbs take a fresh snapshot when called: they are held at their first PUT until told to go on."""
        store = HeldStore(self.place.path)
        held = Ours(self.place, self.variant)
        held._table = Catalog(store).table("bench")
        raised: list[BaseException] = []

        def work() -> None:
            try:
                held.change(change)
            except BaseException as error:  # noqa: BLE001 (raised again where the commit is waited for)
                raised.append(error)
            finally:
                store.arrived.set()

        thread = threading.Thread(target=work)
        thread.start()
        store.arrived.wait()
        if raised:  # it cannot be done at all
            thread.join()
            raise raised[0]

        def commit() -> None:
            store.go_on.set()
            thread.join()
            if raised:
                raise raised[0]

        return commit

    def change(self, change: dict[str, Any]) -> None:
        where = [("id", ">=", change["low"]), ("id", "<", change["high"])]
        match change["kind"]:
            case "update":
                self.table.update(where, {change["column"]: change["value"]})
            case "delete":
                self.table.delete(where)
            case _:
                self.table.compact()

    def counted(self) -> Callable[[int, int, float], dict[str, Any]]:
        """Requests are those of the handle's own store, without upkeep, which has a thread of its own."""
        catalog = Catalog(self.place.url, self.place.storage_options, upkeep=False)
        table = catalog.table("bench")
        table.head()

        def update(low: int, high: int, value: float) -> dict[str, Any]:
            parent, before = table._session.chain.parent, catalog.store.requests.snapshot()
            made = table.update_rows(low, high, [{"value": value}] * (high - low))
            cost = catalog.store.requests.since(before)
            assert parent is not None
            return {
                "between": made.number - parent.number - 1,
                "lost": cost.put - 1,
                "requests": cost.put + cost.get + cost.list,
            }

        return update

    def replace(self, rows: pa.Table) -> None:
        self.table.write(rows)

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        if changed.num_rows:
            self.table.upsert(changed)
        if deleted.num_rows:
            self.table.delete(keys=deleted.select(["id"]))


class HeldStore(LocalStore):
    """A local store whose PUTs wait, so that two verbs have read one snapshot before either commits."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.arrived, self.go_on = threading.Event(), threading.Event()

    def put(self, name: str, data: Content) -> None:
        self._hold()
        super().put(name, data)

    def create(self, name: str, data: Data) -> bool:
        self._hold()
        return super().create(name, data)

    def _hold(self) -> None:
        self.arrived.set()
        self.go_on.wait()


ENGINE = Ours
