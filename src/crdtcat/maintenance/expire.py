"""Expiry: folding what is below a horizon into a base, and forgetting its history.

The order is what makes it safe: propose the horizon, then list, then write the base with everything found
(model: proofs/tla/Horizon.tla). Bases are created exclusively, by number, each from the one before: of
several expirers that race one wins, and the others begin again from its base. So what a base admitted is
settled for good, and what it did not is dead for good.

Tags and branch starts hold the horizon down: what is folded is read as a whole, so every snapshot that must
stay readable has to contain all of it.

In CAS mode the newest claim stays above the horizon. Whoever claims the next number is stamped later than it,
so no claim is ever passed by, however slow it was. A table that is being switched to CAS mode is left alone
until it is: the switch is stamped above what was proposed before it was announced.

A table that took part in transactions in merge mode is expired up to a time at which these were closed, for
all tables at once (`crdtcat.lifecycle.closing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from crdtcat.cas.switching import settle_switch
from crdtcat.clock import hlc
from crdtcat.drive import elapsed_clock, put_all, store_now_ms
from crdtcat.errors import CapabilityMissing, Expired, InvalidArgument, StoreUnavailable
from crdtcat.head import Head
from crdtcat.lifecycle.closing import close
from crdtcat.lifecycle.horizons import ABANDONED_MS, proposals, propose, propose_instead, withdraw
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.lifecycle.letting_go import let_go
from crdtcat.log import Log, encode_bundle
from crdtcat.log.horizon import below, emptied
from crdtcat.maintenance.brought import Brought
from crdtcat.maintenance.bundling import INLINE_BYTES_AT_ONCE
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.maintenance.expire_until import check_until, wanted_horizon
from crdtcat.maintenance.holds import claimed_until, holds
from crdtcat.maintenance.progress import Progress, Tell, teller
from crdtcat.maintenance.summaries import summaries_of
from crdtcat.protocol import (
    Object,
    Put,
    base_name,
    base_number,
    boundary_name,
    is_boundary,
    is_bundle,
)
from crdtcat.session import Session
from crdtcat.support.arguments import require_flag
from crdtcat.writing.inlined import moved_to_segments

TRIES: Final = 8  # other expirers would have to be faster every time
HOLDS_SECONDS_MAX: Final = 60.0  # from looking for holds to storing the base
PROPOSED_SECONDS_MAX: Final = ABANDONED_MS / 2000  # from proposing to that: half of what others allow for


@dataclass(frozen=True)
class ExpireResult:
    """What an expiry did.

    Attributes:
        versions: versions folded that were not before.
        chunks: chunks of theirs, or folded earlier, that nothing reads any more.
        segments: segments that only those referred to: `collect` may delete them.
        horizon: history up to this moment is gone; `None`: there is no horizon.
        held_by: tags and branches that keep the horizon from being where it was asked for.
        bytes: size of the base.
        name: the base's name; empty where nothing was folded.
        dry_run: whether nothing was written.
        seconds: how long it took.
    """

    versions: int = 0
    chunks: int = 0
    segments: int = 0
    horizon: datetime | None = None
    held_by: tuple[str, ...] = ()
    bytes: int = 0
    name: str = ""
    dry_run: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        held = f"; held back by {', '.join(self.held_by[:5])}" if self.held_by else ""
        if not self.versions:
            return f"expire: nothing to fold{held}"
        would = "would be" if self.dry_run else "were"
        upto = self.horizon.isoformat(timespec="milliseconds") if self.horizon else ""
        return (
            f"expire: {self.versions:,} versions below {upto} {would} folded, {self.chunks:,} chunks and "
            f"{self.segments:,} segments let go, base of {self.bytes:,} bytes, in {self.seconds:.2f} s{held}"
        )


@dataclass(frozen=True)
class _Plan:
    """A horizon that the holds allow, and what lies below it."""

    horizon: int
    log: Log
    held_by: tuple[str, ...] = field(default=())


def expire(
    session: Session,
    *,
    older_than: timedelta | datetime | None = None,
    keep_last: int | None = None,
    dry_run: bool = False,
    progress: bool | Tell | None = None,
) -> ExpireResult:
    """Forget the history of versions that are old; the table stays what it is. Theorem: `expire_invisible`.

    Requests: a refresh, what `tags` and `branches` cost, twice; 2 PUTs, 1 more for rows that were inlined and
    1 more where segments are let go, 1 more where there are claims, 2 LISTs, one small GET per bundle not
    seen before, a DELETE, or 2 where there are claims, and a refresh. Where the table took part in
    transactions in merge mode, what `close` costs, and a refresh. Where a name that came meanwhile holds it
    back, a PUT, a DELETE, a refresh and `tags` and `branches` once more. Waits until what is to be folded is
    `max_commit_delay_seconds` old. In CAS mode the newest commit stays in history, whatever is asked for.

    Raises:
        InvalidArgument: neither age nor number, an age below zero, a moment in the future; a branch.
        CapabilityMissing: the store cannot create a file exclusively, or, after transactions, list in order.
        StoreUnavailable: nothing was folded, or nobody knows, or the mode is being switched; run it again.
    """
    began, tell = time.monotonic(), _steps(session.table, teller(progress))
    check_can_fold(session)
    require_flag("dry_run", dry_run)
    check_until(older_than, keep_last)
    head = session.head()
    if session.switching and not dry_run:  # wait for it, or for nobody
        settle_switch(session)
        head = session.head(refresh=False)
    wanted = wanted_horizon(head, session, older_than, keep_last)
    first = _planned(session, wanted, session.state.log)
    tell(1)
    if not len(first.log):
        tell(5)
        return ExpireResult(held_by=first.held_by, dry_run=dry_run, seconds=time.monotonic() - began)
    if dry_run:
        made = _made(session, first, session.state.bundles)
        tell(5)
        return replace(made.result, dry_run=True, seconds=time.monotonic() - began)
    wait_until_old(session, first.horizon, lambda: tell(1))
    tell(2)
    result = fold(session, first.horizon, tell=tell)
    held_by = tuple(sorted({*first.held_by, *result.held_by}))
    return replace(result, held_by=held_by, seconds=time.monotonic() - began)


def check_can_fold(session: Session) -> None:
    """Raises `InvalidArgument` or `CapabilityMissing` where history cannot be folded, and why."""
    if session.source is not None:
        raise InvalidArgument(
            f"branch {session.branch!r}: only the history of {MAIN!r} is expired; merge it, and delete it"
        )
    if not session.store.can_create_exclusively:
        raise CapabilityMissing(f"{session.store.url} cannot create a file exclusively, which expiry needs")


def _planned(session: Session, wanted: int, log: Log) -> _Plan:
    """What may be folded of a log. What `tags` and `branches` cost."""
    horizon, held_by = min(wanted, claimed_until(session, log)), []
    for who, hold in holds(session, log).items():
        if hold < wanted:
            held_by.append(who)
        horizon = min(horizon, hold)
    horizon = max(log.horizon, horizon)
    fresh = (log.id_fields["hlc"] < horizon) & ~log.is_folded
    return _Plan(horizon, below(log, horizon) if fresh.any() else below(log, 0), tuple(sorted(held_by)))


def _steps(table: str, tell: Tell) -> Callable[[int], object]:
    """Tells how many steps are done: planned, waited, listed anew, the base made, and stored."""
    return lambda done: tell(Progress(f"expire {table}", done, 5, "steps"))


def wait_until_old(session: Session, horizon: int, tell: Callable[[], object] = lambda: None) -> None:
    """Until no writer that was not slow can still be storing a version below the horizon."""
    due_ms = hlc.milliseconds(horizon) + session.options.max_commit_delay_seconds * 1000
    while (left_ms := due_ms - store_now_ms(session.store)) > 0:
        tell()
        time.sleep(min(left_ms / 1000, session.options.max_commit_delay_seconds))


def fold(
    session: Session,
    horizon: int,
    brought: Brought | None = None,
    *,
    tell: Callable[[int], object] = lambda _: None,
) -> ExpireResult:
    """Propose a horizon, list, and write the next base, with what is brought. Costs as `expire` says.

    Raises:
        StoreUnavailable: nothing was folded, or nobody knows; run it again.
        Expired: what is brought cannot be folded here: versions would be lost, or a tag or branch needs them.
    """
    store, table, incarnation = session.store, session.table, session.settings.incarnation
    mine = propose(store, table, incarnation, horizon, brings=brought is not None)
    proposed = elapsed_clock()
    held_by: tuple[str, ...] = ()
    for _ in range(TRIES):
        listing = session.refresh().listing  # after it: whoever stores a version from now on can see it
        if sum(map(len, session.state.log.inline.values())) > INLINE_BYTES_AT_ONCE:
            checkpoint(session)
        if session.marked and session.state.closed.until < horizon:
            close(store, horizon)
            continue
        if session.switching:
            withdraw(store, [mine.name])
            raise StoreUnavailable(
                f"table {table!r} is being switched to CAS mode; nothing was folded: try again later"
            )
        looked = elapsed_clock()  # which goes on while this machine is suspended
        tell(3)
        plan = _planned(
            session, horizon, session.state.log if brought is None else brought.over(session.state.log)
        )
        plan = replace(plan, held_by=tuple(sorted({*held_by, *plan.held_by})))
        if brought is not None and (refusal := brought.refusal(session, plan.horizon, horizon, plan.held_by)):
            withdraw(store, [mine.name])
            raise Expired(f"{refusal}; nothing of this table was carried that way")
        if not len(plan.log):  # others were faster, or somebody named a snapshot meanwhile
            withdraw(store, [mine.name])
            tell(5)
            return ExpireResult(held_by=plan.held_by)
        if plan.horizon < mine.horizon:  # held back since: say less, so that nobody waits for the rest
            horizon, held_by = plan.horizon, plan.held_by
            proposed, mine = elapsed_clock(), propose_instead(store, table, incarnation, horizon, mine)
            continue  # what is folded was listed after the proposal that is there, and lies below it
        made = _made(session, plan, [item.name for item in listing if is_bundle(item.name)])
        tell(4)
        put_all(made.puts, store, f"{made.result.name}: its rows", "nothing was folded, try again")
        let_go(store, made.freed)
        now = elapsed_clock()
        if now - looked > HOLDS_SECONDS_MAX or now - proposed > PROPOSED_SECONDS_MAX:
            # Somebody may have named a snapshot since, and taken us for dead.
            proposed, mine = now, propose_instead(store, table, incarnation, horizon, mine)
            continue
        if store.put_if_absent(made.result.name, made.data):
            found = proposals(store, table, incarnation)
            withdraw(store, [item.name for item in found if item.horizon < mine.horizon])
            _bound(session, int(plan.log.number.max(initial=0)), listing)
            session.refresh()
            tell(5)
            return made.result
    withdraw(store, [mine.name])
    raise StoreUnavailable(f"{session.folder}: other expiries were faster {TRIES} times; try again")


def _bound(session: Session, number: int, listing: Iterable[Object]) -> None:
    """Say beside the base which numbers it has: once their claims are deleted, nothing else does. A collector
    says it where this is not reached. One PUT and one DELETE, none without claims."""
    name = boundary_name(session.folder, number)
    if number:
        session.store.put(name, b"")
        session.store.delete([item.name for item in listing if is_boundary(item.name) and item.name < name])


@dataclass(frozen=True)
class _Made:
    """A base, the segments that must be stored before it, those it lets go, and what it means."""

    data: bytes
    puts: tuple[Put, ...]
    freed: bytes
    result: ExpireResult


def _made(session: Session, plan: _Plan, bundles: Iterable[str]) -> _Made:
    """The next base; `bundles` are those that are there. One small GET for each not seen before."""
    needed = Head(session.table, plan.log, session.settings).rows.chunks_to_keep
    log = emptied(plan.log, plan.horizon, needed)
    moved = moved_to_segments(log, needed)
    number = base_number(session.state.base) + 1
    summaries = summaries_of(session, sorted(bundles))
    passed = {
        name for name, summary in summaries.items() if int.from_bytes(summary.last[:8], "big") < plan.horizon
    }
    data = encode_bundle(moved.log, session.folder, sorted(passed), number=number)
    freed = np.setdiff1d(plan.log.segment_name, log.segment_name)
    result = ExpireResult(
        versions=int((~plan.log.is_folded).sum()),
        chunks=int((~needed).sum()),
        segments=len(freed),
        horizon=hlc.to_datetime(plan.horizon),
        held_by=plan.held_by,
        bytes=len(data),
        name=base_name(session.folder, number),
    )
    return _Made(data, moved.puts, freed.tobytes(), result)
