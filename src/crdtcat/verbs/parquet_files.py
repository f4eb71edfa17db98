"""A folder of Parquet files, as far as an import has to know it before it begins.

Every footer is read, so that whatever does not fit is told, by file, before a row is: a file that is no
Parquet, a column that the table has not, a type that does not fit. Files and folders whose names begin with
`_` or `.` are not data, by custom, and are left out. Folders named `column=value` give every file below them
that column. Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from crdtcat.chunks.foreign import ForeignFile, read_foreign
from crdtcat.errors import InvalidArgument, InvalidName, SchemaMismatch, UserError
from crdtcat.format.ops import ColumnId
from crdtcat.store import ObjectInfo, Store, open_store
from crdtcat.store.local import LocalStore
from crdtcat.support.pools import ThreadPool
from crdtcat.writing.fit import Known, KnownColumn, fit
from crdtcat.writing.imported import ImportUnit, Run, SourceFile

THREADS: Final = 8  # footers read at once
UNIT_BYTES: Final = 128 * 2**20  # Arrow content that is staged at once
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
DELTA: Final = "_delta_log"


@dataclass(frozen=True, eq=False)
class Files:
    """Files to import, in order of their names, and the columns of all of them together.

    Attributes:
        found: each file, what its footer says, and the columns that its folders name.
        schema: the columns, in the types of the table where it has them.
    """

    found: tuple[tuple[ForeignFile, SourceFile], ...]
    schema: pa.Schema


def open_source(
    folder: str | os.PathLike[str], storage_options: Mapping[str, Any] | None
) -> tuple[Store, list[ObjectInfo]]:
    """The store of a folder, and all files in it and in those below, by name; of a file, its folder and it
    alone. One LIST or two per folder and page; one more for a file.

    Raises `InvalidArgument`: there is nothing, or a pattern instead of a folder, or it is the folder of a
    table in another format.
    """
    source = _opened(folder, storage_options)
    try:
        files = sorted(_listed(source, ""), key=lambda item: item.name)
    except InvalidName as error:
        raise InvalidName(f"{source.url}: {error.args[0]}") from error
    if files:
        return source, files
    found = _file(os.fspath(folder), source, storage_options)
    if found is not None:
        return found
    if any(letter in os.fspath(folder) for letter in "*?["):
        raise InvalidArgument(
            f"{source.url}: there is no folder of that name, and patterns are not expanded: pass the folder, "
            "or one file"
        )
    if isinstance(source, LocalStore) and not os.path.isdir(source.root):  # noqa: PTH112
        raise InvalidArgument(f"{source.url}: there is no such folder or file")
    raise InvalidArgument(f"{source.url}: there are no Parquet files in this folder")


def _opened(folder: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> Store:
    """The store of a folder in which files have any names. No request."""
    source = open_store(folder, storage_options)
    source.foreign = True
    return source


def _file(
    url: str, source: Store, storage_options: Mapping[str, Any] | None
) -> tuple[Store, list[ObjectInfo]] | None:
    """What a URL names if it is a file: the folder it lies in, and the file. One LIST, or a few."""
    if isinstance(source, LocalStore):
        above, name = os.path.split(source.root)
    else:
        above, _, name = url.rstrip("/").rpartition("/")
    if not name or not above or above.endswith(":/"):  # a whole bucket
        return None
    folder = _opened(above, storage_options)
    after: str | None = name[:-1]
    try:
        while after is not None:
            page = folder.list_page("", after)
            for item in page.objects:
                if item.name >= name:
                    return (folder, [item]) if item.name == name else None
            after = page.after
    except (InvalidName, InvalidArgument):  # nothing that we list can have such a name
        pass
    return None


def _listed(source: Store, prefix: str) -> Iterator[ObjectInfo]:
    for item in source.list(prefix):
        if not item.name[len(prefix) :].startswith(("_", ".")):
            yield item
    for name in source.folders(prefix):
        if name == DELTA:
            raise InvalidArgument(
                f"{source.url}/{prefix} is a Delta table, whose folder holds rows that were removed: read it "
                "as such, and append what was read"
            )
        if not name.startswith(("_", ".")):
            yield from _listed(source, f"{prefix}{name}/")


def read_files(
    source: Store,
    files: Sequence[ObjectInfo],
    known: Known | None,
    *,
    evolve: bool,
    told: Callable[[int, int], object],
) -> Files:
    """Read all footers, and see whether everything fits the table, or the first file where there is none yet.

    One or two GETs per file. Raises `UserError`, naming the first file that does not fit.
    """
    opened: list[ForeignFile] = []
    with ThreadPool(THREADS, "crdtcat-import") as pool:
        for file in pool.map(lambda item: read_foreign(source, item.name, item.size), files):
            opened.append(file)
            told(len(opened), len(files))
    values = [_values(file) for file in opened]
    types = _types(values, known)
    columns = known
    schema: dict[str, pa.DataType] = {}
    for file, given in zip(opened, values, strict=True):
        fields = [*file.schema, *(pa.field(name, types[name]) for name in given)]
        try:
            for name, text in given.items():
                if name in file.schema.names:
                    raise InvalidArgument(f"column {name!r} is in the file, and in the name of its folder")
                _check(name, text, types[name])
            fit(pa.schema(fields), columns, evolve=evolve)
        except UserError as error:
            raise type(error)(f"{file.url}: {error.args[0]}") from error
        for field in fields:
            held = None if columns is None else columns.get(field.name)
            schema.setdefault(field.name, field.type if held is None else held.type)
        columns = {**_as_known(schema), **(columns or {})}
    found = [
        (file, SourceFile(file.name, file.size, file.digest, tuple(given.items())))
        for file, given in zip(opened, values, strict=True)
    ]
    return Files(tuple(found), pa.schema(list(schema.items())))


def _as_known(schema: Mapping[str, pa.DataType]) -> Known:
    return {name: KnownColumn(ColumnId(name), type, nullable=True) for name, type in schema.items()}


def _values(file: ForeignFile) -> dict[str, str | None]:
    """The columns that a file's folders name, and their values."""
    pairs = (part.split("=", 1) for part in file.name.split("/")[:-1] if "=" in part)
    return {unquote(name): None if text == NO_VALUE else unquote(text) for name, text in pairs}


