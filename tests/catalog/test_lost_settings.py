"""Tables whose settings are damaged or lost: they are verified as far as can be, dropped, and made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt, InvalidName, NotFound, UnsupportedFormat
from crdtcat.format.settings import decode_settings
from tests.catalog.lakes import another, lake, objects

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
SETTINGS = "tables/t/settings.json"


def flipped(catalog: Catalog, name: str) -> None:
    data = bytearray(catalog.store.get(name))
    data[20] ^= 1
    catalog.store.put(name, bytes(data))


def gone(catalog: Catalog, name: str) -> None:
    catalog.store.delete([name])


def once(catalog: Catalog, **settings: Any) -> str:
    catalog.create_table("t", SCHEMA, **settings).append([{"id": 1}])
    return SETTINGS


def again(catalog: Catalog) -> str:
    once(catalog)
    catalog.drop_table("t")
    once(catalog)
    return "tables/t/settings~2.json"


def statement_of_another(catalog: Catalog) -> str:
    again(catalog)
    return SETTINGS


def switched(catalog: Catalog) -> str:
    once(catalog)
    catalog.table("t").switch_mode("cas")
    catalog.table("t").append([{"id": 2}])
    return "tables/t/settings~2.json"


def switched_back(catalog: Catalog) -> str:
    switched(catalog)
    catalog.table("t").switch_mode("merge")
    catalog.table("t").append([{"id": 3}])
    return "tables/t/settings~3.json"


def no_longer_strict(catalog: Catalog) -> str:
    once(catalog, mode="cas")
    catalog.table("t").switch_mode("merge")
    catalog.table("t").append([{"id": 2}])
    return "tables/t/settings~2.json"


def again_and_switched(catalog: Catalog) -> str:
    again(catalog)
    catalog.table("t").switch_mode("cas")
    return "tables/t/settings~3.json"


def dropped(catalog: Catalog) -> str:
    once(catalog)
    catalog.drop_table("t")
    return SETTINGS


LIVES: dict[str, Callable[[Catalog], str]] = {
    "once": once,
    "cas": lambda catalog: once(catalog, mode="cas"),
    "keyed": lambda catalog: once(catalog, key=["id"]),
    "again": again,
    "statement": statement_of_another,
    "switched": switched,
    "switched back": switched_back,
    "no longer strict": no_longer_strict,
    "again and switched": again_and_switched,
    "dropped": dropped,
}
SWITCHED = ("switched", "switched back", "no longer strict", "again and switched")
HARMS = {"flipped": flipped, "gone": gone}


def made(life: str) -> tuple[Catalog, str]:
    catalog = lake(max_commit_delay_seconds=0.0)
    catalog.commit("other", [{"id": 7}])
    return catalog, LIVES[life](catalog)


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("harm", HARMS)
def test_it_is_dropped_and_made_again(life: str, harm: str) -> None:
    catalog, name = made(life)
    old = None if life == "dropped" else catalog.table("t")
    HARMS[harm](catalog, name)
    fresh = another(catalog)
    if harm == "flipped":
        with pytest.raises(Corrupt, match="settings"):
            fresh.create_table("t", SCHEMA)
    elif life not in ("dropped", "statement"):  # a later file says what it is, or that it is over
        for call in (
            fresh.table,
            fresh.read,
            lambda name: name in fresh,
            lambda name: fresh.commit(name, [{"id": 1}]),
        ):
            with pytest.raises(Corrupt, match=f"{name}: missing, .* drop_table\\('t'\\)"):
                call("t")
        before = objects(catalog)
        with pytest.raises(Corrupt, match=r"drop_table\('t'\)"):
            fresh.create_table("t", SCHEMA)
        assert objects(catalog) == before, "nobody is told that it was dropped"
        assert ("t" in fresh.tables()) == (life in ("once", "cas", "keyed"))
    fresh.drop_table("t")
    with pytest.raises(NotFound):
        fresh.table("t")
    with pytest.raises(NotFound):
        fresh.drop_table("t")
    assert another(catalog).tables() == ["other"]
    if old is not None:
        with pytest.raises(NotFound, match="was dropped"):
            old.read()
    fresh.create_table("t", pa.schema([("x", pa.string())])).append([{"x": "new"}])
    assert another(catalog).read("t").to_pylist() == [{"x": "new"}]
    another(catalog).collect(grace=0)
    another(catalog).collect(grace=0)
    assert another(catalog).read("t").to_pylist() == [{"x": "new"}]
    assert another(catalog).read("other").num_rows == 1
    assert another(catalog).verify("t", "content").ok


@pytest.mark.parametrize("life", ["once", "cas", "keyed", "again", "statement", *SWITCHED])
@pytest.mark.parametrize("harm", HARMS)
def test_it_is_verified_by_a_new_process(life: str, harm: str) -> None:
    catalog, name = made(life)
    assert another(catalog).verify("t").ok
    HARMS[harm](catalog, name)
    report = another(catalog).verify("t", "content")
    assert [problem.name for problem in report.problems] == [name]
    assert report.rows >= 1
    folder = max(name for name in catalog.store.folders("tables/t/") if name.startswith("main"))
    files = [item.name for item in catalog.store.list(f"tables/t/{folder}/")]
    version = max(file for file in files if file.endswith(".v")) if life != "cas" else ""
    last = max([file for file in files if file.endswith(".c")], default=version)
    catalog.store.put(last, catalog.store.get(last)[:-1])
    found = {problem.name for problem in another(catalog).verify("t", "metadata").problems}
    assert {name, last} <= found


@pytest.mark.parametrize("life", SWITCHED)
def test_what_looks_dropped_is_not_collected(life: str) -> None:
    """Where the settings of a switch are lost, those before say that they are over, as after a drop."""
    catalog, name = made(life)
    kept = catalog.store.get(name)
    rows = another(catalog).read("t").num_rows
    gone(catalog, name)
    before = objects(catalog)
    for _ in range(2):
        with pytest.raises(Corrupt, match=f"{name}: missing, .* drop_table\\('t'\\)"):
            another(catalog).collect(grace=0)
    assert set(before) <= set(objects(catalog))
    catalog.store.put(name, kept)
    another(catalog).collect(grace=0)
    assert another(catalog).read("t").num_rows == rows


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_a_drop_that_was_cut_off_is_a_drop(mode: str) -> None:
    """After the statement, before the mark: nothing in the log says that it was switched."""
    catalog = lake(max_commit_delay_seconds=0.0)
    once(catalog, mode=mode)
    found = decode_settings(catalog.store.get(SETTINGS), SETTINGS)
    catalog.store.put(SETTINGS, found.model_copy(update={"dropped": True}).encode())
    with pytest.raises(NotFound):
        another(catalog).table("t")
    another(catalog).collect(grace=0)
    another(catalog).create_table("t", SCHEMA, mode=mode).append([{"id": 5}])
    assert another(catalog).read("t").num_rows == 1


def test_a_drop_that_was_cut_off_from_a_log_that_is_damaged_can_be_repeated() -> None:
    """Whether it was dropped or switched cannot be told: nothing takes its place before somebody says so."""
    catalog = lake(max_commit_delay_seconds=0.0)
    once(catalog, mode="cas")
    found = decode_settings(catalog.store.get(SETTINGS), SETTINGS)
    catalog.store.put(SETTINGS, found.model_copy(update={"dropped": True}).encode())
    (claim,) = [name for name in objects(catalog) if name.endswith(".c")]
    flipped(catalog, claim)
    for call in (another(catalog).table, another(catalog).create_table, another(catalog).read):
        with pytest.raises(Corrupt, match=r"drop_table\('t'\)"):
            call("t")
    another(catalog).drop_table("t")
    another(catalog).create_table("t", SCHEMA).append([{"id": 5}])
    assert another(catalog).read("t").num_rows == 1


def test_a_folder_in_the_place_of_settings_stops_a_drop_before_it_begins(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, upkeep=False)
    catalog.store.delete([once(catalog)])
    (tmp_path / SETTINGS).mkdir()
    before = objects(catalog)
    with pytest.raises(InvalidName, match=r"settings\.json.* is a folder.* move it away"):
        another(catalog).drop_table("t")
    assert objects(catalog) == before
    assert another(catalog).tables() == ["t"]
    assert another(catalog).verify("t").rows == 1
    (tmp_path / SETTINGS).rmdir()
    another(catalog).drop_table("t")
    another(catalog).create_table("t", SCHEMA).append([{"id": 2}])
    assert another(catalog).read("t")["id"].to_pylist() == [2]


def test_what_was_never_there_is_not_found() -> None:
    catalog = lake()
    for call in (catalog.verify, catalog.drop_table):
        with pytest.raises(NotFound, match="'t'"):
            call("t")
    once(catalog)
    catalog.drop_table("t")
    with pytest.raises(NotFound):
        another(catalog).verify("t")


def test_a_folder_without_a_log_is_no_table() -> None:
    catalog = lake()
    catalog.commit("other", [{"id": 7}])
    catalog.store.put("tables/t/notes.txt", b"x")
    assert another(catalog).tables() == ["other"]
    with pytest.raises(NotFound):
        another(catalog).table("t")
    assert "t" not in another(catalog)


def test_a_table_that_is_made_while_one_looks_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = lake()
    catalog.commit("other", [{"id": 7}])
    for _ in range(2):  # the first life of a name, and a later one
        fresh = another(catalog)
        look = fresh._settings

        def slowly(name: str, look: Callable[..., Any] = look, **more: bool) -> Any:
            found = look(name, **more)
            once(another(catalog))
            return found

        monkeypatch.setattr(fresh, "_settings", slowly)
        assert fresh.table("t").scan().count() == 1
        catalog.drop_table("t")


def test_settings_of_a_later_release_are_no_damage() -> None:
    catalog, name = made("once")
    text = bytes(catalog.store.get(name)).replace(b'"format":1', b'"format":2')
    catalog.store.put(name, text)
    for call in (another(catalog).drop_table, another(catalog).verify):
        with pytest.raises(UnsupportedFormat):
            call("t")
    assert catalog.store.get(name) == text


def test_sync_does_not_leave_it_out() -> None:
    """A replica that lacks a table is no replica: the damage is told, on whichever side it is."""
    catalog, replica = lake(), lake()
    gone(catalog, once(catalog))
    catalog.commit("u", [{"id": 1}])
    for here, there in ((catalog, replica), (replica, catalog)):
        with pytest.raises(Corrupt, match=r"drop_table\('t'\)"):
            here.sync(there.url)
    assert another(replica).tables() == []
    catalog.drop_table("t")
    catalog.sync(replica.url)
    assert another(replica).tables() == ["u"]
