"""Verification of what lies beside a table's log: the marker, the settings, the lists of garbage.

And what a verification of metadata gathers, for all who take part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crdtcat.errors import Corrupt, DataError
from crdtcat.format.carried import frames_of
from crdtcat.format.condemned import FOLDER as GARBAGE
from crdtcat.format.condemned import decode_titles
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.settings import MARKER, MARKER_NAME, check_marker, decode_settings, settings_name
from crdtcat.format.version import decode_version
from crdtcat.log import State
from crdtcat.maintenance.verify_report import Problem
from crdtcat.protocol import claim_number, is_claim
from crdtcat.protocol.names import hint_name
from crdtcat.session import Session
from crdtcat.support.object_bytes import ObjectBytes


@dataclass
class LogCheck:
    """The state, as far as it can be read, and what is wrong with the files it comes from.

    Attributes:
        state: everything that could be read.
        problems: what could not.
        files: how many files were looked at.
        bytes: how many bytes they have.
        listed: names in the last listing of the log and of `transactions/`.
    """

    state: State
    problems: list[Problem] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    listed: list[str] = field(default_factory=list)


def check_small_files(session: Session, check: LogCheck) -> None:
    """The marker and the settings: a GET each."""
    number, table = session.settings.file_number, session.table
    names = dict.fromkeys((MARKER_NAME, settings_name(table), settings_name(table, number)))
    answers = session.store.get_many([(name, 0, None) for name in names])
    for name, data in zip(names, answers, strict=True):
        check.files += 1
        try:
            if data is None:
                raise Corrupt(name, "missing: the store has no such object")
            check.bytes += len(data)
            if name == MARKER_NAME:
                check_marker(data)
                canonical = MARKER
            else:
                found = decode_settings(data, name)
                canonical = found.encode()
                if found.file_number == number and found != session.opened_with and not found.dropped:
                    raise Corrupt(name, "holds other settings than this handle was opened with")
            if data != canonical:
                raise Corrupt(name, "damaged: not the bytes that were written")
        except DataError as error:
            check.problems.append(Problem(name, why_of(error)))


def check_lists(session: Session, check: LogCheck) -> None:
    """What `garbage/` holds: nobody reads rows by it, but a collector decides by it."""
    names = [item.name for item in session.store.list(GARBAGE)]
    for name, data in zip(names, session.store.get_many([(name, 0, None) for name in names]), strict=True):
        if data is None:
            continue  # collected since
        check.files += 1
        check.bytes += len(data)
        try:
            decode_titles(data, name)
        except DataError as error:
            check.problems.append(Problem(name, why_of(error), 0, 0))


def check_hint(session: Session, check: LogCheck) -> None:
    """The advice for a cold start, where there is one: nobody's rows rest on it. A GET."""
    name = hint_name(session.folder)
    if name not in check.listed:
        return
    (data,) = session.store.get_many([(name, 0, None)])
    if data is None:
        return  # of a log that has just ended
    check.files += 1
    check.bytes += len(data)
    try:
        if seal_json(unseal_json(data, name)) != data:
            raise Corrupt(name, "damaged: not the bytes that were written")
    except DataError as error:
        check.problems.append(Problem(name, why_of(error), 0, 0))


def damaged_claims(files: Sequence[tuple[str, ObjectBytes]]) -> dict[str, DataError]:
    """Claims that cannot be read, also those whose number a bundle has: a state takes no notice of these."""
    found: dict[str, DataError] = {}
    for name, data in files:
        if is_claim(name):
            try:
                _check_claim(data, name)
            except DataError as error:
                found[name] = error
    return found


def _check_claim(data: ObjectBytes, name: str) -> None:
    """A claim's file, and what it carries: the version files of the numbers below its own."""
    for at, frame in enumerate(frames_of(data, name)):
        _, body = decode_version(frame, name)
        if at and body.get("#") != claim_number(name) - at:
            raise Corrupt(name, f"carries another claim than that of number {claim_number(name) - at}")


def why_of(error: DataError) -> str:
    """What is wrong, without the name it is wrong with."""
    return error.why if isinstance(error, Corrupt) else str(error)
