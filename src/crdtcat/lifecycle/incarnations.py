"""Which life of a table's name is the current one, and how one ends and the next begins.

Three kinds of file say it. Each says something that stays true once it was said, so no order of PUTs by any
number of processes, however slow, makes one say something false:

- `settings.json` is created exclusively with the first incarnation. Whoever drops incarnation N overwrites
  it with N's settings, marked as dropped. Then it says that N *and all before it* are dropped: an older
  such statement put over a newer one says less, but nothing wrong. Live settings are never put over it.
- `settings~N.json`, from the second incarnation on, is created exclusively and never changed.
- `dropped` in N's log folder is there once N is dropped.

So a table that was never dropped is found with one GET. Where `settings.json` says dropped, incarnations are
followed upward until one is missing or not dropped. N + 1 is created only once N is dropped, or by whoever
switches the mode of N: it then has N's log, and lives as long as that. `settings.json` says "dropped" of N in
both cases, and it means: look at N + 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from crdtcat.drive import run
from crdtcat.errors import Corrupt, DataError, NotFound
from crdtcat.format.settings import Settings, decode_settings, dropped_name, log_folder, settings_name
from crdtcat.log import State
from crdtcat.log.modes import mode_of
from crdtcat.protocol import Reader, is_claim
from crdtcat.store import Missing, Store
from crdtcat.store.naming import is_part
from crdtcat.store.values import Answers
from crdtcat.support.object_bytes import ObjectBytes

MAIN: Final = "main"
Found = Settings | DataError | None
"""A table's latest settings, or why they cannot be read, or that there are none."""


def current_settings(store: Store, table: str, answers: Answers | None = None) -> Settings | None:
    """The settings of a table's latest incarnation, dropped or not; `None` if there never was one.

    One GET; once the table was dropped, two more for each incarnation after the one `settings.json` names,
    up to one that is live or not there. Raises `Corrupt`, `UnsupportedFormat`.

    Args:
        store: where the table is.
        table: its name.
        answers: what `settings.json` holds, if it was read already.
    """
    found = all_settings(store, [table], answers)[table]
    if isinstance(found, DataError):
        raise found
    return found


def all_settings(store: Store, tables: Sequence[str], answers: Answers | None = None) -> dict[str, Found]:
    """`current_settings` of many tables, read together; an error stands in its table's place."""
    if answers is None:
        answers = store.get_many([(settings_name(table), 0, None) for table in tables])
    found = {table: _decoded(table, None, data) for table, data in zip(tables, answers, strict=True)}
    dropped = found
    while dropped := {table: item for table, item in dropped.items() if _is_dropped(item)}:
        dropped = _following(store, dropped)
        found.update((table, item) for table, item in dropped.items() if item is not None)
    return found


def table_folders(store: Store) -> list[str]:
    """The folders in which tables may be. One LIST. Those that others left there are not looked into, where
    no object of a catalog can have such a name."""
    return [name for name in store.folders("tables/") if is_part(name)]


def create(store: Store, table: str, wanted: Settings, last: Settings | None) -> Settings | None:
    """Create the incarnation after `last`, which is dropped; `None` if others were faster: look again.

    One LIST and one PUT for a table's first incarnation; later ones two GETs more, and a LIST and a PUT where
    the drop was cut off. Of several that create with different settings one wins; those who bring equal ones
    share the table.

    Raises:
        LimitExceeded: settings too large.
        Corrupt: a log is there, and the settings that belong to it are not.
    """
    number = 1 + _number(last)
    name, folder = settings_name(table, number), log_folder(table, MAIN, number)
    settings = wanted.model_copy(update={"incarnation": number})
    data = settings.encode()
    if last is not None:
        _end(store, table, last)
    if store.list_page(folder, limit=1).objects and _number(current_settings(store, table)) < number:
        raise lost(table, number)
    if not store.put_if_absent(name, data):
        return None
    if number > 1 and exists(store, dropped_name(folder)):
        return None  # created by others with equal settings, and dropped since
    return settings


def _end(store: Store, table: str, last: Settings) -> None:
    """Make sure that handles on a dropped table are told: a drop can be cut off before that.

    Raises `Corrupt`: it was not dropped but switched to another mode, and the settings that say so are gone.
    """
    folder = log_folder(table, MAIN, last.incarnation)
    if exists(store, dropped_name(folder)):
        return
    if is_switched(store, table, last) and current_settings(store, table) == last:
        raise lost(table, last.file_number + 1)
    store.put(dropped_name(folder), b"")


