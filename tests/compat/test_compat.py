"""Catalogs written by every release so far are read, for ever, to the same rows and the same names."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.format.carried import frames_of
from tests.compat.changes import readings
from tests.compat.kinds import documented
from tests.compat.write import DATA, OPTIONS, event, expected

RELEASES = sorted(path.name for path in DATA.iterdir() if path.is_dir() and "-" not in path.name)
EVERYTHING = sorted(path.name for path in DATA.iterdir() if path.is_dir())
KINDS = {
    "": (".v", ".b", ".parquet", "settings.json", "crdtcat.json", "early.json"),
    "changes": (
        ".v",
        ".b",
        ".c",
        ".parquet",
        ".decision",
        "transacted",
        "hint",
        ".deleted",
        "dropped",
        "open.json",
    ),
    "carrying": (".c", ".b", ".decision", "hint", "settings.json"),
    "types": (".v", ".b", ".parquet", "settings.json"),
    "upkeep": (".v", ".b", ".c", ".parquet", ".g", ".l", "z00000002", "zz00000001.b", "zy0000000000000004"),
}


@pytest.fixture
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, so that nothing here can change what was kept."""
    shutil.copytree(DATA / request.param, tmp_path / "kept")
    return tmp_path / "kept"


def test_the_first_release_is_kept() -> None:
    assert {"0.1.0", "0.1.0-carrying", "0.1.0-changes", "0.1.0-types", "0.1.0-upkeep"} <= set(EVERYTHING)


@pytest.mark.parametrize("release", RELEASES)
def test_claims_that_carry_others_are_kept(release: str) -> None:
    claims = (DATA / f"{release}-carrying" / "catalog" / "tables" / "raced" / "main").glob("*.c")
    held = [len(frames_of(path.read_bytes(), path.name)) for path in claims]
    assert held.count(1) >= 1, "one that was alone"
    assert max(held) > 10


@pytest.mark.parametrize("release", RELEASES)
def test_every_kind_of_file_that_the_format_names_is_kept(release: str) -> None:
    catalogs = [DATA / name / "catalog" for name in EVERYTHING if name.partition("-")[0] == release]
    names = [path.relative_to(it).as_posix() for it in catalogs for path in it.rglob("*") if path.is_file()]
    kinds = documented()
    assert [kind for kind, pattern in kinds.items() if not any(map(pattern.fullmatch, names))] == []
    later = re.compile(
        r".*~[0-9]+(/.*|\.json)"
    )  # from the second incarnation on, as the page says below the list
    strangers = [name for name in names if not any(pattern.fullmatch(name) for pattern in kinds.values())]
    assert [name for name in strangers if not later.fullmatch(name)] == []


@pytest.mark.parametrize("kept", EVERYTHING, indirect=True)
def test_everything_reads_as_it_did(kept: Path) -> None:
    assert expected(Catalog(str(kept / "catalog"), upkeep=False)) == _expected(kept)


@pytest.mark.parametrize("kept", EVERYTHING, indirect=True)
def test_every_kind_of_file_is_there(kept: Path, request: pytest.FixtureRequest) -> None:
    names = [path.name for path in (kept / "catalog").rglob("*") if path.is_file()]
    for suffix in KINDS[request.node.callspec.params["kept"].partition("-")[2]]:
        assert any(name.endswith(suffix) for name in names), suffix


@pytest.mark.parametrize("kept", EVERYTHING, indirect=True)
def test_everything_is_found_whole(kept: Path) -> None:
    catalog = Catalog(str(kept / "catalog"), upkeep=False)
    for name in catalog.tables():
        assert catalog.table(name).verify(depth="content").ok, name


@pytest.mark.parametrize("kept", RELEASES, indirect=True)
def test_old_catalogs_can_be_written_to_and_bundled(kept: Path) -> None:
    catalog = Catalog(str(kept / "catalog"), **OPTIONS)
    before = {name: catalog.table(name).read() for name in catalog.tables()}
    events = catalog.table("events")
    events.append([event(99, "z")])
    for name in catalog.tables():
        catalog.table(name).checkpoint()
        catalog.table(name).collect()
    cold = Catalog(str(kept / "catalog"), **OPTIONS)
    assert cold.read("events").num_rows == before["events"].num_rows + 1
    for name, rows in before.items():
        if name != "events":
            assert cold.read(name).equals(rows)
    for tag in ("early", "late"):
        assert _plain(cold.read("events", at=tag)) == _expected(kept)["events"]["tags"][tag][1]


@pytest.mark.parametrize("kept", [f"{release}-changes" for release in RELEASES], indirect=True)
def test_changed_rows_can_be_changed_again_and_compacted(kept: Path) -> None:
    """The next release goes on where the kept one stopped, and what it folds reads the same."""
    catalog = Catalog(str(kept / "catalog"), upkeep=False)
    for name, was in _expected(kept).items():
        table = catalog.table(name)
        gone, stays = was["rows"][0]["id"], {row["id"]: row for row in was["rows"][1:]}
        table.delete(f"id = {gone}")
        table.update("id = 3", {"note": "much later"})
        table.append(readings(900, 902))
        if 3 in stays:
            stays[3]["note"] = "much later"
        stays |= {row["id"]: row for row in readings(900, 902)}
        for _ in range(2):
            assert {row["id"]: row for row in _plain(Catalog(catalog.url).read(name))} == stays, name
            table.compact()
            table.checkpoint()
        for tag, (_, rows) in was["tags"].items():
            assert _plain(table.read(at=tag)) == rows, (name, tag)


@pytest.mark.parametrize("kept", [f"{release}-upkeep" for release in RELEASES], indirect=True)
def test_upkeep_goes_on_where_the_kept_one_stopped(kept: Path) -> None:
    """What was condemned or let go is deleted, who died while closing is replaced, and no row changes."""
    root = kept / "catalog"
    catalog = Catalog(str(root), upkeep=False, max_commit_delay_seconds=0, grace_seconds=0)
    before = {name: catalog.read(name) for name in catalog.tables()}
    segments = set(root.glob("data/*/*.parquet"))
    told = catalog.collect(grace=0)
    assert {item.fate for item in told.garbage} == {"deleted"}
    gone = {root / item.name for item in told.garbage}
    assert gone <= segments
    assert set(root.glob("data/*/*.parquet")) == segments - gone
    assert not list(root.glob("garbage/*"))
    for name in before:
        catalog.table(name).expire(older_than=timedelta(0))
    assert not list(root.glob("transactions/y*"))
    assert [path.name for path in root.glob("transactions/z*")] != ["z00000002"]
    cold = Catalog(str(root), upkeep=False)
    assert {name: cold.read(name) for name in cold.tables()} == before


def _expected(kept: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((kept / "expected.json").read_text())
    return content


def _plain(rows: pa.Table) -> Any:
    return json.loads(json.dumps(rows.to_pylist(), default=str))
