"""`load`: a table as a DataFrame over Spark's own Parquet reader, so that a clean table scans at native
speed.

The snapshot is pinned and planned here. Segments Spark can read go to its Parquet reader, which prunes
columns and row groups by itself; of a segment with dead row groups or deleted rows only the live rows are
kept, by their number in the file. Rows that are still inside version files, chunks with updated cells, and
whatever Spark cannot read as we would, come from the Python path; the parts are joined. Rows come in no
particular order, as always in Spark.

Conditions on floats are kept from Spark's Parquet reader where it would miss rows (`crdtcat.spark.floats`).
Natively read columns are not checked against their BLAKE3 hashes: Parquet's page checksums are, and `verify`
is there for the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)
from pyspark.sql import types as st

from crdtcat import Catalog
from crdtcat.chunks.types import decode_type
from crdtcat.errors import InvalidArgument
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.scan.plan import Plan
from crdtcat.scan.units import Unit
from crdtcat.spark.conditions import condition, quoted
from crdtcat.spark.floats import kept_back, reader_options
from crdtcat.spark.native import NativeGroup, Run, split
from crdtcat.spark.pinned import pin
from crdtcat.spark.python_frame import python_frame
from crdtcat.spark.reading import Selection
from crdtcat.spark.saving import as_catalog, for_tasks, require_session
from crdtcat.spark.types import spark_type
from crdtcat.store import Store
from crdtcat.store.local import LocalStore
from crdtcat.store.s3 import S3Store
from crdtcat.support.arguments import require_flag, require_names
from crdtcat.verbs.travel import At

_OURS: Final = {
    "recursiveFileLookup": "true",
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""How segments are read, whatever the session says of other files: its settings may leave out damaged and
missing ones in silence, or take days before 1582 for those of another calendar."""
CONDITION_RUNS_MAX: Final = 32  # Spark compares every row with each of them, and compiles a condition
_GLOBS: Final = frozenset("{}[]*?\\")  # Spark would expand them in a path


def load(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    *,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    at: At | None = None,
    branch: str = MAIN,
    native: bool | None = None,
) -> Any:
    """A table as a DataFrame, pinned to one snapshot. Costs a head, on the driver.

    Args:
        spark: the session.
        catalog: a handle, or the catalog's URL.
        table: the table's name.
        columns: names, in the order wanted; all by default.
        filter: as `Table.scan` takes it; chunks are pruned by it here, before Spark plans anything.
        at: a snapshot or its token, a version id, a tag, a moment; now by default.
        branch: the branch.
        native: whether Spark's Parquet reader is used. By default for catalogs on a file system; for S3 say
            `True` if the cluster has Hadoop's `s3a` and its credentials.

    Raises:
        NotFound, InvalidArgument, InvalidFilter, Expired: as `Table.scan` does.
        UnsupportedType: a column that Spark has no type for.
        CapabilityMissing: a catalog in memory, which tasks cannot see.
    """
    require_session(spark)
    if native is not None:
        require_flag("native", native)
    if columns is not None:
        require_names("columns", columns)
    given = as_catalog(catalog)
    root = _root(given.store, native)
    handle = for_tasks(given)
    opened = handle.table(table, branch)
    pinned = pin(handle, opened, at)
    names = None if columns is None else tuple(columns)
    selection = Selection(pinned, names, filter)
    selection.schema()  # what Spark has no type for is refused before anything is planned
    plan, units = selection.planned()
    merged = plan.merge is not None and bool(plan.merge.groups)
    root = None if merged else root
    groups: list[NativeGroup] = []
    left: list[int] | None = None
    if root is not None:
        plain = [unit for unit in units if isinstance(unit, Unit)]
        groups, left = split(plan, plain, opened._session.head(refresh=False).log)
        if any(group.runs for group in groups) and not _numbers_rows(spark):
            groups, left = [], None
    frames = [frame for group in groups for frame in _native_frames(spark, root or "", plan, group)]
    if left is None or left or not frames:
        within = None if left is None else tuple(left)
        frames.append(python_frame(spark, Selection(pinned, names, filter, within).tightened()))
    return reduce(lambda one, other: one.union(other), frames)


