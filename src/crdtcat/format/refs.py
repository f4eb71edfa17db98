"""Branch starts: small files under a table's `refs/` that say where a branch begins.

A branch has lives, as a table has incarnations: deleted and made again under the same name it gets the next
number, and with it a log folder of its own, so no straggler of the old one is read as part of the new. The
file of a life is created exclusively and never changed; an empty file beside it, `.deleted`, says that the
life is over. Both stay: together they are what keeps a number from being used twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crdtcat.errors import Corrupt
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.support.object_bytes import ObjectBytes

_START: Final = ".json"
_DELETED: Final = ".deleted"


@dataclass(frozen=True, slots=True)
class BranchStart:
    """What a branch's file says.

    Attributes:
        source: name of the branch it starts from.
        source_life: which life of that name.
        snapshot: token of the snapshot of the source that it starts with.
        nonce: random text, so that of several who create one branch exactly one does.
        after: what is committed on the branch is stamped above this time; 0: nobody said so.
    """

    source: str
    source_life: int
    snapshot: str
    nonce: str
    after: int = 0

    def encode(self) -> bytes:
        """The file's bytes."""
        return seal_json(
            {
                "after": self.after,
                "format": FORMAT_NUMBER,
                "life": self.source_life,
                "nonce": self.nonce,
                "snapshot": self.snapshot,
                "source": self.source,
            }
        )


def decode_branch_start(data: ObjectBytes, name: str) -> BranchStart:
    """The start in a file. Raises `Corrupt` or, for a newer format, `UnsupportedFormat`."""
    content = unseal_json(data, name)
    source, life = content.get("source"), content.get("life")
    snapshot, nonce, after = content.get("snapshot"), content.get("nonce"), content.get("after", 0)
    if not (isinstance(source, str) and isinstance(snapshot, str) and isinstance(nonce, str)):
        raise Corrupt(name, "not the start of a branch")
    if not isinstance(life, int) or life < 1:
        raise Corrupt(name, "not the start of a branch: its source has no such life")
    if not isinstance(after, int) or not 0 <= after < 2**64:
        raise Corrupt(name, "not the start of a branch: it is after no time")
    return BranchStart(source, life, snapshot, nonce, after)


def branches_folder(table: str, incarnation: int) -> str:
    """Where the starts of a table's branches are."""
    return f"tables/{table}/refs/branches{'' if incarnation == 1 else f'~{incarnation}'}/"


def start_name(table: str, incarnation: int, branch: str, life: int) -> str:
    """The file that says where one life of a branch begins."""
    return f"{branches_folder(table, incarnation)}{_with_life(branch, life)}{_START}"


def deleted_name(table: str, incarnation: int, branch: str, life: int) -> str:
    """The file that says that one life of a branch is over."""
    return f"{branches_folder(table, incarnation)}{_with_life(branch, life)}{_DELETED}"


def _with_life(branch: str, life: int) -> str:
    return branch if life == 1 else f"{branch}~{life}"


def parse_ref(name: str) -> tuple[str, int, bool] | None:
    """(branch, life, whether it says deleted) of a file among the starts; `None`: not one of ours."""
    title = name.rsplit("/", 1)[-1]
    for end in (_START, _DELETED):
        if title.endswith(end):
            branch, _, life = title.removesuffix(end).partition("~")
            if branch and (not life or (life.isdecimal() and int(life) > 1)):
                return branch, int(life or 1), end == _DELETED
    return None
