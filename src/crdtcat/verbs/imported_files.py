"""Which files a table has imported: what a file is known by, where that is kept, and how it is found again.

A file is known by the folder that is imported, its path below it, and its footer, which holds sizes and
statistics of everything in it: a folder below, imported by itself, has other files. The folder is one text
however it is spelt (`Store.place`). An import that commits file by
file has that as the idempotency key of each version; one that commits a job names all its files in the
version's ops. Both stay below the horizon of an expiry. So whatever imports later, in either way, leaves out
what a standing version has.

Of two imports under way at once neither sees the other. File by file, or where both found the same files, the
idempotency keys still let each file in once; two jobs that found different files add twice what they share.

No request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from blake3 import blake3

from crdtcat.format.ops import FILE_BYTES
from crdtcat.head import Head
from crdtcat.writing.imported import SourceFile

_PREFIX: Final = "import/"
_KEY_DIGITS: Final = 40


def key_of(root: str, files: Iterable[SourceFile]) -> str:
    """The idempotency key under which files of a folder are imported together."""
    hasher = blake3(root.encode())
    for file in sorted(files):
        hasher.update(b"\0" + file.name.encode() + b"\0" + file.digest)
    return f"{_PREFIX}{hasher.hexdigest()[:_KEY_DIGITS]}"


def ids_of(root: str, files: Iterable[SourceFile]) -> bytes:
    """What each of some files is known by, for the version that imports them: rising, end to end."""
    return b"".join(sorted(_id(key_of(root, [file])) for file in files))


def not_yet(head: Head | None, root: str, files: Sequence[SourceFile]) -> list[bool]:
    """Per file, whether no standing version has imported it. O(versions + files imported before)."""
    if head is None:
        return [True] * len(files)
    held: set[bytes] = set()
    for ops in head.folded.ops.values():
        held.update(ops.files[at : at + FILE_BYTES] for at in range(0, len(ops.files), FILE_BYTES))
    prefix = _PREFIX.encode()
    for key in head.log.key.drop_null().to_pylist():
        if key.startswith(prefix) and len(key) == len(prefix) + _KEY_DIGITS:
            held.add(_id(key.decode(errors="replace")))
    return [_id(key_of(root, [file])) not in held for file in files]


def _id(key: str) -> bytes:
    try:
        return bytes.fromhex(key.removeprefix(_PREFIX))[:FILE_BYTES]
    except ValueError:  # somebody else's key that looks like ours
        return b""
