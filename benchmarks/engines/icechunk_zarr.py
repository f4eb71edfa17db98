"""Icechunk: versioned Zarr arrays. A table is a group with one array per column, cut at every commit's rows.

Arrays have no appends that commute: growing one rewrites its metadata, so every concurrent growth
conflicts. The friendliest way to append from many writers is used here: arrays are made long enough first,
and every writer fills a region of its own, aligned to chunks. Strings are stored as small integers,
moments as 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import zarr

from benchmarks.engines.base import Engine, Place, Range, Unsupported
from benchmarks.rows import KINDS

GENEROUS_TRIES = 1_000
EMPTY = -1


class Icechunk(Engine):
    """A repository handle; each commit is a session of its own, as the documentation has it."""

    fixed = "arrays made to length first, every writer fills its own chunks; a default commit does not rebase"

    def __init__(self, place: Place, variant: str = "default") -> None:
        super().__init__(place, variant)
        self._repository: Any = None
        zarr.config.set({"async.concurrency": 10})

    def _storage(self) -> Any:
        if not self.place.is_s3:
            return icechunk.local_filesystem_storage(f"{self.place.path}/bench")
        return icechunk.s3_storage(
            bucket=self.place.bucket,
            prefix=f"{self.place.prefix}/bench",
            region="us-east-1",
            endpoint_url=self.place.endpoint,
            allow_http=True,
            access_key_id=self.place.key,
            secret_access_key=self.place.secret,
            force_path_style=True,
        )

    def create(self, sample: pa.Table, rows_max: int) -> None:
        self._repository = icechunk.Repository.create(self._storage())
        session = self._repository.writable_session("main")
        group = zarr.create_group(session.store)
        for name, values in _arrays(sample).items():
            group.create_array(
                name,
                shape=(rows_max,),
                chunks=(min(sample.num_rows, 1_000_000),),
                dtype=values.dtype,
                fill_value=EMPTY,
            )
        session.commit("created")

    def open(self) -> None:
        self._repository = icechunk.Repository.open(self._storage())

    def append(self, rows: pa.Table) -> int | None:
        session = self._repository.writable_session("main")
        start = rows["id"][0].as_py()
        group = zarr.open_group(session.store)
        for name, values in _arrays(rows).items():
            array = group[name]
            if array.shape[0] < start + rows.num_rows:
                array.resize((start + rows.num_rows,))
            array[start : start + rows.num_rows] = values
        self._finish(session)
        return None

    def _finish(self, session: Any) -> None:
        if self.generous:
            session.commit("rows", rebase_with=icechunk.ConflictDetector(), rebase_tries=GENEROUS_TRIES)
        else:
            session.commit("rows")

    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        group = zarr.open_group(self._repository.readonly_session("main").store, mode="r")
        names = columns or sorted(group.array_keys())
        ids = group["id"][:]
        mask = ids != EMPTY
        if where:
            column = ids if where[0] == "id" else group[where[0]][:]
            mask &= (column >= where[1]) & (column < where[2])
        return pa.table({name: (ids if name == "id" else group[name][:])[mask] for name in names})

    def upkeep(self) -> None:
        self._repository.rewrite_manifests("upkeep", branch="main")

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        if change["kind"] == "compact":
            return self.upkeep
        session = self._repository.writable_session("main")
        group = zarr.open_group(session.store)
        low, high = change["low"], change["high"]
        if change["kind"] == "update":
            group[change["column"]][low:high] = change["value"]
        else:
            group["id"][low:high] = EMPTY  # an array has no rows to delete: the id is blanked
        return lambda: self._finish(session)

    def replace(self, rows: pa.Table) -> None:
        session = self._repository.writable_session("main")
        group = zarr.open_group(session.store)
        for name, values in _arrays(rows).items():
            array = group[name]
            array.resize((rows.num_rows,))
            array[:] = values
        session.commit("rows")

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        raise Unsupported("arrays have positions, not keys")


def _arrays(rows: pa.Table) -> dict[str, Any]:
    made = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_string(column.type):
            if name != "kind":
                made[name] = np.array([int(text.rsplit(" ", 1)[-1]) for text in column.to_pylist()], np.int32)
                continue
            codes = {kind: code for code, kind in enumerate(KINDS.tolist())}
            made[name] = np.array([codes[one] for one in column.to_pylist()], np.int8)
        elif pa.types.is_timestamp(column.type):
            made[name] = column.cast(pa.int64()).to_numpy()
        else:
            made[name] = column.to_numpy()
    return made


ENGINE = Icechunk
