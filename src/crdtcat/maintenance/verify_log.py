"""Verification of what a table's state rests on: tags, transactions, versions, bundles.

A reader stops at the first damaged file; this reads every one, also those that a reader would pass over
because a bundle covers them, and puts together what can be read. Files that are collected meanwhile are no
damage: what vanishes is looked for again in a new listing. Memory: the log, and a batch of files.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from crdtcat.cas.decisions import decisions_for
from crdtcat.errors import Corrupt, CrdtcatError, DataError
from crdtcat.format.refs import decode_branch_start, start_name
from crdtcat.head.snapshot import Snapshot
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.log import Log, State, select
from crdtcat.log.files import index_of_file
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.maintenance.verify_named import Named, holds
from crdtcat.maintenance.verify_report import Problem
from crdtcat.maintenance.verify_small_files import (
    LogCheck,
    check_hint,
    check_lists,
    check_small_files,
    damaged_claims,
    why_of,
)
from crdtcat.protocol import (
    boundary_name,
    bundle_number,
    claim_name,
    is_bundle,
    is_claim,
    is_commit,
    is_version,
    mark_name,
)
from crdtcat.protocol.names import TRANSACTIONS, closed_number, is_decision, transaction_of
from crdtcat.protocol.reader import PASSES_MAX
from crdtcat.session import Session
from crdtcat.store import ObjectInfo
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.verbs.branches import lives, open_branch

BATCH_BYTES: Final = 32 * 2**20
BATCH_FILES: Final = 512
NAMED_MAX: Final = 1_000  # missing versions named one by one; a bundle can hold a million


def check_log(session: Session, tell: Tell) -> LogCheck:
    """Read and check everything but segments.

    Costs one GET for each file of the log, of `transactions/` and of `garbage/`, for each tag and branch, for
    the hint, the settings and the marker, and their LIST pages; decisions and the hint are read twice. Raises
    `NotFound`: the table was dropped; and what the store raises.
    """
    check = LogCheck(State(session.folder))
    check_small_files(session, check)
    check_lists(session, check)
    named = Named(session, check)  # before the log, which then holds what they name
    _check_one(session, check, tell)
    named.judge()
    for name, snapshot in named.tags.items():
        if not holds(check.state.log, snapshot) and not _in_a_branch(session, snapshot):
            why = f"names {snapshot.versions:,} versions, of which not all can be read"
            check.problems.append(Problem(name, why))
    return check


def _check_one(session: Session, check: LogCheck, tell: Tell) -> None:
    """One log; for a branch, first the log that it starts from."""
    if session.source is not None:
        source, snapshot = session.source
        check.state = State(source.folder)
        _check_one(source, check, tell)
        log = check.state.log
        check.state = State(session.folder, _started(log, snapshot))
        _check_start(session, snapshot, check)
    damaged = _read_files(session, check, tell)
    _check_mark(session, check)
    _check_boundary(session, check)
    check_hint(session, check)
    _judge(session, check, damaged)


def _started(log: Log, snapshot: Snapshot) -> Log:
    return select(log, snapshot.members(log) | log.is_upkeep) if len(log) else log


def _check_start(session: Session, snapshot: Snapshot, check: LogCheck) -> None:
    name = start_name(session.table, session.settings.incarnation, session.branch, session.life)
    (data,) = session.store.get_many([(name, 0, None)])
    check.files += 1
    check.bytes += len(data or b"")
    try:
        if data is None:
            raise Corrupt(name, "missing: the store has no such object")
        if decode_branch_start(data, name).encode() != data:
            raise Corrupt(name, "damaged: not the bytes that were written")
    except DataError as error:
        check.problems.append(Problem(name, why_of(error)))
    if not holds(check.state.log, snapshot):
        why = f"the branch starts with {snapshot.versions:,} versions, of which not all can be read"
        check.problems.append(Problem(name, why))


def _read_files(session: Session, check: LogCheck, tell: Tell) -> dict[str, DataError]:
    done: set[str] = set()
    damaged: dict[str, DataError] = {}
    gaps: frozenset[tuple[int, int]] = frozenset()
    what = f"verify {session.table}"
    for _ in range(PASSES_MAX):
        listed = [item for folder in (TRANSACTIONS, session.folder) for item in session.store.list(folder)]
        check.listed = [item.name for item in listed]
        session.check_not_dropped(check.listed)
        todo = [item for item in listed if _is_log_file(item.name) and item.name not in done]
        # What tells which transactions count comes before them, and bundles before claims.
        todo.sort(key=lambda item: (not closed_number(item.name), is_claim(item.name)))
        vanished = False
        for batch in _batches(todo):
            answers = session.store.get_many([(item.name, 0, None) for item in batch])
            files = [(i.name, data) for i, data in zip(batch, answers, strict=True) if data is not None]
            vanished = vanished or len(files) < len(batch)
            damaged |= damaged_claims(files)
            check.state = _joined(check.state, [file for file in files if file[0] not in damaged], damaged)
            done |= {name for name, _ in files}
            check.files += len(files)
            check.bytes += sum(len(data) for _, data in files)
            total = len(done) + sum(item.name not in done for item in todo)
            tell(Progress(what, len(done), total, "log files", check.bytes, len(damaged)))
        decisions = [file for file in decisions_for(session.store, check.state) if file[0] not in damaged]
        check.state = _joined(check.state, decisions, damaged)
        check.files += len(decisions)
        check.bytes += sum(len(data) for _, data in decisions)
        now = check.state.gaps()
        if not vanished and now == gaps:  # seen twice, or none: not a version that came in between
            break
        gaps = now
    tell(Progress(what, len(done), len(done), "log files", check.bytes, len(damaged)))
    return damaged


def _is_log_file(name: str) -> bool:
    return is_commit(name) or is_bundle(name) or closed_number(name) > 0


def _batches(items: Sequence[ObjectInfo]) -> Iterator[list[ObjectInfo]]:
    batch: list[ObjectInfo] = []
    size = 0
    for item in items:
        if batch and (len(batch) == BATCH_FILES or size + item.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.size
    if batch:
        yield batch


def _joined(state: State, files: Sequence[tuple[str, ObjectBytes]], damaged: dict[str, DataError]) -> State:
    """The state with all files that are good."""
    try:
        return state.joined(files)
    except DataError:
        pass
    good = []
    for file in files:
        try:
            State(state.folder).joined([file])
        except DataError as error:
            damaged[file[0]] = error
        else:
            good.append(file)
    return state.joined(good)


def _judge(session: Session, check: LogCheck, damaged: dict[str, DataError]) -> None:
    """What damaged and missing files cost, as far as that can be known."""
    log, known = check.state.log, session.state.log
    passed = [transaction_of(name)[1] for name in check.state.elsewhere]
    lost = np.flatnonzero(  # versions this handle has seen, and are nowhere now
        (log.find(known.ids) < 0) & ~np.isin(known.id_fields["writer"].astype(np.uint64), passed)
    )
    lost_rows = {known.id_at(int(at)): _rows_added(session, int(at)) for at in lost.tolist()}
    for name, error in sorted(damaged.items()):
        rows: int | None = None
        if is_decision(name):
            pass  # what it decides is in claims, which nobody can count without it
        elif index_of_file(log, name) >= 0:
            rows = 0
        elif index_of_file(known, name) >= 0:
            rows = _rows_added(session, index_of_file(known, name))
        elif name in check.state.replaced or (len(known) and not lost_rows and not check.state.gaps()):
            rows = 0
        check.problems.append(Problem(name, why_of(error), rows, None if rows is None else 0))
    missing = {(id.writer, id.seq) for id in lost_rows}
    named = [id for id in lost_rows if session.state.file_of(id) not in damaged]
    for id in named[:NAMED_MAX]:
        name, why = session.state.file_of(id), "this handle has read it, and neither it nor a bundle with it"
        if known.transaction[known.index_of(id)].is_valid:  # its file has an id of its own
            name = TRANSACTIONS
            why = f"this handle has read version {id} of a transaction, and neither that nor a bundle with it"
        check.problems.append(Problem(name, f"missing: {why} is there now", lost_rows[id], 0))
    if len(named) > NAMED_MAX:
        rows = sum(lost_rows[id] for id in named[NAMED_MAX:])
        why = f"{len(named) - NAMED_MAX:,} more versions are missing"
        check.problems.append(Problem(session.folder, why, rows, 0))
    damaged_here = any(rows is None for rows in (problem.rows for problem in check.problems))
    for writer, seq in sorted(check.state.gaps() - missing):
        hint = "; it may be in a damaged file named above" if damaged_here else ""
        why = f"version {seq} of writer {writer:016x} is missing; later ones are there{hint}"
        check.problems.append(Problem(session.folder, why))


def _rows_added(session: Session, version: int) -> int:
    log = session.state.log
    return int(log.rows[log.chunk_start[version] : log.chunk_start[version + 1]].sum())


def _check_mark(session: Session, check: LogCheck) -> None:
    """A log that a transaction touches has a mark, or readers pass the transaction over."""
    mark = mark_name(session.folder)
    names = [name for name in check.listed if name.startswith(TRANSACTIONS) and is_version(name)]
    touching = [name for name in names if name not in check.state.elsewhere]
    if touching and mark not in check.listed:
        why = f"missing: {len(touching):,} transactions touch this table, and readers do not look for them"
        check.problems.append(Problem(mark, why))


def _check_boundary(session: Session, check: LogCheck) -> None:
    """Numbers of claims whose files are gone are told by names: of bundles, or of a boundary."""
    log = check.state.log
    number = int(log.number.max(initial=0, where=log.is_folded))
    told = max((bundle_number(name) for name in check.listed), default=0)
    if number > told and claim_name(session.folder, number) not in check.listed:
        why = f"missing: nothing tells that the numbers up to {number:,} are taken; collect() puts it"
        check.problems.append(Problem(boundary_name(session.folder, number), why, 0, 0))


def _in_a_branch(session: Session, snapshot: Snapshot) -> bool:
    """Whether a snapshot is one of another branch, or may have been of one that was deleted: tags are shared
    by all branches. Reads the logs of all branches; only for tags that name something else than this one."""
    all_lives = lives(session.store, session.table, session.settings.incarnation)
    if any(all_lives.values()):
        return True
    for name in {MAIN, *(life.branch for life in all_lives)} - {session.branch}:
        try:
            other = copy.copy(open_branch(session, name))  # a copy has read nothing yet
            if holds(other.refresh().state.log, snapshot):
                return True
        except (CrdtcatError, LookupError):  # damaged: that branch's own verification tells
            continue
    return False
