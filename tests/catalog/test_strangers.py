"""Files and folders in a catalog that are not its own: file managers, editors and backups leave some."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crdtcat import Catalog

NAMES = [
    "ä",
    "Icon\r",
    "a\nb",
    "x:y",
    '"',
    "x?y",
    "n" * 250,
    "\udcff",
    "with space",
    "notes.txt",
    "lost+found",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    catalog = Catalog(tmp_path / "lake", upkeep=False, inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]))
    table.append([{"n": 1}])
    table.tag("first")
    return tmp_path / "lake"


def used(folder: Path) -> None:
    """Whatever lists folders of a catalog."""
    catalog = Catalog(folder, upkeep=False, max_commit_delay_seconds=0.0)
    table = catalog.table("t")
    table.append([{"n": 2}])
    assert catalog.tables() == ["t"]
    assert list(table.tags()) == ["first"]
    assert len(catalog.stats().tables) == 1
    catalog.collect()
    table.expire(keep_last=1)
    assert table.verify("content").ok
    assert table.read(at="first")["n"].to_pylist() == [1]
    copy = Catalog(folder.parent / "copy", upkeep=False)
    catalog.sync(copy.url)
    assert copy.read("t")["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["tables", "data"])
def test_folders_that_no_object_of_ours_can_be_in(folder: Path, place: str, name: str) -> None:
    stranger = folder / place / name
    stranger.mkdir()
    (stranger / "inside").write_bytes(b"whatever")
    used(folder)
    assert (stranger / "inside").read_bytes() == b"whatever"


@pytest.mark.parametrize("name", [*NAMES, "first.json~", "first (copy).json", "ä.json"])
def test_files_beside_tags(folder: Path, name: str) -> None:
    stranger = folder / "tables" / "t" / "refs" / "tags" / name
    stranger.write_bytes(b"whatever")
    used(folder)
    assert stranger.read_bytes() == b"whatever"
