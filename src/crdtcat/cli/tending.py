"""Commands of upkeep: what cron runs. Each may run beside any number of writers, and of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from crdtcat.cli.command import DRY_RUN, TABLE, Command, Given, age_or_moment, argument, names
from crdtcat.errors import InvalidArgument
from crdtcat.table import Table

GROUP: Final = "tend"
PROBLEMS: Final = 6
"""Exit status where stored bytes are not what they should be, as of `DataError`."""


def _tables(given: Given) -> Iterator[Table]:
    """Those that were named, or all of the catalog."""
    catalog = given.catalog
    for wanted in given.tables or catalog.tables():
        name, _, branch = wanted.partition("@")
        yield catalog.table(name, branch or "main")


def compact(given: Given) -> None:
    """Small chunks together."""
    for table in _tables(given):
        cluster = names(given.cluster_by) or None
        print(f"{table.name}: {table.compact(cluster_by=cluster, progress=given.progress)}", flush=True)


def expire(given: Given) -> None:
    """History goes, rows stay."""
    if given.older_than is None and given.keep_last is None:
        raise InvalidArgument("expire what? Pass --older-than 30d, --keep-last N, or both")
    age = age_or_moment(given.older_than) if given.older_than else None
    for table in _tables(given):
        result = table.expire(age, given.keep_last, dry_run=given.dry_run, progress=given.progress)
        print(f"{table.name}: {result}", flush=True)


def checkpoint(given: Given) -> None:
    """One bundle of the log."""
    for table in _tables(given):
        print(f"{table.name}: {table.checkpoint()}", flush=True)


def collect(given: Given) -> object:
    """What nothing refers to."""
    catalog, progress = given.catalog, given.progress
    for name in catalog.tables():
        print(f"{name}: {catalog.table(name).collect(dry_run=given.dry_run, progress=progress)}", flush=True)
    if not given.dry_run:
        print(catalog.collect_transactions(), flush=True)
    return catalog.collect(grace=given.grace_hours * 3_600, dry_run=given.dry_run, progress=progress)


def verify(given: Given) -> int:
    """Look at everything. The exit status tells whether it is whole."""
    whole = True
    for table in _tables(given):
        report = table.verify(given.depth, progress=given.progress)
        print(report, flush=True)
        whole = whole and report.ok
    return 0 if whole else PROBLEMS


def sync(given: Given) -> object:
    """Exchange versions, both ways."""
    return given.catalog.sync(
        given.other, names(given.tables) or None, create=not given.no_create, progress=given.progress
    )


def switch_mode(given: Given) -> str:
    """From merging to strict history, or back."""
    version = given.table.switch_mode(given.mode)
    return str(version) if version else f"it was in {given.mode} mode already"


_TABLES: Final = argument(
    "tables", nargs="*", metavar="table", help="tables, or TABLE@BRANCH; all of the catalog"
)

COMMANDS: Final = (
    Command(
        "compact", GROUP, "join small chunks, fold updates and deletes in", compact,
        (_TABLES, argument("--cluster-by", metavar="A,B", help="rows in the order of these, too")),
    ),
    Command(
        "expire", GROUP, "forget old history; rows stay", expire,
        (
            _TABLES,
            argument("--older-than", metavar="AGE", help="30d, 12h, 90m, or a moment"),
            argument("--keep-last", type=int, metavar="N", help="keep so many versions"),
            DRY_RUN,
        ),
    ),
    Command("checkpoint", GROUP, "bundle the log now", checkpoint, (_TABLES,)),
    Command(
        "collect", GROUP, "delete what nothing refers to", collect,
        (
            argument("--grace-hours", type=float, default=24.0, metavar="N", help="age of garbage; 24"),
            DRY_RUN,
        ),
    ),
    Command(
        "verify", GROUP, f"check everything; exit status {PROBLEMS} where something is damaged", verify,
        (_TABLES, argument("--depth", choices=("metadata", "bytes", "content"), default="bytes")),
    ),
    Command(
        "sync", GROUP, "exchange versions with another catalog, both ways", sync,
        (
            argument("other", help="its URL"),
            argument("--tables", metavar="A,B", help="only these"),
            argument("--no-create", action="store_true", help="an error where there is no catalog yet"),
        ),
    ),
    Command(
        "switch-mode", GROUP, "from merging to strict history, or back", switch_mode,
        (TABLE, argument("mode", choices=("merge", "cas"))),
    ),
)  # fmt: skip
