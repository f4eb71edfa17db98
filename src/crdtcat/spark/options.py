"""What a DataFrame reader or writer may be told about a table, as Spark's options: text, case-insensitive.

Checked where the options are first seen, on the driver, before a task starts: an unknown name, a missing
table name, a value outside its range is an error that names it. Storage options may hold credentials: they
are never part of a message, a representation or a plan."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from crdtcat import Catalog
from crdtcat.errors import CapabilityMissing, InvalidArgument
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.store.memory import MemoryStore

SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Options that Spark's own streams pass on to every sink."""
TASK_SEGMENT_BYTES: Final = 128 * 2**20  # Arrow content a task holds before it stores a segment
DIGITS_MAX: Final = 100  # of a number; Python itself refuses those of some thousands

Use = Literal["batch", "stream", "read", "write"]
"""What options are given for; `read` is a batch or a stream, before Spark tells which."""

_EVERY: Final = ("batch", "stream", "write")
_READ: Final = ("batch", "stream")
_KNOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "catalog": _EVERY,
    "table": _EVERY,
    "path": _EVERY,
    "storage_options": _EVERY,
    "branch": _EVERY,
    "at": ("batch",),
    "columns": _READ,
    "filter": _READ,
    "verify": _READ,
    "not_null": ("batch",),
    "partition_bytes": _READ,
    "commit": ("batch", "write"),  # a view's options are for reading it and for inserting into it
    "partition_by": ("write",),
    "key": ("write",),
    "evolve": ("write",),
    "query": ("write",),
    "metadata": ("write",),
    "changes": _READ,
    "deletes": ("stream",),
    "start": _READ,
    "max_rows": ("stream",),
    "max_bytes": ("stream",),
    "max_versions": ("stream",),
}
"""Every option, and what it is for. Their meaning is in docs/spark.md."""


@dataclass(frozen=True)
class SourceOptions:
    """Options, understood. `repr` shows no storage options."""

    catalog: str
    table: str
    storage: Mapping[str, Any] = field(repr=False, default_factory=dict)
    branch: str = MAIN
    at: str | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    verify: bool = True
    not_null: bool = False
    partition_bytes: int | None = None
    commit: str = "job"
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    evolve: bool = False
    query: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    changes: bool = False
    ignore_deletes: bool = False
    start: str = "earliest"
    max_rows: int | None = None
    max_bytes: int | None = None
    max_versions: int | None = None

    def open(self, *, upkeep: bool) -> Catalog:
        """The catalog. No request. Raises `CapabilityMissing` for one that tasks cannot see."""
        catalog = Catalog(
            self.catalog, self.storage, upkeep=upkeep, verify=self.verify, segment_bytes=TASK_SEGMENT_BYTES
        )
        return require_shared(catalog)


def require_shared(catalog: Catalog) -> Catalog:
    """The catalog itself. Raises `CapabilityMissing` for one in this process's memory: tasks are others."""
    if isinstance(catalog.store, MemoryStore):
        raise CapabilityMissing(
            f"{catalog.url} lives in the memory of one process, and Spark's tasks run in others: use a local "
            "path, or a store that all of them reach"
        )
    return catalog


def parse_options(given: Mapping[str, str], use: Use) -> SourceOptions:
    """Options as Spark hands them over. Raises `InvalidArgument`, naming the one that is wrong."""
    options = {name.lower(): text for name, text in given.items() if name.lower() not in SPARKS_OWN}
    _check_names(options, use)
    catalog, table = _place(options, use)
    return SourceOptions(
        catalog,
        table,
        storage=_map(options, "storage_options", secret=True),
        branch=options.get("branch", MAIN),
        at=options.get("at"),
        columns=_list(options["columns"], "columns") if "columns" in options else None,
        filter=options.get("filter"),
        verify=_flag(options, "verify", default=True),
        not_null=_flag(options, "not_null", default=False),
        partition_bytes=_count(options, "partition_bytes"),
        commit=_choice(options, "commit", ("job", "task")),
        partition_by=_list(options.get("partition_by", ""), "partition_by"),
        key=_list(options.get("key", ""), "key"),
        evolve=_flag(options, "evolve", default=False),
        query=options.get("query"),
        metadata=_map(options, "metadata"),
        changes=_flag(options, "changes", default=False),
        ignore_deletes=_choice(options, "deletes", ("fail", "ignore")) == "ignore",
        start=options.get("start", "earliest"),
        max_rows=_count(options, "max_rows"),
        max_bytes=_count(options, "max_bytes"),
        max_versions=_count(options, "max_versions"),
    )


