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
        preload: modules that every worker needs and that survive a fork.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    variants: tuple[str, ...] = ("default",)
    is_peer: bool = True
    preload: tuple[str, ...] = ()


RETRYING = ("default", "generous")

ENTRANTS = {
    entrant.name: entrant
    for entrant in (
        Entrant("raw", "raw", (), is_peer=False, preload=("crdtcat", "s3fs", "pyarrow.parquet")),
        Entrant("crdtcat", "ours", (), is_peer=False, preload=("crdtcat", "s3fs", "pyarrow.parquet")),
        Entrant("Delta", "delta", ("deltalake",), RETRYING),
        Entrant(
            "Iceberg",
            "iceberg",
            ("pyiceberg",),
            RETRYING,
            preload=("pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "pyiceberg.table"),
        ),
        Entrant("Lance", "lance_format", ("pylance",), RETRYING),
        Entrant("Icechunk", "icechunk_zarr", ("icechunk", "zarr"), RETRYING, preload=("zarr",)),
        Entrant("DuckLake", "ducklake", ("duckdb", "duckdb-extension-ducklake"), RETRYING),
    )
}
