"""Schemas as they are stored: which versions have one, and, for errors, which file has one that is wrong.

A type code that a newer release added is refused where values of it are wanted. What it stands in is looked
for only then. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from crdtcat.chunks.type_codes import TypeCode, decode_type
from crdtcat.errors import Corrupt, LimitExceeded, UnsupportedFormat
from crdtcat.format.ops import Definition, DefinitionId
from crdtcat.format.schema_code import StoredField, decode_schema
from crdtcat.format.sections import Array
from crdtcat.format.settings import Settings
from crdtcat.log.log import Log

Unknown = UnsupportedFormat | LimitExceeded
"""What is raised for a type that this release does not know, or that is nested too deep."""


def schema_users(log: Log, standing: Array) -> Iterator[tuple[int, Array]]:
    """(schema, versions that use it, rising) for every schema a standing version uses."""
    several = bool((log.schema[log.chunk_version] != log.chunk_schema).any())  # only after a restore or merge
    for schema in range(len(log.schemas)):
        users = log.schema == schema
        if several:
            users[log.chunk_version[log.chunk_schema == schema]] = True
        versions = np.flatnonzero(users & standing)
        if len(versions):
            yield schema, versions


def stored_fields(log: Log, schema: int) -> tuple[StoredField, ...]:
    """The fields of one of a log's packed schemas. Raises `Corrupt`, of the first version that has it."""
    try:
        return decode_schema(log.schemas[schema], "schema")
    except Corrupt:
        return decode_schema(log.schemas[schema], _files_of_schemas(log)[schema])


def naming_the_file(
    error: Unknown,
    log: Log,
    settings: Settings | None = None,
    definitions: Mapping[DefinitionId, Definition] | None = None,
) -> UnsupportedFormat:
    """The same error, of the first place that has such a type: settings, a definition, a version's rows."""
    named = (name for name, code in _codes(log, settings, definitions or {}) if _is_unknown(code))
    return UnsupportedFormat(f"{next(named, 'a stored type')}: {error.args[0]}")


def _codes(
    log: Log, settings: Settings | None, definitions: Mapping[DefinitionId, Definition]
) -> Iterator[tuple[str, TypeCode]]:
    if settings is not None:
        yield from (("settings.json", column.type) for column in settings.columns or ())
    yield from ((f"{id.version}.v", definition.type) for id, definition in sorted(definitions.items()))
    for schema, name in _files_of_schemas(log).items():
        yield from ((name, field.type) for field in stored_fields(log, schema))


def _is_unknown(code: TypeCode) -> bool:
    try:
        decode_type(code)
    except (UnsupportedFormat, LimitExceeded):
        return True
    return False


def _files_of_schemas(log: Log) -> dict[int, str]:
    """Of each schema the file that had it first. O(n) for each."""
    everybody = np.ones(len(log), bool)
    return {schema: f"{log.id_at(int(at[0]))}.v" for schema, at in schema_users(log, everybody)}
