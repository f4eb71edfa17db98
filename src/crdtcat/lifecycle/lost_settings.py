"""A table whose settings are damaged or missing: what can still be said of it, and how it is dropped.

A settings file is never guessed for reading or writing: what every commit means depends on it. But dropping a
table and looking for damage need little: which numbers its settings files and its log's folders have, and
whether there are claims. That is in their names. So what was damaged can be dropped, and its name used again,
and the rest of it can be verified before somebody decides to restore the file or to give up.
"""

from __future__ import annotations

import re
from typing import Final

from crdtcat.errors import Corrupt, InvalidName
from crdtcat.format.settings import Settings, decode_settings, dropped_name, log_folder, settings_name
from crdtcat.lifecycle.incarnations import MAIN, current_settings, drop, is_switched, lost
from crdtcat.protocol import is_claim
from crdtcat.store import Missing, Store

_FILE: Final = re.compile(r"settings(?:~([0-9]{1,9}))?\.json")
_FOLDER: Final = re.compile(rf"{MAIN}(?:~([0-9]{{1,9}}))?")


def known_or_likely(store: Store, table: str) -> tuple[Settings | None, bool]:
    """A table's settings; where they are damaged or missing, `likely_settings`. And whether they are known.

    One GET, as `current_settings`; a few LISTs more where no live table is found so.
    Raises `UnsupportedFormat`: they are of a later release, and nothing is wrong with them.
    """
    try:
        found = current_settings(store, table)
    except Corrupt:
        return likely_settings(store, table), False
    if found is not None and not (found.dropped and _lives_on(store, table, found)):
        return found, True
    return likely_settings(store, table), False  # none are there, or not those of a log that lives


def require_none(store: Store, table: str, found: Settings | None) -> Settings | None:
    """Look closer where no live settings were found; those of a table that was made meanwhile.

    A LIST, one for the last log that there was, and one GET if it lives. Raises `Corrupt`: a log is there,
    and the settings that belong to it are not.
    """
    while _has_log(store, table, found):
        now = current_settings(store, table)
        if now == found:
            raise lost(table, 1 if found is None else found.file_number + 1)
        if now is not None and not now.dropped:
            return now
        found = now
    return None


def _has_log(store: Store, table: str, ended: Settings | None) -> bool:
    return is_there(store, table) if ended is None else _lives_on(store, table, ended)


def is_there(store: Store, table: str) -> bool:
    """Whether a folder without settings holds a table that was not dropped. A LIST, and one for each log."""
    return any(_logs(store, table).values())


def likely_settings(store: Store, table: str) -> Settings | None:
    """The settings that the names of files allow for: the latest number, and the mode, not columns and key.

    `None` where nothing is there. A LIST or two, and two GETs; one more LIST for the mode. Where only
    `settings.json` is damaged, and a later file says what the table is, that file's settings.
    """
    root = f"tables/{table}/"
    files = [_FILE.fullmatch(item.name.removeprefix(root)) for item in store.list(root)]
    numbers = [int(match[1] or 1) for match in files if match]
    logs = _logs(store, table)
    latest = max((*numbers, *logs), default=0)
    if not latest:
        return None
    first = _readable(store, settings_name(table))
    if first is not None and first.dropped:
        latest = max(latest, first.file_number + 1)  # look further, it says
    found = first if latest == 1 else _readable(store, settings_name(table, latest))
    if found is not None and not found.dropped and found.file_number == latest:
        return found
    log = max((number for number, lives in logs.items() if lives), default=latest)
    number = None if log == latest else latest
    return Settings(incarnation=log, number=number, mode="cas" if _is_strict(store, table, log) else "merge")


def _readable(store: Store, name: str) -> Settings | None:
    try:
        return decode_settings(store.get(name), name)
    except (Missing, Corrupt):
        return None


def _logs(store: Store, table: str, since: int = 1) -> dict[int, bool]:
    """The numbers of the logs that are there, but for branches, and whether each lives: it has no mark that
    says it was dropped. A LIST, and one for each, of those from a number on."""
    found: dict[int, bool] = {}
    for match in map(_FOLDER.fullmatch, store.folders(f"tables/{table}/")):
        number = 0 if match is None else int(match[1] or 1)
        if number < since:
            continue
        names = [item.name for item in store.list(log_folder(table, MAIN, number))]
        if names:
            found[number] = dropped_name(log_folder(table, MAIN, number)) not in names
    return found


def _lives_on(store: Store, table: str, ended: Settings) -> bool:
    """Whether there is a log for which other settings were made after these had ended.

    A later one, or the same, whose mode was switched since. (Without a mark it may also be of a drop that was
    cut off, which is a drop all the same.)
    """
    living = [number for number, lives in _logs(store, table, ended.incarnation).items() if lives]
    return any(number > ended.incarnation for number in living) or (
        ended.incarnation in living and is_switched(store, table, ended)
    )


def _is_strict(store: Store, table: str, log: int) -> bool:
    return any(is_claim(item.name) for item in store.list(log_folder(table, MAIN, log)))


def drop_likely(store: Store, table: str, likely: Settings) -> list[int]:
    """Say of a table with damaged settings that all its lives so far are over; which logs that ends.

    Which of them was the last one cannot be told, so each gets its mark. As `drop`, and one PUT for each.
    Raises `InvalidName`, before anything is changed: a folder stands in the place of `settings.json`, which
    on a file system cannot be written then.
    """
    statement = settings_name(table)
    if statement.rsplit("/", 1)[1] in store.folders(f"tables/{table}/"):
        raise InvalidName(f"{statement!r} in {store.url} is a folder: move it away, then drop the table")
    latest = likely.file_number
    logs = sorted({latest, *_logs(store, table)})
    for number in logs:
        store.put(dropped_name(log_folder(table, MAIN, number)), b"")
    drop(store, table, likely)
    return logs
