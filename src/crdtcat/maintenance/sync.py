"""Exchanging versions between two catalogs, so that writers who were apart converge.

A version means the same in every catalog: its delta is keyed by its id. So each side gets a bundle of the
versions that it lacks, under their own ids, and the segments that hold their rows. Segments go first, always
under new names: one that lies there already may be garbage that is about to be deleted. Versions go in the
order of their ids and in groups of bounded size, each a bundle: a version's id is above those of all that it
had seen, so every group leaves a log without gaps, and a sync that is cut off goes on from there.

Afterwards both sides have the same commits, and so the same head. What cannot be carried is refused by name,
table by table: other settings, CAS mode, a table that one side dropped, commits that a horizon has passed.
What one side has expired and the other lacks, that one takes over as it is, horizon and all. Which upkeep is
carried, and which is not, says `crdtcat.maintenance.carried`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from crdtcat.clock import HybridClock
from crdtcat.errors import CrdtcatError, Expired, InvalidArgument, NotFound
from crdtcat.format.kinds import ROWS
from crdtcat.format.settings import Settings
from crdtcat.lifecycle.closing import require_settled
from crdtcat.lifecycle.incarnations import MAIN, all_settings, create, current_settings, table_folders
from crdtcat.lifecycle.lost_settings import require_none
from crdtcat.log import Log, select
from crdtcat.maintenance.brought import Brought, lacked
from crdtcat.maintenance.bundling import publish_bundle
from crdtcat.maintenance.carried import carried
from crdtcat.maintenance.expire import check_can_fold, fold, wait_until_old
from crdtcat.maintenance.merge import require_counted
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.maintenance.segment_copy import copy_segments
from crdtcat.names import validate_table_name
from crdtcat.options import Options
from crdtcat.session import Session
from crdtcat.store import Store
from crdtcat.support.arguments import require_tables
from crdtcat.support.showing import shown
from crdtcat.verbs.settings import differences

GROUP_BYTES: Final = 256 * 2**20  # segments copied before the versions that need them are published
GROUP_VERSIONS: Final = 100_000  # at most, in one bundle
NUMBERED: Final = "its mode was switched, so its log has numbers that another log would have too"


@dataclass(frozen=True)
class Transfer:
    """What went one way, for one table.

    Attributes:
        versions: versions that the other side lacked.
        rows: rows those had added.
        segments: segments copied for them.
        bytes: their size.
    """

    versions: int = 0
    rows: int = 0
    segments: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class SyncResult:
    """What a sync did.

    Attributes:
        sent: per table, what the other catalog got.
        received: per table, what this catalog got.
        refused: per table that was left as it is, why.
        seconds: how long it took.
        created: URLs where there was no catalog before, and is one now.
    """

    sent: Mapping[str, Transfer] = field(default_factory=dict)
    received: Mapping[str, Transfer] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    created: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not self.refused

    def __str__(self) -> str:
        sides = (("sent", self.sent), ("received", self.received))
        told = ", ".join(
            f"{sum(one.versions for one in side.values()):,} versions and "
            f"{sum(one.bytes for one in side.values()) / 1e6:,.1f} MB {what}"
            for what, side in sides
        )
        lines = [f"sync: {len(self.sent):,} tables, {told}, in {self.seconds:.2f} s"]
        lines += [f"made a new catalog in {url}" for url in self.created]
        return "\n".join([*lines, *(f"refused {name}: {why}" for name, why in sorted(self.refused.items()))])


def sync(
    here: Store,
    there: Store,
    *,
    tables: Sequence[str] | None,
    options: Options,
    clock: HybridClock,
    tell: Tell,
) -> SyncResult:
    """Exchange the versions of tables between two stores. Both have a catalog's marker.

    Costs the settings of all tables on both sides, a refresh of each log, what `copy_segments` costs for each
    segment that a side lacks, 1 PUT and 1 LIST per group of versions. Memory: both logs of a table, and a few
    pieces of a segment. Raises `NotFound` for a table that neither side has, and what the stores raise; what
    was carried by then stays.
    """
    began = time.monotonic()
    found = _names(here, there, tables)
    sent: dict[str, Transfer] = {}
    received: dict[str, Transfer] = {}
    refused: dict[str, str] = {}
    for done, name in enumerate(found):
        tell(Progress("syncing", done, len(found), "tables"))
        try:
            ours, theirs = _sessions(here, there, name, options, clock)
            received[name] = _carry(theirs, ours, tell)
            sent[name] = _carry(ours, theirs, tell)
        except (InvalidArgument, Expired, NotFound) as error:
            sent.pop(name, None)
            refused[name] = str(error)
    tell(Progress("syncing", len(found), len(found), "tables"))
    return SyncResult(sent, received, refused, time.monotonic() - began)


def _names(here: Store, there: Store, tables: Sequence[str] | None) -> list[str]:
    if tables is not None:
        return sorted({validate_table_name(name) for name in require_tables(tables)})
    listed = [all_settings(store, table_folders(store)) for store in (here, there)]
    for store, side in zip((here, there), listed, strict=True):
        for name in (name for name, found in side.items() if found is None):
            require_none(store, name, None)  # a log without its settings is damage, and not no table
    live = {name for side in listed for name, found in side.items() if found is not None}
    return sorted(
        name
        for name in live
        if not all(
            isinstance(side.get(name), Settings | None) and _is_gone(side.get(name)) for side in listed
        )
    )


def _is_gone(found: Settings | CrdtcatError | None) -> bool:
    return found is None or (isinstance(found, Settings) and found.dropped)


def _sessions(
    here: Store, there: Store, name: str, options: Options, clock: HybridClock
) -> tuple[Session, Session]:
    """Handles on both sides; a table that one side never had is created there with the other's settings."""
    ours, theirs = current_settings(here, name), current_settings(there, name)
    if _is_gone(ours) and _is_gone(theirs):
        raise NotFound(f"neither side has a table {shown(name)}")
    if ours is not None and theirs is not None:
        if ours.dropped or theirs.dropped:
            url = here.url if ours.dropped else there.url
            raise InvalidArgument(
                f"it was dropped in {url}: drop it on the other side too, or create it again"
            )
        if _comparable(ours) != _comparable(theirs):
            other = differences(ours, theirs, here.url, there.url)
            raise InvalidArgument(f"its settings differ: {other}")
    settings = ours or theirs
    assert settings is not None
    if settings.mode == "cas":
        raise InvalidArgument("it is in CAS mode, where history is one line: only merge mode can be synced")
    if any(side is not None and side.switched for side in (ours, theirs)):
        raise InvalidArgument(NUMBERED)
    if ours is None:
        ours = _created(here, name, settings)
    if theirs is None:
        theirs = _created(there, name, settings)
    first, second = (
        Session(store, name, branch=MAIN, settings=mine, options=options, clock=clock)
        for store, mine in ((here, ours), (there, theirs))
    )
    return first, second


