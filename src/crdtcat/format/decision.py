"""Decision files: `committed` or `aborted`, in sealed JSON. Pure."""

from __future__ import annotations

from crdtcat.errors import Corrupt
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.sealed_json import seal_json, unseal_json


def encode_decision(*, committed: bool) -> bytes:
    """The file's bytes."""
    return seal_json({"format": FORMAT_NUMBER, "decision": "committed" if committed else "aborted"})


def decode_decision(data: bytes, name: str) -> bool:
    """Whether it says committed. Raises `Corrupt`, `UnsupportedFormat`."""
    found = unseal_json(data, name).get("decision")
    if found not in ("committed", "aborted"):
        raise Corrupt(name, f"decided {found!r}, which is neither committed nor aborted")
    return bool(found == "committed")
