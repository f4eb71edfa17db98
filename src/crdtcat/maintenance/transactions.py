"""Collecting transactions: a file goes only when every log it touches has its versions in an old bundle.

Nobody but the transaction's file says what it adds to the other logs, so whoever collects one makes sure of
all of them: it reads back bundles that are older than the grace period and finds every version in them; where
one is missing it writes the bundle, and leaves the file for another time. A log that nobody reads needs
nothing: its table was dropped, or its branch deleted and no other starts from it. So does one that was passed
by when its time was closed: its file counts for nobody. Safe beside readers, writers, bundlers and other
collectors.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from crdtcat.clock.version_id import ID_BYTES
from crdtcat.drive import store_now_ms
from crdtcat.format.closed import NOTHING_CLOSED, Closed, decode_closed
from crdtcat.format.settings import dropped_name, log_folder, parse_log_folder
from crdtcat.format.version import decode_version
from crdtcat.lifecycle.incarnations import MAIN, exists
from crdtcat.log.log import ID
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.maintenance.decisions import collect_decisions
from crdtcat.maintenance.transaction_parts import parts_by_log
from crdtcat.options import Options
from crdtcat.protocol import is_bundle, is_version
from crdtcat.protocol.names import TRANSACTIONS, closed_number, is_decision, transaction_of
from crdtcat.session import Session
from crdtcat.store import ObjectInfo, Store
from crdtcat.verbs.branches import Life, needed_starts

OpenLog = Callable[[str], Session | None]
"""From a log's folder to a session on it; `None`: nobody reads it. Raises `LookupError`: nobody knows."""


@dataclass(frozen=True)
class TransactionsResult:
    """What collecting transactions did.

    Attributes:
        deleted: files deleted.
        kept: files left: too young, or not in the bundles of every log they touch for long enough.
        decisions: decisions deleted.
        bundled: logs for which a bundle was written.
        seconds: how long it took.
    """

    deleted: int
    kept: int
    decisions: int
    bundled: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"transactions: {self.deleted:,} files deleted, {self.kept:,} kept, {self.decisions:,} decisions "
            f"deleted, {self.bundled} logs bundled, in {self.seconds:.2f} s"
        )


def collect_transactions(store: Store, options: Options, open_log: OpenLog) -> TransactionsResult:
    """Delete the files of transactions that every log they touch has in a bundle older than the grace period,
    and decisions that nobody asks for any more.

    Costs one LIST page per 1,000 files, one GET where times were closed and one for each file older than the
    grace period, and for each log they touch one LIST and one GET per old bundle; a checkpoint of a log that
    lacks one; one DELETE.
    """
    began, now_ms = time.monotonic(), store_now_ms(store)
    old_ms = now_ms - int(options.grace_seconds * 1000)
    found = list(store.list(TRANSACTIONS))
    listed = [item for item in found if is_version(item.name)]
    old = [item.name for item in listed if item.modified_ms <= old_ms]
    answers = store.get_many([(name, 0, None) for name in old])
    open_log = functools.cache(open_log)  # the two below ask for every file anew
    covered = _Covered(open_log, old_ms)
    closed = _closed(store, found, old_ms)
    deleted = [name for name in old if closed.passed_by(*transaction_of(name))]
    for name, data in zip(old, answers, strict=True):
        if data is not None and not closed.passed_by(*transaction_of(name)):
            _, body = decode_version(data, name)
            if covered.everywhere(parts_by_log(body, name), name):
                deleted.append(name)
    store.delete(deleted)
    named = [item for item in found if is_decision(item.name)]
    decisions = collect_decisions(store, named, old_ms, open_log, covered.bundled)
    return TransactionsResult(
        len(deleted),
        len(listed) - len(deleted),
        decisions,
        len(covered.bundled),
        time.monotonic() - began,
    )


def is_needed(store: Store, folder: str) -> bool:
    """Whether a branch starts from a log that is marked as dropped, in one step or more. No request for main;
    a GET, and what `needed_starts` costs."""
    table, branch, incarnation, life = parse_log_folder(folder)
    if branch == MAIN or exists(store, dropped_name(log_folder(table, MAIN, incarnation))):
        return False
    return Life(branch, life) in needed_starts(store, table, incarnation)


def _closed(store: Store, found: Sequence[ObjectInfo], old_ms: int) -> Closed:
    """What was settled longer than a grace period ago. One GET, none where nothing was."""
    files = [(closed_number(item.name), item.name) for item in found if item.modified_ms <= old_ms]
    number, name = max(files, default=(0, ""))
    (data,) = store.get_many([(name, 0, None)]) if number else (None,)
    return NOTHING_CLOSED if data is None else decode_closed(data, name, number)


class _Covered:
    """Which versions old bundles hold, log by log, read once."""

    def __init__(self, open_log: OpenLog, old_ms: int) -> None:
        self._open, self._old_ms = open_log, old_ms
        self._ids: dict[str, Any] = {}
        self.bundled: set[str] = set()

    def everywhere(self, parts: Mapping[str, list[bytes]], name: str) -> bool:
        """Whether all parts of the file `name` are in bundles."""
        return all([self._in(folder, parts[folder], name) for folder in parts])  # noqa: C419 (all logs)

    def _in(self, folder: str, versions: list[bytes], name: str) -> bool:
        try:
            session = self._open(folder)
        except LookupError:
            return False
        if session is None:
            return True
        if folder not in self._ids:
            self._ids[folder] = self._read(session)
        ids = np.array([decode_version(data, name)[0].to_bytes() for data in versions], ID)
        if bool(np.isin(ids, self._ids[folder]).all()):
            return True
        if folder not in self.bundled:
            with suppress(LookupError):  # dropped meanwhile: another time
                checkpoint(session)
            self.bundled.add(folder)
        return False

    def _read(self, session: Session) -> Any:
        names = [
            item.name
            for item in session.store.list(session.folder)
            if is_bundle(item.name) and item.modified_ms <= self._old_ms
        ]
        found = session.store.get_many([(name, 0, None) for name in names])
        logs = [
            session.state.read((name, data)).log
            for name, data in zip(names, found, strict=True)
            if data is not None
        ]
        return np.concatenate([log.ids for log in logs]) if logs else np.empty(0, f"S{ID_BYTES}")