def _check_names(options: Mapping[str, str], use: Use) -> None:
    if any(name == "location" or name.startswith("option.") for name in options):
        raise InvalidArgument(
            "CREATE TABLE would enter a table into Spark's own catalog, which keeps no options of ours: "
            "CREATE TEMPORARY VIEW v USING crdtcat OPTIONS (catalog '...', table '...') instead"
        )
    for name in sorted(options):
        uses = _KNOWN.get(name)
        if uses is None:
            raise InvalidArgument(f"there is no option {name!r}; there are {', '.join(sorted(_KNOWN))}")
        if not set(uses) & ({"batch", "stream"} if use == "read" else {use}):
            meant = {"batch": "reading a batch", "stream": "reading a stream", "write": "writing"}
            raise InvalidArgument(
                f"option {name!r} is for {' or '.join(meant[one] for one in uses)}: leave it out"
            )
    labelled = options.get("changes", "").lower() == "true"
    if use == "batch" and "start" in options and not labelled:
        raise InvalidArgument("option 'start' is for reading changes: add changes=true, or use at")
    if "not_null" in options and labelled:
        raise InvalidArgument("option 'not_null' is for reading a snapshot, not changes: leave it out")
    if "deletes" in options and labelled:
        raise InvalidArgument("option 'deletes' is for a stream without changes: leave it out")


def _place(options: Mapping[str, str], use: Use) -> tuple[str, str]:
    if not options:  # what Spark hands over for a table of its own catalog
        write = (
            "CREATE TABLE AS has none for us: df.write.format('crdtcat').mode('append').save(...) writes rows"
        )
        read = "what saveAsTable entered is read by spark.read.format('crdtcat').load('<catalog>/<table>')"
        raise InvalidArgument(
            "there are no options, and Spark's own catalog keeps none: " + (write if use == "write" else read)
        )
    path = options.get("path", "")
    if path and ("catalog" in options or "table" in options):
        raise InvalidArgument("give either the path <catalog>/<table>, or the options catalog and table")
    catalog, _, table = path.rstrip("/").rpartition("/") if path else (options.get("catalog", ""), "", "")
    table = table or options.get("table", "")
    if re.match("file:/(?!/)", catalog):  # as Hadoop writes it, and Spark shows it
        catalog = catalog.removeprefix("file:")
    if catalog and table and "://" not in catalog and not Path(catalog).is_absolute():
        raise InvalidArgument(
            f"{catalog!r} is a relative path, and processes of Spark have directories of their own: give the "
            "whole path, or use crdtcat.spark.load and save"
        )
    if not catalog or not table:
        missing = "catalog" if not catalog else "table"
        raise InvalidArgument(
            f"option {missing!r} is missing: give catalog and table, or the path <catalog>/<table>"
        )
    return catalog, table


def _list(text: str, name: str) -> tuple[str, ...]:
    """`a, bucket(4, b)`, split at commas outside parentheses; or a JSON list, for names with commas."""
    if text.lstrip().startswith("["):
        names = _json(text, name)
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            raise InvalidArgument(f"{name}={text!r}: a JSON list holds names")
        return tuple(names)
    return tuple(part.strip() for part in re.split(r",(?![^(]*\))", text) if part.strip())


def _map(options: Mapping[str, str], name: str, *, secret: bool = False) -> dict[str, Any]:
    text = options.get(name, "")
    if not text:
        return {}
    found = _json(text, name, secret=secret)
    if not isinstance(found, dict):
        raise InvalidArgument(f"{name} is a JSON object, such as {{}}")
    return found


def _json(text: str, name: str, *, secret: bool = False) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        shown = "" if secret else f"={text[:80]!r}"
        raise InvalidArgument(f"{name}{shown} is not JSON") from (None if secret else error)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidArgument(f"{name}={options[name]!r}: pass true or false")
    return text == "true"


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, str]) -> str:
    text = options.get(name, choices[0])
    if text not in choices:
        raise InvalidArgument(f"{name}={text!r}: pass {' or '.join(map(repr, choices))}")
    return text


def _count(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    text = options[name]
    if not text.isdecimal() or len(text) > DIGITS_MAX or int(text) < 1:
        raise InvalidArgument(
            f"{name}={text[:80]!r}: pass a number from 1 on, of at most {DIGITS_MAX} digits"
        )
    return int(text)