def _comparable(settings: Settings) -> Settings:
    return settings.as_created()


def _created(store: Store, name: str, settings: Settings) -> Settings:
    made = create(store, name, settings.as_created(), None) or current_settings(store, name)
    if made is None or made.dropped or _comparable(made) != _comparable(settings):
        raise InvalidArgument(f"it was created in {store.url} meanwhile, with other settings")
    return made


def _carry(source: Session, target: Session, tell: Tell) -> Transfer:
    """Bring what `target` lacks of `source`, group by group."""
    theirs = source.refresh().state.log
    require_settled(source)
    known = target.refresh().state.log
    if theirs.number.any() or known.number.any():  # switched just now: the settings do not say so yet
        raise InvalidArgument(NUMBERED)
    wanted = carried(theirs, known, target.store.url)
    if not wanted.versions:
        return Transfer()
    names: dict[bytes, bytes] = {}  # segments by their name here, once a bundle there refers to them
    segments = total = 0
    if len(wanted.folded):
        segments, total = _folded(source, target, wanted.folded, names)
    for group in _groups(wanted.others):
        moved, copied, size = copy_segments(source.store, target.store, group, names)
        publish_bundle(target, moved)
        segments, total = segments + copied, total + size
        tell(
            Progress(f"to {target.store.url}: {target.table}", len(group), wanted.versions, "versions", total)
        )
    if len(wanted.others):
        require_counted(target, wanted.others)
    new = select(theirs, known.find(theirs.ids) < 0)
    rows = int(new.rows[new.kind == ROWS].sum(dtype=np.uint64))  # upkeep adds none
    return Transfer(wanted.versions, rows, segments, total)


def _folded(source: Session, target: Session, folded: Log, names: dict[bytes, bytes]) -> tuple[int, int]:
    """Fold in the target what the source has folded and the target lacks: it takes over the horizon.

    How many segments of how many bytes were copied. Raises `Expired`, by name, where the target has commits
    that the source's horizon has passed, or tags and branches that hold them.
    """
    check_can_fold(target)
    if target.marked:
        raise InvalidArgument(
            f"table {target.table!r} took part in transactions in {target.store.url}, whose other tables the "
            "source's horizon says nothing of: expire it there first, as far"
        )
    theirs = source.state.log
    moved, segments, total = copy_segments(source.store, target.store, lacked(folded, target), names)
    wait_until_old(target, theirs.horizon)
    fold(target, theirs.horizon, Brought(moved, theirs.ids[theirs.is_folded], source.store.url))
    return segments, total


def _groups(carried: Log) -> Iterator[Log]:
    """Runs of versions in id order whose segments are together about as large as is copied at once."""
    size = np.zeros(len(carried), np.float64)
    _, first = np.unique(carried.place_segment, return_index=True)  # counted where it is first needed
    version = carried.chunk_version[carried.place_chunk[first]]
    np.add.at(size, version, carried.segment_size[carried.place_segment[first]].astype(np.float64))
    number = np.maximum(np.cumsum(size) // GROUP_BYTES, np.arange(len(carried)) // GROUP_VERSIONS)
    for each in np.unique(number).tolist():
        yield select(carried, number == each)
