"""Import of folders and files that others named: in any alphabet, with whatever a file system lets them have.

Hive and Spark escape some characters in the names of partitions (`%3A`), and leave all others as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidName
from crdtcat.store import Store, open_store
from crdtcat.store.naming import beyond
from crdtcat.testing.s3_server import S3Server

TOWNS = {"Zürich": "Zürich", "東京": "東京", "a%3Ab%2Fc": "a:b/c", "[x]*? #1": "[x]*? #1", "100%": "100%"}
"""Folders, and what they say."""
LONG = "ż" * 100  # 200 bytes


def written(folder: Path) -> list[tuple[str, int]]:
    """A file for each town; what is to be read back."""
    for number, town in enumerate(TOWNS):
        place = folder / f"città={town}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), place / f"{LONG} ({number}).parquet")
    return sorted((town, number) for number, town in enumerate(TOWNS.values()))


def read_back(catalog: Catalog) -> list[tuple[str, int]]:
    return sorted((row["città"], row["id"]) for row in catalog.read("t").to_pylist())


@pytest.mark.parametrize("commit", ["job", "file"])
def test_names_in_any_alphabet(tmp_path: Path, commit: str) -> None:
    wanted = written(tmp_path / "in")
    catalog = Catalog(tmp_path / "lake", upkeep=False)
    done = catalog.import_parquet("t", tmp_path / "in", commit=commit)
    assert (done.files, done.rows) == (len(TOWNS), len(TOWNS))
    assert read_back(catalog) == wanted
    assert catalog.import_parquet("t", tmp_path / "in", commit=commit).versions == ()
    (file,) = (tmp_path / "in" / "città=東京").iterdir()
    assert catalog.import_parquet("one", file).rows == 1


@pytest.mark.s3
def test_names_in_any_alphabet_on_s3(tmp_path: Path, s3_server: S3Server, s3_url: str) -> None:
    wanted = written(tmp_path / "in")
    storage: dict[str, Any] = s3_server.storage_options
    filesystem = fsspec.filesystem("s3", **storage)
    for file in (tmp_path / "in").rglob("*.parquet"):
        name = file.relative_to(tmp_path / "in").as_posix()
        filesystem.pipe_file(f"{s3_url}/in/{name}", file.read_bytes())
    catalog = Catalog(f"{s3_url}/lake", storage, upkeep=False)
    assert catalog.import_parquet("t", f"{s3_url}/in", storage_options=storage).rows == len(TOWNS)
    assert read_back(catalog) == wanted
    source = open_store(f"{s3_url}/in", storage)
    source.foreign = True
    assert paged(source, "") == []  # folders, one for each page: it comes to an end
    assert source.folders("") == sorted(f"città={town}" for town in TOWNS)


def paged(source: Store, prefix: str) -> list[str]:
    """All names in a folder, found one by one."""
    found: list[str] = []
    after: str | None = ""
    for _ in range(20):
        if after is None:
            return found
        page = source.list_page(prefix, after, 1)
        found += [item.name for item in page.objects]
        after = page.after
    raise AssertionError("it does not come to an end")


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "in" / "a.parquet")
    os.rename(tmp_path / "in" / "a.parquet", os.fsencode(tmp_path / "in") + b"/\xff.parquet")  # noqa: PTH104
    with pytest.raises(InvalidName, match=r"udcff.parquet' cannot be read: names of files are .* UTF-8"):
        Catalog(tmp_path / "lake").import_parquet("t", tmp_path / "in")


def test_foreign_names_stay_below_the_root_and_are_not_written(tmp_path: Path) -> None:
    source = open_store(tmp_path / "in")
    source.foreign = True
    for name in ("../x", "a/../../x", "/x", "a//x", "..", ".", "a\\x", "a\nx", ""):
        with pytest.raises(InvalidName):
            source.get(name)
        with pytest.raises(InvalidName):
            source.get_many([(name, 0, 1)])
    with pytest.raises(InvalidName):
        source.folders("../")
    with pytest.raises(InvalidName):
        source.put("città", b"")
    with pytest.raises(InvalidName):
        source.delete(["città"])
    assert beyond(foreign=True) > "\U0010fffe"