def _root(store: Store, native: bool | None) -> str | None:
    """Where Spark finds the store's files, or `None` to leave it."""
    if native is False:
        return None
    if isinstance(store, LocalStore) and not _GLOBS & set(store.root):
        return f"file:{store.root}"
    if native and isinstance(store, S3Store):
        return "s3a://" + store.url.split("://", 1)[1].rstrip("/")
    if native:
        raise InvalidArgument(f"native=True: Spark cannot read the files of {store.url} by itself")
    return None


def _numbers_rows(spark: Any) -> bool:
    """Whether the session's Parquet reader tells rows' numbers: the one of Spark's second interface does
    not."""
    first: str = spark.conf.get("spark.sql.sources.useV1SourceList")
    return "parquet" in [name.strip().lower() for name in first.split(",")]


def _native_frames(spark: Any, root: str, plan: Plan, group: NativeGroup) -> Iterator[Any]:
    stored = st.StructType(
        [
            st.StructField(name, spark_type(decode_type(code), name))
            for name, code in {
                field.name: field.type for _, field in group.sources if field is not None
            }.items()
        ]
    )
    reader = spark.read.schema(stored).options(**_OURS, **reader_options(group.sources))
    values = _values(group)
    if group.clean:
        every = reader.parquet(*[f"{root}/{name}" for name in group.clean])
        yield _shown(plan, group, every.select(*values))
    if group.runs:
        files = list(dict.fromkeys(run.file for run in group.runs))
        every = reader.parquet(*[f"{root}/{name}" for name in files])
        place = [F.col("_metadata.file_name").alias("file"), F.col("_metadata.row_index").alias("row")]
        yield _shown(plan, group, _within(spark, every.select(*values, *place), group.runs))


def _values(group: NativeGroup) -> list[Any]:
    """The columns needed, typed as they are today, and numbered: users' names may be anybody's."""
    values = []
    for at, (column, field) in enumerate(group.sources):
        shown = spark_type(column.type, column.name)
        if field is None:
            value = F.lit(None).cast(shown)
        else:
            value, stored = F.col(quoted(field.name)), spark_type(decode_type(field.type), field.name)
            if column.name in group.doubtful:
                value = kept_back(value, stored)
            if stored != shown:
                value = value.cast(shown)
        values.append(value.alias(f"c{at}"))
    return values


def _within(spark: Any, frame: Any, runs: Sequence[Run]) -> Any:
    """The rows of some runs of files; those of a run given twice come twice.

    A few runs are a condition, which costs a row a fraction of a join; only a join makes rows come twice."""
    if len(runs) <= CONDITION_RUNS_MAX and not _overlap(runs):
        wanted: dict[str, Any] = {}
        for run in runs:
            inside = (F.col("row") >= run.start) & (F.col("row") < run.stop)
            name = run.file.rpartition("/")[2]
            wanted[name] = wanted[name] | inside if name in wanted else inside
        of_files = [(F.col("file") == name) & inside for name, inside in wanted.items()]
        return frame.filter(reduce(lambda one, other: one | other, of_files))
    listed = [(run.file.rpartition("/")[2], run.start, run.stop) for run in runs]
    ranges = F.broadcast(spark.createDataFrame(listed, "of string, start long, stop long"))
    inside = (F.col("row") >= F.col("start")) & (F.col("row") < F.col("stop"))
    return frame.join(ranges, (F.col("file") == F.col("of")) & inside)


def _overlap(runs: Sequence[Run]) -> bool:
    ordered = sorted((run.file, run.start, run.stop) for run in runs)
    return any(one[0] == other[0] and other[1] < one[2] for one, other in pairwise(ordered))


def _shown(plan: Plan, group: NativeGroup, frame: Any) -> Any:
    """The rows the filter keeps, columns under their names."""
    names = {column.name: f"c{at}" for at, (column, _) in enumerate(group.sources)}
    wanted = None if plan.filter is None else condition(plan.filter.predicate, names)
    kept = frame if wanted is None else frame.filter(wanted)
    return kept.select(*[F.col(names[column.name]).alias(column.name) for column in plan.columns])
