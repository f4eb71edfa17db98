"""Tags: names that people give to snapshots, each a small sealed file.

A tag holds the horizon down, so that what it names stays readable. While it is moved it names two snapshots,
the one that it stands for and the one that it goes to, and holds for both: an expirer that looks at any
moment leaves alone what the tag will stand for, whether the move is granted or refused. Who is killed in
between leaves a tag that was not moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from crdtcat.errors import Corrupt, DataError, InvalidArgument, NotFound, UserError
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.head import Snapshot
from crdtcat.names import validate_tag_name
from crdtcat.session import Session
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.showing import shown

_SUFFIX: Final = ".json"


def tag_folder(session: Session) -> str:
    """Where a table's tags are."""
    incarnation = session.settings.incarnation
    return f"tables/{session.table}/refs/{'tags' if incarnation == 1 else f'tags~{incarnation}'}/"


def tag_path(session: Session, name: str) -> str:
    """A tag's file. Raises `InvalidName`."""
    return f"{tag_folder(session)}{validate_tag_name(name)}{_SUFFIX}"


def tag_files(session: Session) -> list[str]:
    """The files of all tags. One LIST."""
    folder = tag_folder(session)
    return [item.name for item in session.store.list(folder) if _is_tag(item.name.removeprefix(folder))]


def _is_tag(file: str) -> bool:
    """Whether a file may be a tag's: what others left in its folder is none of ours."""
    try:
        validate_tag_name(file.removesuffix(_SUFFIX))
    except UserError:
        return False
    return file.endswith(_SUFFIX)


def encode_tag(snapshot: Snapshot, goes_to: Snapshot | None = None) -> bytes:
    """A tag's file; `goes_to` while it is moved."""
    content: dict[str, Any] = {"format": FORMAT_NUMBER, "snapshot": str(snapshot)}
    return seal_json(content if goes_to is None else {**content, "goes_to": str(goes_to)})


def decode_tag(data: ObjectBytes, path: str) -> tuple[Snapshot, ...]:
    """What a tag stands for, and then, if it is being moved, what it goes to. Raises `Corrupt`."""
    content = unseal_json(data, path)
    try:
        tokens = [content["snapshot"], *([content["goes_to"]] if "goes_to" in content else [])]
        return tuple(Snapshot.parse(token) for token in tokens)
    except (InvalidArgument, KeyError, TypeError) as error:
        raise Corrupt(path, "not a tag") from error


def moving(data: ObjectBytes, path: str, goes_to: Snapshot) -> bytes | None:
    """A tag's file for the time in which it is moved. `None`: it is damaged, and holds nothing."""
    try:
        return encode_tag(decode_tag(data, path)[0], goes_to)
    except DataError:
        return None


def read_tag(session: Session, name: str) -> Snapshot | None:
    """The snapshot a tag names, or `None`. One GET."""
    try:
        path = tag_path(session, name)
    except ValueError:
        return None
    (data,) = session.store.get_many([(path, 0, None)])
    return None if data is None else decode_tag(data, path)[0]


def list_tags(session: Session) -> dict[str, Snapshot]:
    """All tags. One LIST and one GET for each."""
    return {name: snapshots[0] for name, snapshots in held_by_tags(session).items()}


def held_by_tags(session: Session) -> dict[str, tuple[Snapshot, ...]]:
    """Per tag what it holds: two snapshots while it is moved. One LIST and one GET for each."""
    folder = tag_folder(session)
    return {
        path.removeprefix(folder).removesuffix(_SUFFIX): decode_tag(data, path)
        for path, data in _read(session, tag_files(session))
    }


def _read(session: Session, paths: list[str]) -> Iterable[tuple[str, ObjectBytes]]:
    """Files, without those that were deleted since they were listed."""
    answers = session.store.get_many([(path, 0, None) for path in paths])
    return ((path, data) for path, data in zip(paths, answers, strict=True) if data is not None)


def delete_tag(session: Session, name: str) -> None:
    """Remove a tag. Raises `NotFound`."""
    if read_tag(session, name) is None:
        raise NotFound(f"table {session.table!r} has no tag {shown(name)}")
    session.store.delete([tag_path(session, name)])
