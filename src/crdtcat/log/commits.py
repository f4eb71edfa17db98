"""From the file of one commit to a log: what it adds, and what nobody may read there. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crdtcat.errors import Corrupt
from crdtcat.format.carried import own_frame
from crdtcat.format.version import UPKEEP, decode_version
from crdtcat.log.build import LogBuilder
from crdtcat.log.gaps import require
from crdtcat.log.log import Log
from crdtcat.log.transactions import add_parts, parts_of
from crdtcat.protocol.names import claim_number, is_claim, last
from crdtcat.support.object_bytes import ObjectBytes


def add_commit(
    builder: LogBuilder, folder: str, name: str, data: ObjectBytes, decided: Mapping[int, bool]
) -> bool | None:
    """Take in a commit; false where it is not of this log, `None` where that is not decided.

    `decided`: by writer, whether the transaction it made was committed. Raises `Corrupt` and
    `UnsupportedFormat`, naming the file.
    """
    id, body = decode_version(own_frame(data, name) if is_claim(name) else data, name)
    number = body.get("#", 0)
    if is_claim(name):
        if number != claim_number(name):
            raise Corrupt(name, f"holds claim {number}: the file was renamed or its name damaged")
    elif last(name) != f"{id}.v":
        raise Corrupt(name, f"holds version {id}: the file was renamed or its name damaged")
    if "t" not in body:
        builder.add(id, body, name)
        return True
    if not is_claim(name):
        return add_parts(builder, id, body, folder, name)
    if id.writer not in decided:
        return None
    if not decided[id.writer] or not parts_of(body, name).get(folder):  # a number is taken, and nothing else
        builder.add(id, {"l": folder, "o": UPKEEP, "#": number}, name)
        return True
    return add_parts(builder, id, body, folder, name, number=number)


def log_of_commit(folder: str, name: str, data: ObjectBytes, decided: Mapping[int, bool]) -> Log:
    """The log of one commit's file: what an empty `crdtcat.log.State` that is joined with it has.

    In a fraction of the time: CAS mode looks at every commit between its own and its parent. Raises as
    `add_commit` does.
    """
    builder = LogBuilder(folder)
    add_commit(builder, folder, name, data, decided)
    log = builder.build(name)
    require({}, log, name)
    return log


def built(
    builder: LogBuilder,
    needs: dict[int, int],
    folder: str,
    files: Iterable[tuple[str, ObjectBytes]],
    decided: Mapping[int, bool],
) -> Log:
    """The log of all that a builder has taken in of some commits' files, and `needs` raised to what it needs.

    Raises `Corrupt`, naming the file: where one is wrong, each is taken in alone.
    """
    try:
        log = builder.build()
        require(needs, log, folder)
    except Corrupt:
        for name, data in files:
            log_of_commit(folder, name, data, decided)
        raise
    return log
