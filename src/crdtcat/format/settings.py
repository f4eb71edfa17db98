"""`settings.json`: what is fixed when a table is created, and the catalog's format marker.

Settings are few on purpose: everything that may change while writers are at work (columns, properties)
lives in versions and merges. Two writers that create the same table with the same settings write the same
bytes, so implicit creation by a first commit needs no exclusive create.

A table that is dropped keeps its settings file, marked as dropped; one created again under the name gets
the next incarnation, and with it a settings file and a log folder of its own, so no straggler of the old
table is read as part of the new one. The old log's folder keeps one empty file, `dropped`, for handles that
are still open on it. Which incarnation is current is worked out in `crdtcat.lifecycle.incarnations`.

A table whose mode is switched gets a further settings file, too, and keeps its incarnation and its log.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from crdtcat.errors import Corrupt, InvalidName, LimitExceeded, UnsupportedFormat
from crdtcat.format.frame import FORMAT_NUMBER
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.names import validate_branch_name, validate_table_name
from crdtcat.support.object_bytes import ObjectBytes

MARKER_NAME: Final = "crdtcat.json"
MARKER: Final = b'{"crdtcat":{"format":1}}\n'
_SETTINGS_KEPT: Final = 64


class ColumnSetting(BaseModel):
    """A column the table was created with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: Any = Field(description="type code, see docs/format.md; bytes in it are {'hex': text}")
    nullable: bool = True

    @field_validator("type", mode="before")
    @classmethod
    def _plain(cls, code: Any) -> Any:
        return _text_as_bytes(code)


class Settings(BaseModel):
    """What is fixed at creation, but for the mode.

    `incarnation` names the log. `number` names the settings file, and is the incarnation unless the mode was
    switched; `switched` is then the number of the claim that switched it, in the log, which decides.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT_NUMBER
    incarnation: int = Field(default=1, ge=1)
    dropped: bool = False
    mode: Literal["merge", "cas"] = "merge"
    partition_by: tuple[str, ...] = ()
    time_column: str | None = None
    columns: tuple[ColumnSetting, ...] | None = None
    key: tuple[str, ...] = ()
    number: int | None = Field(default=None, ge=2)
    switched: int = Field(default=0, ge=0)

    @property
    def file_number(self) -> int:
        """Which settings file of the table this is."""
        return self.number or self.incarnation

    def as_created(self) -> Settings:
        """The same but for which life of the table's name it is, and how often its mode was switched."""
        return self.model_copy(update={"incarnation": 1, "number": None, "switched": 0})

    def encode(self) -> bytes:
        """The file's bytes: equal settings, equal bytes. Raises `LimitExceeded`."""
        empty = {name for name in ("key", "number", "switched") if not getattr(self, name)}
        without = empty or None  # older readers know none of these, and need not
        return seal_json(json.loads(json.dumps(self.model_dump(exclude=without), default=_bytes_as_text)))


def _bytes_as_text(value: Any) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    raise TypeError(f"{type(value).__name__} cannot be a part of settings")


def _text_as_bytes(code: Any) -> Any:
    """A type code as it was: JSON has no bytes, and extension types carry some."""
    if isinstance(code, dict):
        return bytes.fromhex(code["hex"])
    return [_text_as_bytes(item) for item in code] if isinstance(code, list | tuple) else code


def settings_name(table: str, number: int = 1) -> str:
    """Where the settings of a table of some number are; the first one's file also tells which are over."""
    return f"tables/{table}/settings{'' if number == 1 else f'~{number}'}.json"


def log_folder(table: str, branch: str, incarnation: int, life: int = 1) -> str:
    """Where the log of one life of a branch is."""
    if life > 1:
        return f"tables/{table}/{branch}~{incarnation}~{life}/"
    return f"tables/{table}/{branch}/" if incarnation == 1 else f"tables/{table}/{branch}~{incarnation}/"


def parse_log_folder(folder: str) -> tuple[str, str, int, int]:
    """(table, branch, incarnation, life) of a log's folder. Raises `ValueError` for any other."""
    _, table, log, _ = folder.split("/")
    branch, *numbers = log.split("~")
    incarnation, life = (int(number) for number in (*numbers, "1", "1")[:2])
    if log_folder(table, branch, incarnation, life) != folder:
        raise ValueError(f"{folder} is no folder of a log")
    return table, branch, incarnation, life


def require_log_folder(folder: str, name: str) -> None:
    """Raises `Corrupt`, naming the file that speaks of it, unless this is the folder of a log."""
    try:
        table, branch, *_ = parse_log_folder(folder)
        validate_table_name(table)
        validate_branch_name(branch)
    except (ValueError, InvalidName, LimitExceeded) as error:
        raise Corrupt(name, f"speaks of {folder[:200]!r}, which is no folder of a log") from error


def dropped_name(folder: str) -> str:
    """The file in a log's folder that says its table was dropped: who lists the log sees it at no cost."""
    return f"{folder}dropped"


def decode_settings(data: ObjectBytes, name: str) -> Settings:
    """The settings in a file. Raises `Corrupt` or, for a newer format, `UnsupportedFormat`."""
    return _decoded(bytes(data), name)


@lru_cache(_SETTINGS_KEPT)
def _decoded(data: bytes, name: str) -> Settings:
    """A process that opens a table again and again finds the same bytes each time, nearly always."""
    content = unseal_json(data, name)
    try:
        return Settings.model_validate(content)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(name, f"not valid settings: {error}") from error


def check_marker(data: ObjectBytes) -> None:
    """Refuse a catalog of a newer format. Raises `Corrupt` or `UnsupportedFormat`."""
    if data == MARKER:
        return
    try:
        number = json.loads(bytes(data))["crdtcat"]["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(MARKER_NAME, "not a crdtcat catalog marker") from error
    if number != FORMAT_NUMBER:
        raise UnsupportedFormat(f"{MARKER_NAME}: catalog format {number}; upgrade crdtcat to read it")
