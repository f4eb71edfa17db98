"""Branches: making, opening, listing and deleting them.

A branch is a start (source branch and snapshot, in one small file) and a log folder of its own. Nothing is
copied: readers join the snapshot's versions, from the source's log, with those in the branch's folder.

Deleting and branching off race, and each looks for the other after it has spoken: who makes a branch puts its
start and then looks whether the source was deleted; who deletes a branch says so and then looks whether
another starts from it. So a log that a live branch needs is never deleted.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crdtcat.errors import (
    AlreadyExists,
    Corrupt,
    DataError,
    Expired,
    InvalidArgument,
    InvalidName,
    NotFound,
    StoreUnavailable,
)
from crdtcat.format.refs import (
    BranchStart,
    branches_folder,
    decode_branch_start,
    deleted_name,
    parse_ref,
    start_name,
)
from crdtcat.format.settings import dropped_name, log_folder
from crdtcat.head import Snapshot
from crdtcat.lifecycle.closing import require_settled
from crdtcat.lifecycle.ending import end_log
from crdtcat.lifecycle.incarnations import MAIN, exists
from crdtcat.lifecycle.letting_go import let_go
from crdtcat.log import Log
from crdtcat.names import validate_branch_name
from crdtcat.session import Session
from crdtcat.store import Store
from crdtcat.support.arguments import require_branch_name
from crdtcat.verbs.naming import branch_holds, main_of, require_held
from crdtcat.verbs.starts import short_snapshot
from crdtcat.verbs.travel import At, head_at


class Life(NamedTuple):
    """One life of a branch's name."""

    branch: str
    number: int = 1


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch.

    Attributes:
        name: its name.
        source: the branch it starts from.
        snapshot: the snapshot of the source that it starts with.
    """

    name: str
    source: str
    snapshot: Snapshot

    def __str__(self) -> str:
        return f"{self.name}: from {self.source} at {self.snapshot.versions:,} versions"


def make_branch(session: Session, name: str, at: At | None) -> Session:
    """Start a branch at a snapshot of this one.

    Costs a refresh, 2 GETs, 1 PUT and 1 LIST; 2 more GETs for each time the name was deleted before; a PUT
    and a refresh more where many committed whom nobody saw (`crdtcat.verbs.starts`). Raises `AlreadyExists`,
    `InvalidName`, `StoreUnavailable` while an expiry is under way that may pass it, and as `at=` does.
    """
    validate_branch_name(name)
    store, incarnation = session.store, session.settings.incarnation
    if name == MAIN:
        raise AlreadyExists(f"every table has a branch {MAIN!r}: choose another name")
    head = head_at(session, at)
    snapshot = head.snapshot
    require_settled(session)
    if session.source is None:  # a branch's own versions are not folded, wherever they sort
        snapshot = snapshot.above(session.state.log)
    snapshot = short_snapshot(session, snapshot)
    life, found = _latest(session, name)
    start = BranchStart(
        session.branch, session.life, str(snapshot), secrets.token_hex(8), _after(session, head.log)
    )
    path = start_name(session.table, incarnation, name, life)
    if found is not None or not store.put_if_absent(path, start.encode()):
        raise AlreadyExists(f"table {session.table!r} already has a branch {name!r}")
    if session.source is not None and exists(store, _over(session, Life(session.branch, session.life))):
        store.put(_over(session, Life(name, life)), b"")
        raise NotFound(f"branch {session.branch!r} of table {session.table!r} was deleted")
    try:
        require_held(session, head.snapshot, head.log.horizon, branch_holds)
    except Expired as error:
        store.put(_over(session, Life(name, life)), b"")
        raise StoreUnavailable(
            f"branch {name!r} was not made: an expiry of table {session.table!r} is under way: {error}; "
            "try again when it is done, or run expire() if it was cut off"
        ) from error
    return _opened(session, Life(name, life), (session, snapshot), start.after)


def open_branch(session: Session, name: str) -> Session:
    """A session on another branch of the same table. 2 GETs for it, and 2 for each it starts from in turn;
    2 more for each time a name was deleted before. Raises `NotFound`."""
    require_branch_name(name)
    main = main_of(session)
    if name == MAIN:
        return main
    try:
        validate_branch_name(name)
    except InvalidName as error:
        raise NotFound(f"table {session.table!r} has no branch {name!r}: {error}") from error
    life, start = _latest(session, name)
    if start is None:
        raise NotFound(f"table {session.table!r} has no branch {name!r}; branch() makes one")
    return _opened(main, Life(name, life), _source(main, start, Life(name, life)), start.after)


def open_life(main: Session, life: Life) -> Session:
    """A session on one life of a branch, over or not: for upkeep, which reads what others start from.

    One GET for it and for each it starts from in turn. Raises `Missing`, `Corrupt`.
    """
    start = _start(main, life)
    return _opened(main, life, _source(main, start, life), start.after, kept=True)


def list_branches(session: Session) -> dict[str, Branch]:
    """All branches but main. One LIST page per 1,000 branches there ever were, and one GET for each."""
    starts = live_starts(session.store, session.table, session.settings.incarnation)
    return {
        life.branch: Branch(life.branch, start.source, _snapshot(session, start, life))
        for life, start in sorted(starts.items())
    }


def delete_branch(session: Session, name: str) -> None:
    """Delete a branch for everybody; commits still under way to it go with it.

    Its log goes too, unless another branch starts from it, in one step or more; then with the last of those.
    One that cannot be read is left to `Catalog.collect`. 2 GETs and 2 PUTs, what `list_branches` costs, a GET
    for each deleted branch that others need, a cold refresh of the branch, 1 PUT if it has segments, and one
    LIST page and DELETE per 1,000 files. Raises `NotFound`, `InvalidArgument`.
    """
    require_branch_name(name)
    if name == MAIN:
        raise InvalidArgument(f"branch {MAIN!r} is the table itself: drop_table() drops it")
    life, start = _latest(session, name)
    if start is None:
        raise NotFound(f"table {session.table!r} has no branch {name!r}")
    store, ended = session.store, Life(name, life)
    store.put(_over(session, ended), b"")
    store.put(dropped_name(_folder(session, ended)), b"")
    starts = needed_starts(store, session.table, session.settings.incarnation)
    needed = {Life(other.source, other.source_life) for other in starts.values()}
    while ended not in needed:
        if _let_go(session, ended):
            end_log(store, _folder(session, ended))
        ended = Life(start.source, start.source_life)
        if ended.branch == MAIN or not exists(store, _over(session, ended)):
            return
        start = _start(session, ended)


def _let_go(session: Session, ended: Life) -> bool:
    """Say which segments a deleted branch's log let go; false if that cannot be known."""
    try:
        branch = open_life(main_of(session), ended)
        log = branch.refresh().state.log
    except (DataError, NotFound, Expired):
        return False
    assert branch.start is not None
    let_go(session.store, np.setdiff1d(log.segment_name, branch.start.segment_name).tobytes())
    return True