def _types(values: Sequence[Mapping[str, str | None]], known: Known | None) -> dict[str, pa.DataType]:
    """Of columns that folders name: the table's; else whole numbers, if all are; else text."""
    texts: dict[str, list[str]] = {}
    for given in values:
        for name, text in given.items():
            texts.setdefault(name, []).extend([] if text is None else [text])
    types = {}
    for name, found in texts.items():
        column = None if known is None else known.get(name)
        whole = all(text.removeprefix("-").isdecimal() and str(int(text)) == text for text in found)
        types[name] = column.type if column else pa.int64() if whole and found else pa.string()
    return types


def _check(name: str, text: str | None, type: pa.DataType) -> None:
    try:
        pa.scalar(text, pa.string()).cast(type)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatch(f"the folder {name}={text} names no {type}") from error


def units_of(
    files: Sequence[tuple[ForeignFile, SourceFile]],
    schema: pa.Schema,
    *,
    rows_least: int,
    take: bool,
    by_file: bool,
) -> Iterator[ImportUnit]:
    """What is staged together, in order: row groups taken as they are by themselves, of the others as many
    neighbours as make a unit; with `by_file` each file, however large.

    Args:
        files: in order.
        schema: the columns as the table stores them.
        rows_least: row groups of fewer rows are not taken as they are.
        take: whether any are.
        by_file: whether a unit is a file.
    """
    waiting: list[Run] = []
    held = 0
    for opened, file in files:
        fits = take and not file.values and opened.holds_storage(schema)
        runs = list(_runs(opened, file, rows_least if fits else None))
        if by_file:
            yield ImportUnit(tuple(run for run, _ in runs), sum(size for _, size in runs))
            continue
        for run, size in runs:
            if waiting and (run.as_they_are or held + size > UNIT_BYTES):
                yield ImportUnit(tuple(waiting), held)
                waiting, held = [], 0
            if run.as_they_are:
                yield ImportUnit((run,), size)
            else:
                waiting.append(run)
                held += size
    if waiting:
        yield ImportUnit(tuple(waiting), held)


def _runs(opened: ForeignFile, file: SourceFile, rows_least: int | None) -> Iterator[tuple[Run, int]]:
    """Neighbouring row groups of one kind, up to a unit, and their size."""
    groups: list[int] = []
    size, kind = 0, False
    for number, group in enumerate(opened.groups):
        if not group.rows:
            continue
        fits = rows_least is not None and group.is_whole and rows_least <= group.rows
        as_it_is = fits and group.nbytes <= UNIT_BYTES
        apart = bool(groups) and (as_it_is and opened.groups[groups[-1]].stop != group.start)
        if groups and (apart or kind != as_it_is or size + group.nbytes > UNIT_BYTES):
            yield Run(file, tuple(groups), kind), size
            groups, size = [], 0
        groups.append(number)
        size, kind = size + group.nbytes, as_it_is
    if groups:
        yield Run(file, tuple(groups), kind), size
