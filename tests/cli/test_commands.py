"""The commands: each does its verb, and what goes wrong is a message and a status."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog, CommitConflict, CommitUnknown, errors
from crdtcat.cli.command import age_or_moment, names
from crdtcat.cli.main import COMMANDS, STATUS, main
from tests.test_docs import blocks, table_rows


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog that the command line finds, and an empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRDTCAT_CATALOG", "lake")
    monkeypatch.delenv("CRDTCAT_STORAGE_OPTIONS", raising=False)
    return Catalog("lake", upkeep=False)


def run(line: str) -> int:
    return main(shlex.split(line))


def test_the_page_from_its_first_line_to_its_last(lake: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    Path("monday.csv").write_text("item,price,left\ntea,2.50,10\ncup,4.00,0\n")
    Path("tuesday.jsonl").write_text('{"item": "tea", "left": 9}\n')
    for number, block in enumerate(blocks("docs/cli.md", "bash")):
        for line in block.splitlines():
            if not line.startswith("export"):
                assert run(line.removeprefix("crdtcat ")) == 0, line
        out = capfd.readouterr().out
        if not number:
            assert '"_change": "update_after", "item": "tea", "price": "2.50", "left": 8' in out
            assert '{"source": "till"}' in out
    assert pq.ParquetFile("before.parquet").read()["left"].to_pylist() == [0, 9]


def test_every_command_is_on_the_page_and_nothing_else() -> None:
    cells = [row[0] for row in table_rows("docs/cli.md", "| commands")]
    assert {name.strip("` ") for cell in cells for name in cell.split(",")} == set(COMMANDS)


def test_every_kind_of_error_has_its_status_on_the_page() -> None:
    for status, _, listed in table_rows("docs/cli.md", "| status"):
        for name in filter(None, (one.strip("` ") for one in listed.split(","))):
            kind = getattr(errors, name)
            assert next(number for one, number in STATUS if issubclass(kind, one)) == int(status), name


def test_commands_do_their_verbs(lake: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3], "p": ["x", "x", "y"]}), "rows.parquet")
    Path("folder").mkdir()
    pq.write_table(pa.table({"a": [9]}), "folder/one.parquet")

    def said(line: str) -> str:
        assert run(line) == 0, line
        return capfd.readouterr().out

    said("create t --like rows.parquet --partition-by 'p,bucket(4, a)'")
    assert list(map(str, lake.table("t").partition_by)) == ["p", "bucket(4, a)"]
    said("append t rows.parquet --key once")
    said("append t rows.parquet --key once")
    assert said("count t") == "3\n"
    assert said("count t --where \"p = 'x'\"") == "2\n"
    assert "pruned" in said("explain t -w 'a > 2'")
    said("write t rows.parquet --on a")
    said("add-column t n int64")
    said("rename-column t n m")
    assert "m: int64" in said("show t")
    said("drop-column t m")
    said("branch t b")
    said("delete t@b -w 'a = 1'")
    assert (said("count t@b"), said("count t")) == ("2\n", "3\n")
    said("merge t b")
    assert said("count t") == "2\n"
    said("tag t v")
    assert {line.split()[1] for line in said("refs t").splitlines()[2:]} == {"v", "b"}
    said("delete-branch t b")
    said("update t -w 'a = 2' --set p=z")
    said("restore t v")
    assert lake.read("t").sort_by("a")["p"].to_pylist() == ["x", "y"]
    said("untag t v")
    assert "chunks" in said("diff t " + str(lake.table("t").history()[0].id))
    said("import f folder")
    assert said("tables").splitlines()[2].split() == ["f", "merge"]
    assert "stored" in said("stats")
    assert "t:" in said("stats t")
    said("checkpoint")
    assert "horizon" not in said("expire t --keep-last 1 --dry-run")
    said("switch-mode f cas")
    assert "already" in said("switch-mode f cas")
    said("sync elsewhere")
    assert Catalog("elsewhere").read("t").num_rows == 2
    said("overwrite f folder/one.parquet")
    said("drop f --yes")
    assert lake.tables() == ["t"]


def test_sql_asks_all_tables(lake: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    lake.commit("a", {"k": [1, 2], "x": [10, 20]})
    lake.commit("b", {"k": [2], "y": ["two"]})
    assert run("sql 'select y, x from a join b using (k)' -f jsonl") == 0
    assert json.loads(capfd.readouterr().out) == {"y": "two", "x": 20}


def test_conflicts_are_rows(lake: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    one, other = (Catalog("lake", upkeep=False) for _ in range(2))
    one.commit("t", {"a": [1, 2]})
    assert run("conflicts t -f jsonl") == 0
    assert capfd.readouterr().out == ""
    with one.transaction() as first, other.transaction() as second:
        first.read("t"), second.read("t")
        first.update("t", "a = 1", {"a": 5})
        second.update("t", "a = 1", {"a": 6})
    assert run("conflicts t -f jsonl") == 0
    (found,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert (found["kind"], found["rows"]) == ("cell", 1)


def test_a_feed_goes_on_where_it_ended(lake: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    lake.commit("t", {"a": [1]})
    assert run("changes t -f jsonl") == 0
    token = capfd.readouterr().err.split()[-1]
    lake.commit("t", {"a": [2]})
    assert run(f"changes t {token} -f jsonl") == 0
    assert json.loads(capfd.readouterr().out) == {"_change": "insert", "a": 2}


def test_damage_is_told_by_the_status(lake: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    lake.commit("t", {"a": [1]})
    lake.commit("u", {"a": [1]})
    assert run("verify") == 0
    (file,) = Path("lake/tables/t/main").glob("*.v")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    capfd.readouterr()
    assert run("verify") == 6
    out = capfd.readouterr().out
    assert file.name in out
    assert "verify u" in out  # the tables behind it are looked at, too
    assert run("read t") == 6


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("read nothing", 3, "nothing"),
        ("read t --where 'nope = 1'", 2, "nope"),
        ("read t --at 1999-01-01", 3, "1999"),
        ("read t@nowhere", 3, "nowhere"),
        ("append t missing.csv", 2, "missing.csv"),
        ("create u --column a=foo", 2, "foo"),
        ("create u --column a", 2, "NAME=TEXT"),
        ("create t --column a=int8", 3, "t"),
        ("drop t", 2, "--yes"),
        ("expire t", 2, "--older-than"),
        ("expire t --older-than soon", 2, "30d"),
        ("upsert t rows.csv", 2, "key"),
        ("tables --storage-option anon", 2, "NAME=TEXT"),
        ("tables --catalog nosuchscheme://x", 2, "nosuchscheme"),
    ],
)
def test_what_goes_wrong_is_a_message_and_a_status(
    lake: Catalog, capfd: pytest.CaptureFixture[str], line: str, status: int, words: str
) -> None:
    lake.commit("t", {"a": [1]})
    Path("rows.csv").write_text("a\n1\n")
    assert run(line) == status
    out, err = capfd.readouterr()
    assert (out, err.count("Traceback")) == ("", 0)
    assert err.startswith("crdtcat: [E")
    assert words in err
    assert lake.table("t").head().version == 1


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (CommitConflict("met"), 4),
        (CommitUnknown("who knows"), 5),
        (errors.StoreUnavailable("away"), 7),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_a_commit_met(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch, raised: BaseException, status: int
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("crdtcat.cli.changing.rows_in.read_rows", fails)
    assert run("append t rows.csv") == status


def test_the_catalog_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CRDTCAT_CATALOG", raising=False)
    assert run("tables") == 2
    assert "--catalog" in capfd.readouterr().err


def test_storage_options_are_passed_and_not_shown(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = []

    def opened(url: str, options: dict[str, object]) -> Catalog:
        seen.append((url, options))
        return lake

    monkeypatch.setattr("crdtcat.cli.command.Catalog", opened)
    monkeypatch.setenv("CRDTCAT_STORAGE_OPTIONS", '{"secret": "hidden", "n": 1}')
    assert run("tables --storage-option n=2 --storage-option e=text") == 0
    assert seen == [("lake", {"secret": "hidden", "n": 2, "e": "text"})]
    monkeypatch.setenv("CRDTCAT_STORAGE_OPTIONS", "hidden")
    assert run("tables") == 2
    assert "hidden" not in "".join(capfd.readouterr())


def test_ages_and_lists() -> None:
    assert age_or_moment("1.5h") == timedelta(hours=1.5)
    assert age_or_moment("2w") == timedelta(weeks=2)
    assert age_or_moment("2026-01-02") == datetime(2026, 1, 2, tzinfo=UTC)
    assert names("a, bucket(4, b),c") == ["a", "bucket(4, b)", "c"]
    assert names(None) == []


def test_as_a_program(lake: Catalog) -> None:
    """In a process of its own: the module is run, and whoever reads may stop reading."""
    lake.commit("t", {"a": range(200_000)})
    command = [sys.executable, "-m", "crdtcat", "read", "t", "-f", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline()) == {"a": 0}
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
