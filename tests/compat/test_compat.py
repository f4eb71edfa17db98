"""Catalogs written by every release so far are read, for ever, to the same rows and the same names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from crdtcat import Catalog
from tests.compat.write import DATA, OPTIONS, event, expected

RELEASES = sorted(path.name for path in DATA.iterdir() if path.is_dir())


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, so that nothing here can change what was kept."""
    kept = DATA / request.param
    shutil.copytree(kept, tmp_path / "release")
    return tmp_path / "release"


def test_the_first_release_is_kept() -> None:
    assert "0.1.0" in RELEASES


def test_everything_reads_as_it_did(release: Path) -> None:
    kept = json.loads((release / "expected.json").read_text())
    assert expected(Catalog(str(release / "catalog"), **OPTIONS)) == kept


def test_every_kind_of_file_is_there(release: Path) -> None:
    names = [path.name for path in (release / "catalog").rglob("*") if path.is_file()]
    for suffix in (".v", ".b", ".parquet", "settings.json", "crdtcat.json", "early.json"):
        assert any(name.endswith(suffix) for name in names), suffix


def test_old_catalogs_can_be_written_to_and_bundled(release: Path) -> None:
    catalog = Catalog(str(release / "catalog"), **OPTIONS)
    before = {name: catalog.table(name).read() for name in catalog.tables()}
    events = catalog.table("events")
    events.append([event(99, "z")])
    for name in catalog.tables():
        catalog.table(name).checkpoint()
        catalog.table(name).collect()
    cold = Catalog(str(release / "catalog"), **OPTIONS)
    assert cold.read("events").num_rows == before["events"].num_rows + 1
    for name, rows in before.items():
        if name != "events":
            assert cold.read(name).equals(rows)
    for tag in ("early", "late"):
        kept = json.loads((release / "expected.json").read_text())["events"]["tags"][tag][1]
        assert json.loads(json.dumps(cold.read("events", at=tag).to_pylist(), default=str)) == kept
