"""File names of a log, and the order they give a listing.

Version names begin with a hexadecimal digit, claims with a decimal one, bundle names with `z` and their
rank: in any listing by name versions and claims come first, then bundles by rising rank. A bundle's rank is
greater than that of any it replaces. So whatever was deleted before a page was read is covered by something
on a later page.

A base is a bundle that stands for everything below its horizon. Bases are numbered, each created only if
there is none of that number, and sort after all other bundles: their ranks are above every other rank. Their
names say nothing of claims, so beside a base that holds any lies a *boundary*, an empty file whose name has
the highest number; it sorts between bundles and bases.

In `transactions/`, after every transaction and decision, sort the *closings*, each of which says that nothing
below its time is taken in any more until it is settled what is there, and after those the files that settle
it, by number (`crdtcat.protocol.closer`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from crdtcat.clock import VersionId

TRANSACTIONS: Final = "transactions/"
_BUNDLE = re.compile(r"z([0-9]{8})-[0-9a-f]{32}(?:-([0-9]{16}))?\.b")
_DECISION = re.compile(r"[0-9a-f]{16}\.decision")
_CLAIM = re.compile(r"[0-9]{16}\.c")
_BASE = re.compile(r"zz([0-9]{8})\.b")
_BASE_RANKS = 10**8
_BOUNDARY = re.compile(r"zy([0-9]{16})")
_CLOSING = re.compile(r"y([0-9a-f]{16})-[0-9a-f]{16}")
_CLOSED = re.compile(r"z([0-9]{8})")
_VERSION = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-f]{32}\.v")
_SORTS = {
    ".v": (("version", _VERSION),),
    ".c": (("claim", _CLAIM),),
    ".b": (("bundle", _BUNDLE), ("base", _BASE)),
}
_NAMES_KEPT = 1 << 14


def version_name(folder: str, id: VersionId) -> str:
    """The name of a version file."""
    return f"{folder}{id}.v"


def bundle_name(folder: str, rank: int, hash: bytes, number: int = 0) -> str:
    """The name of a bundle file; `hash` is the digest of the file, 16 bytes, `number` the highest of a claim
    in it: that number and all below it are taken, for ever, and every listing says so."""
    return f"{folder}z{rank:08d}-{hash.hex()}{f'-{number:016d}' if number else ''}.b"


def claim_name(folder: str, number: int) -> str:
    """The name of the claim of a number: whoever creates it has made that commit."""
    return f"{folder}{number:016d}.c"


def hint_name(folder: str) -> str:
    """The name of the hint: a claim that was there once, to begin a cold search at. Advice, never proof."""
    return f"{folder}hint"


def base_name(folder: str, number: int) -> str:
    """The name of a base."""
    return f"{folder}zz{number:08d}.b"


def boundary_name(folder: str, number: int) -> str:
    """The name of the file that says: a base has the claim of this number, and all below it."""
    return f"{folder}zy{number:016d}"


def is_boundary(name: str) -> bool:
    """Whether a name is a boundary's."""
    return _BOUNDARY.fullmatch(last(name)) is not None


def decision_name(transaction: int) -> str:
    """The name of the decision about a transaction over tables in CAS mode."""
    return f"{TRANSACTIONS}{transaction:016x}.decision"


def is_decision(name: str) -> bool:
    """Whether a name is a decision's."""
    return _DECISION.fullmatch(last(name)) is not None


def decided_transaction(name: str) -> int:
    """The transaction that a decision is about."""
    return int(last(name)[:16], 16)


def transaction_name(id: VersionId) -> str:
    """The name of a transaction's file; its time is the least of its versions'."""
    return f"{TRANSACTIONS}{id}.v"


def transaction_of(name: str) -> tuple[int, int]:
    """The time and the writer in the name of a transaction's file."""
    title = last(name)
    return int(title[:16], 16), int(title[17:33], 16)


def closing_name(until: int, unique: bytes) -> str:
    """The name of the file that says: transactions below a time are being closed; from 8 random bytes."""
    return f"{TRANSACTIONS}y{until:016x}-{unique.hex()}"


def closing_until(name: str) -> int | None:
    """The time in a closing's name; `None`: it is none."""
    match = _CLOSING.fullmatch(last(name))
    return None if match is None else int(match[1], 16)


def closed_name(number: int) -> str:
    """The name of the file that settles which transactions below a time count."""
    return f"{TRANSACTIONS}z{number:08d}"


def closed_number(name: str) -> int:
    """The number in the name of a file that settles transactions; 0: it is none."""
    match = _CLOSED.fullmatch(last(name)) if name.startswith(TRANSACTIONS) else None
    return 0 if match is None else int(match[1])


def mark_name(folder: str) -> str:
    """The file in a log's folder that says: transactions may touch this log. Stored before the first that
    does, and never deleted."""
    return f"{folder}transacted"


def last(name: str) -> str:
    """The part after the last slash."""
    return name.rsplit("/", 1)[-1]


@lru_cache(_NAMES_KEPT)
def _sort(name: str) -> str:
    """Which sort of file a name in a log is of. Every pass over a log asks it of all names, often: those who
    ask look at how it ends before."""
    for sort, pattern in _SORTS.get(name[-2:], ()):
        if pattern.fullmatch(name, name.rfind("/") + 1):
            return sort
    return ""


def sorted_out(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names of bundles among these, and those of files that hold one commit, in their order."""
    bundles: list[str] = []
    commits: list[str] = []
    for name in names:
        sort = _sort(name)
        if sort in ("version", "claim"):
            commits.append(name)
        elif sort:
            bundles.append(name)
    return bundles, commits


def is_version(name: str) -> bool:
    """Whether a name is a version file's; other names in a log folder are nobody's and are passed over."""
    return name.endswith(".v") and _sort(name) == "version"


def is_claim(name: str) -> bool:
    """Whether a name is a claim's."""
    return name.endswith(".c") and _sort(name) == "claim"


def claim_number(name: str) -> int:
    """The number in a claim's name."""
    return int(last(name)[:16])


def is_commit(name: str) -> bool:
    """Whether a name is of a file that holds one commit: a version or a claim."""
    return _sort(name) in ("version", "claim")


def is_bundle(name: str) -> bool:
    """Whether a name is a bundle file's; a base is a bundle."""
    return name.endswith(".b") and _sort(name) in ("bundle", "base")


def is_base(name: str) -> bool:
    """Whether a name is a base's."""
    return _sort(name) == "base"


def base_number(name: str) -> int:
    """The number in a base's name; 0 for no name."""
    return bundle_rank(name) - _BASE_RANKS if name else 0


def bundle_number(name: str) -> int:
    """The highest number of a claim in a bundle, or in the base that a boundary lies beside, by their names;
    0 where there is none: that number and all below it are taken, for ever."""
    boundary = _BOUNDARY.fullmatch(last(name))
    if boundary is not None:
        return int(boundary[1])
    match = _BUNDLE.fullmatch(last(name))
    return 0 if match is None else int(match[2] or 0)


def bundle_rank(name: str) -> int:
    """The rank in a bundle's name."""
    base = _BASE.fullmatch(last(name))
    if base is not None:
        return _BASE_RANKS + int(base[1])
    match = _BUNDLE.fullmatch(last(name))
    if match is None:
        raise ValueError(f"{name} is not a bundle")
    return int(match[1])