def is_switched(store: Store, table: str, over: Settings) -> bool:
    """Whether settings are over because others took their place when the mode was switched. For those of a
    log without the mark that it was dropped.

    Whoever drops by later settings than the first puts the mark before anything else, so where it is not,
    nobody has. Of the first ones, `settings.json` says that they are over before the mark is put, and the
    drop may have been cut off: then the log tells, which decides the mode. A LIST; for settings in CAS mode
    the log is read, and where it cannot be, they count as switched: then nothing takes the table's place.
    """
    folder = log_folder(table, MAIN, over.incarnation)
    if over.file_number > 1:
        return bool(store.list_page(folder, limit=1).objects)
    if over.mode == "merge":
        return any(is_claim(item.name) for item in store.list(folder))
    reader = Reader(folder, State(folder), ordered=store.lists_in_order)
    try:
        return mode_of(run(reader, store).state.log) == "merge"
    except DataError:
        return True


def lost(table: str, number: int) -> Corrupt:
    """The error for a settings file that is not there although its table's log is."""
    return Corrupt(
        settings_name(table, number),
        "missing, and the table's log is there; restore it from a copy, or give the table up: "
        f"drop_table({table!r})",
    )


def drop(store: Store, table: str, settings: Settings) -> None:
    """Drop an incarnation. Two PUTs.

    What decides is put first: openers of a first incarnation read `settings.json` alone, and a later one is
    live until its mark is there, whatever happens to `settings.json`.
    """
    folder = log_folder(table, MAIN, settings.incarnation)
    mark = (dropped_name(folder), b"")
    statement = (settings_name(table), settings.model_copy(update={"dropped": True}).encode())
    for name, data in (statement, mark) if settings.file_number == 1 else (mark, statement):
        store.put(name, data)


def succeed(store: Store, table: str, settings: Settings) -> Settings:
    """Make these the table's current settings, unless those there state a later switch of its mode; which
    ones are current then. One GET and two PUTs; three GETs if the mode was switched before.

    The log has said so already, so being cut off anywhere in between only leaves new handles to find out
    from the log. Raises `NotFound`: the table was dropped.
    """
    while True:
        found = current_settings(store, table)
        if found is None or found.dropped or found.incarnation != settings.incarnation:
            raise NotFound(f"table {table!r} was dropped")
        if found.switched >= settings.switched:
            return found
        wanted = settings.model_copy(update={"number": found.file_number + 1})
        if store.put_if_absent(settings_name(table, found.file_number + 1), wanted.encode()):
            statement = found.model_copy(update={"dropped": True})
            store.put(settings_name(table), statement.encode())
            return wanted
        if current_settings(store, table) == found:  # whoever was faster died before saying so
            store.put(settings_name(table), found.model_copy(update={"dropped": True}).encode())


def _following(store: Store, dropped: Mapping[str, Found]) -> dict[str, Found]:
    """The incarnation after each of these, as dropped if it is; `None` where there is none."""
    wanted = [(table, 1 + _number(item)) for table, item in dropped.items()]
    settings = [(settings_name(table, number), 0, None) for table, number in wanted]
    marks = [(dropped_name(log_folder(table, MAIN, number)), 0, None) for table, number in wanted]
    answers = store.get_many([*settings, *marks])
    found: dict[str, Found] = {}
    for (table, number), data, mark in zip(wanted, answers, answers[len(wanted) :], strict=False):
        item = _decoded(table, number, data)
        if isinstance(item, Settings):
            older = item.incarnation != number  # an older log, in another mode
            folder = log_folder(table, MAIN, item.incarnation)
            if exists(store, dropped_name(folder)) if older else mark is not None:
                item = item.model_copy(update={"dropped": True})
        found[table] = item
    return found


def _decoded(table: str, number: int | None, data: ObjectBytes | None) -> Found:
    """A file's settings: `settings.json` without a number, that of one incarnation with."""
    if data is None:
        return None
    name = settings_name(table, number or 1)
    try:
        settings = decode_settings(data, name)
    except DataError as error:
        return error
    if number is not None and (settings.file_number != number or settings.dropped):
        return Corrupt(name, f"not the settings of number {number}, as they were created")
    return settings


def _is_dropped(item: Found) -> bool:
    return isinstance(item, Settings) and item.dropped


def _number(item: Found) -> int:
    return item.file_number if isinstance(item, Settings) else 0


def exists(store: Store, name: str) -> bool:
    """Whether a small object is there. One GET."""
    try:
        store.get(name)
    except Missing:
        return False
    return True
