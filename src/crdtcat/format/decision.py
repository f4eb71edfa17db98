"""Decision files: `committed` or `aborted`, in sealed JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crdtcat.errors import Corrupt
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.settings import require_log_folder
from crdtcat.support.object_bytes import ObjectBytes


def encode_decision(*, committed: bool, claims: Mapping[str, int] | None = None) -> bytes:
    """The file's bytes. `claims`: by log folder, the number of every claim that waits for it, if known."""
    content: dict[str, Any] = {
        "format": FORMAT_NUMBER,
        "decision": "committed" if committed else "aborted",
    }
    if claims is not None:
        content["claims"] = dict(sorted(claims.items()))
    return seal_json(content)


def decided_claims(data: ObjectBytes, name: str) -> dict[str, int] | None:
    """Every claim that waited for a decision, by log folder; `None`: it does not say. Raises `Corrupt`."""
    claims = unseal_json(data, name).get("claims")
    if claims is None:
        return None
    if not isinstance(claims, dict) or not all(isinstance(number, int) for number in claims.values()):
        raise Corrupt(name, "its claims are no numbers by folder")
    for folder in claims:
        require_log_folder(folder, name)
    return claims


def decode_decision(data: ObjectBytes, name: str) -> bool:
    """Whether it says committed. Raises `Corrupt`, `UnsupportedFormat`."""
    found = unseal_json(data, name).get("decision")
    if found not in ("committed", "aborted"):
        raise Corrupt(name, f"decided {found!r}, which is neither committed nor aborted")
    return bool(found == "committed")
