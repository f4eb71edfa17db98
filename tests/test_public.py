"""The public face: complete, documented, and quick to import."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import crdtcat
from crdtcat import errors

MODULES = ["crdtcat", "crdtcat.errors", "crdtcat.options", "crdtcat.limits", "crdtcat.names"]
RETURNED = [
    "crdtcat.verbs.stream.StreamWriter",
    "crdtcat.head.History",
    "crdtcat.head.head.Chunks",
    "crdtcat.maintenance.CheckpointResult",
    "crdtcat.maintenance.CatalogStats",
    "crdtcat.maintenance.CollectResult",
    "crdtcat.maintenance.Garbage",
    "crdtcat.maintenance.GarbageResult",
    "crdtcat.maintenance.Problem",
    "crdtcat.maintenance.Progress",
    "crdtcat.maintenance.TableStats",
    "crdtcat.maintenance.VerifyReport",
    "crdtcat.options.Options",
    "crdtcat.clock.VectorClock",
]


def public(thing: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The thing, and if it is a class its public members."""
    yield name, thing
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            described = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not member.startswith("_") and (callable(described) or isinstance(described, property)):
                yield f"{name}.{member}", described


def everything() -> Iterator[tuple[str, Any]]:
    for module in map(importlib.import_module, MODULES):
        yield module.__name__, module
        for name, value in vars(module).items():
            if name.startswith("_") or inspect.ismodule(value):
                continue
            if getattr(value, "__module__", "").startswith("crdtcat") and callable(value):
                yield from public(value, f"{module.__name__}.{name}")
    for path in RETURNED:
        module_name, _, name = path.rpartition(".")
        yield from public(getattr(importlib.import_module(module_name), name), path)


@pytest.mark.parametrize(("name", "thing"), list(everything()))
def test_everything_public_is_documented(name: str, thing: Any) -> None:
    doc = inspect.getdoc(thing)
    assert doc, name
    assert len(doc) > 10, name


def test_all_names_what_is_there() -> None:
    assert sorted(crdtcat.__all__) == crdtcat.__all__
    assert all(hasattr(crdtcat, name) for name in crdtcat.__all__)
    modules = {name for name, value in vars(crdtcat).items() if inspect.ismodule(value)}
    shown = {name for name in vars(crdtcat) if not name.startswith("_")} - modules
    assert shown == set(crdtcat.__all__) - {"__version__"}


def test_the_names_scripts_rely_on() -> None:
    verbs = "append overwrite stream scan read head history conflicts tag tags delete_tag restore add_column"
    more = (
        "drop_column rename_column widen_column reorder_columns set_properties checkpoint collect schema "
        "name diff proof verify stats"
    )
    assert all(hasattr(crdtcat.Table, verb) for verb in f"{verbs} {more} properties partition_by".split())
    assert all(
        hasattr(crdtcat.Catalog, verb)
        for verb in [
            "commit",
            "read",
            "table",
            "create_table",
            "tables",
            "drop_table",
            "transaction",
            "sync",
            "sql",
        ]
    )
    attributes = "snapshot version history schema properties row_count root_hash chunks clock conflicts"
    assert all(hasattr(crdtcat.Head, name) for name in attributes.split())
    fields = set(crdtcat.Version.__dataclass_fields__)
    assert {"id", "rows", "metadata", "rebases"} <= fields
    outputs = "to_table to_reader to_pandas to_polars to_duckdb count explain __arrow_c_stream__"
    assert all(hasattr(crdtcat.Scan, name) for name in outputs.split())


def test_errors_that_programs_catch_first_are_at_hand() -> None:
    for name in (
        "CrdtcatError",
        "CommitConflict",
        "CommitUnknown",
        "NotFound",
        "AlreadyExists",
        "SchemaMismatch",
    ):
        assert getattr(crdtcat, name) is getattr(errors, name)


def test_every_error_has_a_code_of_its_own() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    assert all(issubclass(kind, errors.CrdtcatError) for kind in kinds)
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    for kind in kinds:
        assert kind.__name__ in (errors.__doc__ or ""), f"{kind.__name__} is not in the drawn tree"


@pytest.mark.parametrize("used", [False, True])
def test_importing_and_using_brings_in_nothing_heavy(used: bool) -> None:
    heavy = ["polars", "duckdb", "s3fs", "pyspark", "sqlglot", "hypothesis", "pytest", "aiobotocore"]
    if not used:
        heavy.append("pandas")  # pyarrow itself looks for it when it converts the first Python list
    use = "c = crdtcat.Catalog('memory://x'); c.commit('t', [{'a': 1}]); assert c.read('t').num_rows == 1"
    program = f"""
import sys
import crdtcat
{use if used else ""}
print([name for name in {heavy!r} if name in sys.modules])
"""
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.strip() == "[]"
