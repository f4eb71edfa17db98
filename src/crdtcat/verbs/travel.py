"""Time travel: `at=` in all its forms, and naming snapshots."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import numpy as np

from crdtcat.clock import VersionId, hlc
from crdtcat.errors import AlreadyExists, Expired, InvalidArgument, InvalidName, LimitExceeded, NotFound
from crdtcat.format.sections import Array
from crdtcat.head import Head, Snapshot, Version
from crdtcat.head.snapshot import is_token, versions_of
from crdtcat.lifecycle.closing import require_settled
from crdtcat.log import select
from crdtcat.log.log import ID, Log
from crdtcat.session import Session
from crdtcat.support.arguments import is_no_moment, require_flag
from crdtcat.support.showing import shown
from crdtcat.verbs.naming import require_held, tag_holds
from crdtcat.verbs.tags import encode_tag, list_tags, moving, read_tag, tag_path

At = Snapshot | Head | Version | VersionId | datetime | date | str
"""A snapshot or its token, a head, a version or its id, a tag's name, or a moment (naive means UTC).

Of a text that is a tag's name and a date, too, the tag is meant; a `date` or `datetime` is always a moment.
"""


def head_at(session: Session, at: At | None) -> Head:
    """The head at a moment, a version, a tag or a snapshot; `None` is now.

    Costs a refresh, and one GET for a tag. Versions and moments are resolved once, here, against what is
    known now: `head.snapshot` is the name under which it can be had again.

    Raises:
        NotFound: no such tag, version or snapshot; or nothing had been committed by then.
        Expired: the snapshot holds versions this table no longer has.
        InvalidArgument: not one of the forms.
    """
    if at is None:
        return session.head()
    if isinstance(at, date) and is_no_moment(at):
        raise InvalidArgument(f"at={shown(at)} is no moment")
    at = _plain(session, at)
    log = session.head().log
    if isinstance(at, Snapshot):
        return Head(session.table, versions_of(log, at, session.table), session.settings)
    if isinstance(at, VersionId):
        found = log.index_of(at)
        if found < 0 or log.is_upkeep[found]:  # upkeep is no commit
            raise NotFound(f"table {session.table!r} has no version {at}")
        chosen = log.ids <= np.array([at.to_bytes()], ID)[0]
        _require_folded(session, log, chosen, str(at))
    elif isinstance(at, datetime):
        chosen = _by(log, at)
        if not chosen.any():
            raise NotFound(
                f"table {session.table!r} has no version as old as {at.isoformat()}; history() lists them"
            )
        _require_folded(session, log, chosen, at.isoformat())
    else:
        raise InvalidArgument(
            f"at={shown(at)}: pass a Snapshot, a Version or its id, a tag, a datetime, or None"
        )
    return Head(session.table, select(log, chosen | log.is_upkeep), session.settings)


def _plain(session: Session, at: At) -> Snapshot | VersionId | datetime:
    """What a name of a snapshot stands for."""
    match at:
        case str():
            return _parse(session, at)
        case Head():
            return at.snapshot
        case Version():
            return at.id
        case date() if not isinstance(at, datetime):
            return datetime(at.year, at.month, at.day, tzinfo=UTC)
    return at


def _require_folded(session: Session, log: Log, chosen: Array, at: str) -> None:
    """What was folded can only be read as a whole."""
    if log.horizon and not chosen[log.is_folded].all():
        raise Expired(
            f"{at} is below the horizon of table {session.table!r}: its history up to "
            f"{hlc.to_datetime(log.horizon).isoformat()} was expired"
        )


def _parse(session: Session, text: str) -> Snapshot | VersionId | datetime:
    if is_token(text):
        return Snapshot.parse(text)
    if _is_version_id(text):
        return VersionId.parse(text)
    found = read_tag(session, text)
    if found is not None:
        return found
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = (
            "snapshot ids are for comparing: pass str(head.snapshot)"
            if _HEX.fullmatch(text)
            else _forms(session)
        )
        raise NotFound(f"table {session.table!r} has no tag {shown(text)}; {hint}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_HEX = re.compile("[0-9a-f]{12,64}")


def _forms(session: Session) -> str:
    known = ", ".join(sorted(list_tags(session))[:20]) or "none"
    return f"nor is it a version id, a snapshot token or an ISO date. Tags: {known}"


def _is_version_id(text: str) -> bool:
    return len(text) == 75 and text.count("-") == 3


def _by(log: Log, moment: datetime) -> Array:
    """Which versions were committed by a moment, by their writers' clocks."""
    try:
        found: Array = log.id_fields["hlc"] <= hlc.from_datetime(moment)
    except LimitExceeded:  # before 1970: no version is
        found = np.zeros(len(log), bool)
    return found


def write_tag(session: Session, name: str, at: At | None, *, replace: bool) -> Snapshot:
    """Name a snapshot. One PUT and one LIST after resolving `at`, with `replace` a GET more, and a PUT more
    where the tag is there; a refresh more where the LIST finds an expiry. Raises `AlreadyExists` unless
    `replace`, `Expired` where an expiry passes it at this moment: then the name stays what it was."""
    require_flag("replace", replace)
    path = tag_path(session, name)
    if is_token(name) or _is_version_id(name):
        raise InvalidName(f"tag name {name!r} looks like a snapshot token or a version id: choose another")
    head = head_at(session, at)
    require_settled(session)
    store, data = session.store, encode_tag(head.snapshot)
    (before,) = store.get_many([(path, 0, None)]) if replace else (None,)
    between = None if before is None else moving(before, path, head.snapshot)
    if replace:
        store.put(path, between or data)
    elif not store.put_if_absent(path, data):
        raise AlreadyExists(
            f"table {session.table!r} already has a tag {name!r}; pass replace=True to move it"
        )
    try:
        _require_held(session, name, head)
    except Expired:
        if before is None:
            store.delete([path])
        else:
            store.put(path, bytes(before))
        raise
    if between is not None:
        store.put(path, data)
    return head.snapshot


def _require_held(session: Session, name: str, head: Head) -> None:
    try:
        require_held(session, head.snapshot, head.log.horizon, tag_holds)
    except Expired as error:
        raise Expired(f"tag {name!r} was not made: {error}") from error