def end_all(store: Store, table: str, incarnation: int) -> None:
    """Mark and delete the logs of all branches of a dropped table. As `delete_branch`, for each."""
    for life in lives(store, table, incarnation):
        folder = log_folder(table, life.branch, incarnation, life.number)
        store.put(dropped_name(folder), b"")
        end_log(store, folder)


def live_starts(store: Store, table: str, incarnation: int) -> dict[Life, BranchStart]:
    """The starts of all branches that were not deleted. One LIST page per 1,000, and one GET for each."""
    live = [life for life, over in lives(store, table, incarnation).items() if not over]
    names = [start_name(table, incarnation, *life) for life in live]
    answers = store.get_many([(name, 0, None) for name in names])
    return {
        life: decode_branch_start(data, name)
        for life, name, data in zip(live, names, answers, strict=True)
        if data is not None
    }


def needed_starts(store: Store, table: str, incarnation: int) -> dict[Life, BranchStart]:
    """The starts that reading the branches needs: theirs, and those of deleted branches that they start from
    in turn. As `live_starts`, and one GET for each of those."""
    found = live_starts(store, table, incarnation)
    asked = list(found.values())
    while asked:
        start = asked.pop()
        source = Life(start.source, start.source_life)
        if source.branch != MAIN and source not in found:
            path = start_name(table, incarnation, *source)
            found[source] = decode_branch_start(store.get(path), path)
            asked.append(found[source])
    return found


def lives(store: Store, table: str, incarnation: int) -> dict[Life, bool]:
    """Every life of every branch there ever was, and whether it is over."""
    found: dict[Life, bool] = {}
    for item in store.list(branches_folder(table, incarnation)):
        parsed = parse_ref(item.name)
        if parsed is not None:
            branch, number, over = parsed
            found[Life(branch, number)] = over or found.get(Life(branch, number), False)
    return found


def _latest(session: Session, name: str) -> tuple[int, BranchStart | None]:
    """The life of a name that is not over, and its start; without one, the number of the next life."""
    life = 1
    while True:
        path = start_name(session.table, session.settings.incarnation, name, life)
        start, over = session.store.get_many([(path, 0, None), (_over(session, Life(name, life)), 0, None)])
        if start is None:
            return life, None
        if over is None:
            return life, decode_branch_start(start, path)
        life += 1


def _start(session: Session, life: Life) -> BranchStart:
    path = start_name(session.table, session.settings.incarnation, *life)
    return decode_branch_start(session.store.get(path), path)


def _source(main: Session, start: BranchStart, life: Life) -> tuple[Session, Snapshot]:
    snapshot = _snapshot(main, start, life)
    if start.source == MAIN:
        return main, snapshot
    return open_life(main, Life(start.source, start.source_life)), snapshot


def _opened(
    session: Session, life: Life, source: tuple[Session, Snapshot], after: int, *, kept: bool = False
) -> Session:
    return Session(
        session.store,
        session.table,
        branch=life.branch,
        settings=session.settings,
        options=session.options,
        clock=session.clock,
        origin=session.origin,
        copied=session.copied,
        life=life.number,
        source=source,
        kept=kept,
        after=after,
    )


def _after(session: Session, start: Log) -> int:
    """What is committed on a branch is to be later than its start and than what was expired, whoever's clock
    is behind: else it could not be merged, once main is expired up to the branch's beginning."""
    return max(int(start.id_fields["hlc"].max(initial=0)), start.horizon, main_of(session).state.log.horizon)


def _snapshot(session: Session, start: BranchStart, life: Life) -> Snapshot:
    try:
        return Snapshot.parse(start.snapshot)
    except InvalidArgument as error:
        path = start_name(session.table, session.settings.incarnation, *life)
        raise Corrupt(path, "the start of a branch names no snapshot") from error


def _over(session: Session, life: Life) -> str:
    return deleted_name(session.table, session.settings.incarnation, *life)


def _folder(session: Session, life: Life) -> str:
    return log_folder(session.table, life.branch, session.settings.incarnation, life.number)
