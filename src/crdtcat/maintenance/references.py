"""What a catalog's tables refer to: every segment that a version within anybody's reach names.

Read in the order in which readers read: transactions first, then every log of every live table, its branches
and the logs that branches start from, though their own branch was deleted. Logs of dropped tables and of
branches that nothing starts from are *dead*: what they name counts for nothing, and their files may go.
What transactions name counts by what the logs that they touch say (`crdtcat.maintenance.transaction_parts`).

Whatever cannot be read makes the whole undertaking fail, by name: a collector must never guess. What changes
while it is read is read again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from crdtcat.clock import HybridClock
from crdtcat.errors import Corrupt, DataError, Expired, Missing, NotFound, StoreUnavailable
from crdtcat.format.refs import BranchStart, decode_branch_start, start_name
from crdtcat.format.settings import Settings, dropped_name, log_folder
from crdtcat.lifecycle.incarnations import MAIN, all_settings, exists, is_switched, lost, table_folders
from crdtcat.maintenance.each import Each
from crdtcat.maintenance.transaction_parts import Part, Referred, parts_by_table, titles_of
from crdtcat.options import Options
from crdtcat.session import Session
from crdtcat.store import Store
from crdtcat.verbs.branches import Life, lives, open_life

PASSES_MAX: Final = 3
REFS: Final = "refs"

Dead = tuple[tuple[str, str], ...]
Found = Callable[[bytes], object]
"""Takes the names of segments that something refers to, 24 bytes each, concatenated."""


@dataclass(frozen=True)
class Survey:
    """What was found while the catalog's references were read.

    Attributes:
        tables: live tables.
        logs: logs read.
        dead: folders that nobody reads any more (logs, tags and branch starts of what was dropped), each with
            the log folder whose mark says so.
    """

    tables: int
    logs: int
    dead: Dead


def survey(
    store: Store,
    options: Options,
    found: Found,
    told: Callable[[int, int], object],
    each: Each | None = None,
) -> Survey:
    """Read every reference in the catalog and hand it to `found`.

    Costs one GET per transaction, the settings of every table, one LIST per table and per live table's branch
    starts (two), one GET per branch there ever was, and a cold refresh of every log.

    Raises:
        Corrupt, UnsupportedFormat: something cannot be read; nothing may be concluded.
        StoreUnavailable: the store cannot be asked, or changed faster than it could be read.
    """
    parts = parts_by_table(store)
    tables = table_folders(store)
    settings = all_settings(store, tables)
    found(titles_of(part for name in parts.keys() - set(tables) for part in parts[name]))
    live = logs = 0
    dead: Dead = ()
    work = functools.partial(_read_table, store, options)
    items = [(name, settings[name], parts.get(name, [])) for name in tables]
    read = map(work, items) if each is None else each("reading logs", work, items)
    for done, (count, gone, titles) in enumerate(read, start=1):
        found(titles)
        live += count > 0
        logs += count
        dead += gone
        told(done, len(tables))
    return Survey(live, logs, tuple(dead))


def _read_table(
    store: Store, options: Options, item: tuple[str, Settings | DataError | None, list[Part]]
) -> tuple[int, Dead, bytes]:
    """How many logs of a table were read, which of its folders are dead, and what its logs refer to."""
    table, settings, parts = item
    referred = Referred(parts)
    count, dead = _table(store, options, table, settings, referred)
    return count, dead, referred.titles


def _table(
    store: Store, options: Options, table: str, settings: Settings | DataError | None, referred: Referred
) -> tuple[int, Dead]:
    """How many logs of a table were read, and which of its folders are dead."""
    failure: Exception | None = None
    for _ in range(PASSES_MAX):
        if isinstance(settings, DataError):
            raise settings
        try:
            return _pass(store, options, table, settings, referred)
        except (NotFound, Corrupt, StoreUnavailable, Missing) as error:  # dropped, deleted, made meanwhile?
            failure = Corrupt(error.name, "missing") if isinstance(error, Missing) else error
            settings = all_settings(store, [table])[table]
    assert failure is not None
    raise failure


def _pass(
    store: Store, options: Options, table: str, settings: Settings | None, referred: Referred
) -> tuple[int, Dead]:
    folders = {name: _incarnation(name) for name in store.folders(f"tables/{table}/") if name != REFS}
    if settings is None:
        if any(next(store.list(f"tables/{table}/{name}/"), None) is not None for name in folders):
            raise lost(table, 1)
        referred.by_transactions(but=())
        return 0, ()
    newest = settings.incarnation
    if any(number is None or number > newest for number in folders.values()):
        strange = next(name for name, number in folders.items() if number is None or number > newest)
        raise StoreUnavailable(
            f"tables/{table}/{strange}/ belongs to no table that can be opened: it is being created, or its "
            "settings are missing; try again later, and if that does not help, restore them"
        )
    if settings.dropped and _goes_on(store, table, settings):
        raise lost(table, settings.file_number + 1)
    ended = newest if settings.dropped else newest - 1
    dead = [(f"tables/{table}/{name}/",) * 2 for name, number in folders.items() if (number or 0) <= ended]
    refs = {name: _incarnation(name) for name in store.folders(f"tables/{table}/{REFS}/")} if ended else {}
    for name, number in refs.items():
        if number is not None and number <= ended:
            dead.append((f"tables/{table}/{REFS}/{name}/", log_folder(table, MAIN, number)))
    if settings.dropped:
        referred.by_transactions(but={folder for folder, _ in dead})
        return 0, tuple(dead)
    ours = {f"tables/{table}/{name}/" for name, number in folders.items() if number == newest}
    count, needed = _live(store, options, table, settings, referred)
    over = {log_folder(table, *life_folder) for life_folder in needed.over}
    unknown = ours - needed.folders - over
    if unknown:
        raise StoreUnavailable(
            f"{min(unknown)} belongs to no branch that is known: it was made meanwhile, or its start is "
            "missing; try again later, and if that does not help, restore it"
        )
    dead += [(folder,) * 2 for folder in sorted(ours & over - needed.folders)]
    referred.by_transactions(but={*needed.folders, *(folder for folder, _ in dead)})
    return count, tuple(dead)


def _goes_on(store: Store, table: str, over: Settings) -> bool:
    """Whether the log of settings that are over is that of a table which lives, and whose settings are lost.
    One GET, and as `is_switched` where the log has no mark that it was dropped."""
    marked = exists(store, dropped_name(log_folder(table, MAIN, over.incarnation)))
    return not marked and is_switched(store, table, over)


@dataclass(frozen=True)
class _Needed:
    """Folders of logs that somebody reads, and (branch, incarnation, life) of branches that are over."""

    folders: frozenset[str]
    over: tuple[tuple[str, int, int], ...]


def _live(
    store: Store, options: Options, table: str, settings: Settings, referred: Referred
) -> tuple[int, _Needed]:
    """Read main, every live branch, and the deleted ones that live ones start from.

    A life is over if a first listing says so; what starts from what is taken from a second one. Who makes a
    branch puts its start before it looks whether the source is over, so a start that counts is in there.
    """
    number = settings.incarnation
    before = lives(store, table, number)
    starts = _starts(store, table, number, lives(store, table, number))
    over = {life for life, is_over in before.items() if is_over}
    needed = set(starts) - over
    reached = list(needed)
    while reached:
        start = starts[reached.pop()]
        source = Life(start.source, start.source_life)
        if source.branch != MAIN and source not in needed:
            if source not in starts:
                raise Corrupt(start_name(table, number, *source), "missing, and a branch starts from it")
            needed.add(source)
            reached.append(source)
    main = Session(store, table, branch=MAIN, settings=settings, options=options, clock=HybridClock())
    referred.by(main.refresh().state)
    folders = {main.folder}
    for life in sorted(needed):
        session = open_life(main, life)
        try:
            referred.by(session.refresh().state)
        except Expired as error:
            ends = " and ".join(f"delete_branch({name!r})" for name in _starting_from(life, starts, over))
            raise Corrupt(
                start_name(table, number, *life),
                f"cannot be read, so nothing is collected: {error}; {ends} of table {table!r} gives it up",
            ) from error
        folders.add(session.folder)
    return len(folders), _Needed(
        frozenset(folders), tuple((life.branch, number, life.number) for life in over)
    )


def _starting_from(life: Life, starts: Mapping[Life, BranchStart], over: Collection[Life]) -> list[str]:
    """The branches whose end lets a life go: itself, or those that start from it in one step or more."""
    found, grown = {life}, True
    while grown:
        more = {each for each, start in starts.items() if Life(start.source, start.source_life) in found}
        grown = not more <= found
        found |= more
    return sorted(each.branch for each in found if each not in over)


def _starts(
    store: Store, table: str, incarnation: int, wanted: Mapping[Life, bool]
) -> dict[Life, BranchStart]:
    names = [start_name(table, incarnation, *life) for life in wanted]
    starts = {}
    answers = store.get_many([(name, 0, None) for name in names])
    for life, name, data in zip(wanted, names, answers, strict=True):
        if data is None:
            raise Corrupt(name, "missing, and the branch is there")
        starts[life] = decode_branch_start(data, name)
    return starts


def _incarnation(folder: str) -> int | None:
    """Of which incarnation a log folder is; `None`: of none."""
    _, *numbers = folder.split("~")
    if not all(number.isdecimal() for number in numbers) or len(numbers) > 2:
        return None
    return int(numbers[0]) if numbers else 1
