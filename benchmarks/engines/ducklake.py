"""DuckLake: DuckDB's lake format, its metadata in a database.

That is a local SQLite file, which its documentation names for several processes on one machine: as with
Iceberg, its transactions see no network, whatever the place of the data. Or it is a PostgreSQL, which the
documentation names for many clients: as far away as the data.
Extensions come from wheels (`duckdb-extension-*`), signed as DuckDB's own: nothing is downloaded at run time.
"""

from __future__ import annotations

import random
import sysconfig
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.engines.base import Engine, Place, Range, Unsupported

GENEROUS_RETRIES = 1_000
GENEROUS_SETTINGS = {"ducklake_max_retry_count": GENEROUS_RETRIES, "ducklake_retry_backoff": 1.0}
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_unsigned_extensions": "true",
}
"""Looking for a server of extensions that is not reachable takes seconds; what is needed is installed. It is
signed, and checking that takes half a second of processor time in every process, which is not measured."""


class DuckLake(Engine):
    """One connection with the lake attached; a fresh handle attaches it anew."""

    fixed = "metadata in a local SQLite file (no network) or a PostgreSQL; tries again 10 times by default"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        self._lake: Any = self._ready()
        self._attached = False

    def _ready(self) -> Any:
        """A DuckDB with its extensions. Programs load them once, so that is not timed."""
        kind = "postgres_scanner" if self.place.database else "sqlite_scanner"
        lake = _spare.pop() if _spare else _loaded(("ducklake", kind, "httpfs"))
        if self.place.is_s3:
            endpoint = self.place.endpoint.removeprefix("http://")
            lake.execute(
                "create or replace secret "
                f"(type s3, key_id '{self.place.key}', secret '{self.place.secret}', "
                f"endpoint '{endpoint}', use_ssl false, url_style 'path', region 'us-east-1')"
            )
        for name, value in GENEROUS_SETTINGS.items():
            lake.execute(f"set {name} = {value}" if self.generous else f"reset {name}")
        return lake

    def _detach(self) -> None:
        """Let go of the lake, whatever was under way."""
        if not self._attached:
            return
        with suppress(duckdb.Error):
            self._lake.execute("rollback")  # there may be no transaction
        self._lake.execute("use memory")
        self._lake.execute("detach lake")
        self._attached = False

    def close(self) -> None:
        try:
            self._detach()
        except duckdb.Error:
            return  # not as new: the next one is loaded again
        _spare.append(self._lake)

    def open(self) -> None:
        self._detach()
        if self.place.database:
            host, port = self.place.database
            where = f"postgres:host={host} port={port} user=bench dbname=postgres"
            # One server has the lakes of all points, each in a schema of its own.
            settings = f"metadata_schema 'lake_{sha256(self.place.aside.encode()).hexdigest()[:16]}'"
        else:
            where = f"sqlite:{self.place.aside}/ducklake.db"
            # What DuckLake's maintainers recommend for several clients (duckdb/ducklake#128).
            settings = "meta_journal_mode 'WAL', meta_busy_timeout 500"
        self._lake.execute(
            f"attach 'ducklake:{where}' as lake (data_path '{self.place.url}/data', {settings})"
        )
        self._attached = True
        self._lake.execute("use lake")

    def create(self, sample: pa.Table, rows_max: int) -> None:
        self.open()
        self._lake.register("sample", sample)
        self._lake.execute("create table bench as select * from sample limit 0")

    def append(self, rows: pa.Table) -> int | None:
        if not self.generous:
            self._insert(rows)
            return None
        # The library does not try again when SQLite is locked (duckdb/ducklake#1309): generous does it here.
        return self._again_and_again(lambda: self._insert(rows))

    def _insert(self, rows: pa.Table) -> None:
        self._lake.register("incoming", rows)
        self._lake.execute("insert into bench select * from incoming")

    def _again_and_again(self, action: Callable[[], None]) -> int:
        """How often it had to be tried again."""
        for retry in range(GENEROUS_RETRIES):
            try:
                action()
            except duckdb.Error:
                time.sleep(random.uniform(0.0, 0.1))
            else:
                return retry
        action()
        return GENEROUS_RETRIES

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        names = ", ".join(columns) if columns else "*"
        condition = f" where {where[0]} >= {where[1]} and {where[0]} < {where[2]}" if where else ""
        found = self._lake.execute(f"select {names} from bench{condition}")
        return found.to_arrow_table()

    def count(self) -> int:
        return int(self._lake.execute("select count(*) from bench").fetchone()[0])

    def upkeep(self) -> None:
        """All of it in one statement, as its documentation has it: inlined rows flushed, files merged."""
        self._lake.execute("checkpoint lake")

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        where = f"id >= {change['low']} and id < {change['high']}"
        if change["kind"] == "compact":
            return self.upkeep
        self._lake.execute("begin transaction")
        if change["kind"] == "update":
            self._lake.execute(f"update bench set {change['column']} = {change['value']} where {where}")
        else:
            self._lake.execute(f"delete from bench where {where}")
        return lambda: _done(self._lake.execute("commit"))

    def change(self, change: dict[str, Any]) -> None:
        try:
            self.prepare(change)()
        except duckdb.Error:
            with suppress(duckdb.Error):
                self._lake.execute("rollback")
            raise

    def replace(self, rows: pa.Table) -> None:
        self._lake.register("incoming", rows)
        self._lake.execute("begin transaction")
        self._lake.execute("delete from bench")
        self._lake.execute("insert into bench select * from incoming")
        self._lake.execute("commit")

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        self._lake.register("changed", changed)
        self._lake.register("deleted", deleted)
        if changed.num_rows:
            self._lake.execute(
                "merge into bench using changed on bench.id = changed.id "
                "when matched then update when not matched then insert"
            )
        if deleted.num_rows:
            self._lake.execute("delete from bench where id in (select id from deleted)")


def extension(name: str) -> Path:
    """The file of a signed extension, from its wheel. Raises `Unsupported` where the wheel is not
    installed."""
    found = sorted(
        Path(sysconfig.get_paths()["purelib"]).glob(
            f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"
        )
    )
    if not found:
        raise Unsupported(f"DuckDB's extension {name} is not installed")
    return found[-1]


_spare: list[Any] = []


def _loaded(extensions: tuple[str, ...]) -> Any:
    lake = duckdb.connect(config=SETTINGS)
    for name in extensions:
        lake.load_extension(str(extension(name)))
    return lake


def _done(_: object) -> None:
    """The library's own report is not what is measured."""


ENGINE = DuckLake
