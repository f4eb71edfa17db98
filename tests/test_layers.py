"""The layering law of docs/design/001-architecture.md, read from the page itself: nobody imports downward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "crdtcat"
_ROW = re.compile(r"\| (\d+) \| ([^|]+) \|")


def layers() -> dict[str, int]:
    """Package or module, and its number in the page's table."""
    page = (ROOT / "docs" / "design" / "001-architecture.md").read_text()
    return {name: int(number) for number, cell in _ROW.findall(page) for name in re.findall(r"`(\w+)`", cell)}


LAYERS = layers()


def modules() -> Iterator[tuple[str, Path]]:
    """(package or module directly below crdtcat, file) for every file that belongs to a layer."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part != "__init__":
            yield part, path


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, full name) of everything of ours that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by full name"
            base = node.module or ""
            if base == "crdtcat":
                yield from ((node.lineno, f"crdtcat.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, base


def test_the_table_was_understood() -> None:
    assert {"errors", "clock", "format", "store", "protocol", "chunks", "head", "session", "table"} <= set(
        LAYERS
    )
    assert LAYERS["errors"] == 0 < LAYERS["store"] < LAYERS["catalog"] < LAYERS["testing"]


def test_every_module_is_in_a_layer() -> None:
    assert {part for part, _ in modules()} <= set(LAYERS)


def test_nobody_imports_downward() -> None:
    broken = []
    for part, path in modules():
        for line, name in imported(path):
            target = name.split(".")[1] if name.startswith("crdtcat.") else None
            if target in LAYERS and LAYERS[target] > LAYERS[part]:
                broken.append(f"{path.relative_to(ROOT)}:{line}: {part} imports {name}")
    assert not broken, "\n".join(broken)


FORBIDDEN: dict[str, tuple[str, ...]] = {
    "clock": ("pyarrow", "numpy", "fsspec"),
    "lattice": ("pyarrow", "numpy", "fsspec"),
    "intervals": ("pyarrow", "fsspec"),
    "format": ("fsspec", "s3fs", "crdtcat.store"),
    "protocol": ("fsspec", "s3fs", "crdtcat.store", "time", "random", "secrets"),
    "log": ("fsspec", "s3fs", "crdtcat.store"),
    "head": ("fsspec", "s3fs", "crdtcat.store"),
    "chunks": ("fsspec", "s3fs"),
    "difference": ("fsspec", "s3fs", "pyarrow.parquet", "crdtcat.store", "crdtcat.log"),
    "scan": ("fsspec", "s3fs", "pyarrow.parquet", "crdtcat.writing"),
    "writing": ("fsspec", "s3fs", "pyarrow.parquet"),
    "verbs": ("fsspec", "s3fs", "pyarrow.parquet"),
    "session": ("fsspec", "s3fs", "pyarrow.parquet"),
    "maintenance": ("fsspec", "s3fs", "pyarrow.parquet"),
    "catalog": ("fsspec", "s3fs", "pyarrow.parquet"),
    "table": ("fsspec", "s3fs", "pyarrow.parquet"),
}


@pytest.mark.parametrize("part", FORBIDDEN)
def test_what_a_layer_may_not_touch(part: str) -> None:
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for owner, path in modules()
        if owner == part
        for line, name in imported(path)
        if any(name == banned or name.startswith(f"{banned}.") for banned in FORBIDDEN[part])
    ]
    assert not broken, "\n".join(broken)


def test_only_the_store_touches_file_systems() -> None:
    touching = {
        part
        for part, path in modules()
        for _, name in imported(path)
        if name.split(".")[0] in {"fsspec", "s3fs", "botocore", "aiobotocore"}
    }
    assert touching <= {"store", "testing"}


def test_files_are_small_and_say_what_they_are_for() -> None:
    for part, path in modules():
        text = path.read_text()
        assert part == "testing" or len(text.splitlines()) <= 300, path
        assert ast.get_docstring(ast.parse(text)), path
