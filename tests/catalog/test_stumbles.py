"""Where newcomers stumbled: each mistake gets an error of ours that says what to do."""

from __future__ import annotations

import errno
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidArgument,
    NotFound,
    RequestRefused,
    SchemaMismatch,
    StoreError,
    StoreFull,
)
from crdtcat.options import Options
from crdtcat.store.local import LocalStore
from crdtcat.testing.faulty import FaultyStore
from crdtcat.writing.part import Part, Staging


@pytest.mark.parametrize("below", ["file", "file/sub", "file/sub/lake"])
def test_a_file_where_the_catalog_should_be(tmp_path: Path, below: str) -> None:
    """It is named, whoever comes first: writers, or readers who would see an empty catalog."""
    (tmp_path / "file").write_text("x")
    told = re.escape(f"{str(tmp_path / 'file')!r} is no folder, and {tmp_path / below} needs one there")
    calls: list[Callable[[Catalog], object]] = [
        lambda catalog: catalog.commit("t", [{"a": 1}]),
        lambda catalog: catalog.create_table("t"),
        lambda catalog: catalog.tables(),
        lambda catalog: catalog.read("t"),
        lambda catalog: catalog.sync(tmp_path / "other"),
    ]
    for call in calls:
        with pytest.raises(RequestRefused, match=told):
            call(Catalog(tmp_path / below))
    assert (tmp_path / "file").read_text() == "x"


def test_a_file_where_a_table_should_be(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.commit("t", [{"a": 1}])
    (tmp_path / "tables/u").write_text("x")
    with pytest.raises(RequestRefused, match="tables/u' is no folder"):
        catalog.commit("u", [{"a": 1}])
    assert catalog.tables() == ["t"]


def test_a_folder_where_settings_should_be_is_of_one_table(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.commit("t", [{"a": 1}])
    (tmp_path / "tables/u/settings.json").mkdir(parents=True)
    assert Catalog(tmp_path).tables() == ["t"]
    assert Catalog(tmp_path).read("t").num_rows == 1
    with pytest.raises(NotFound):
        Catalog(tmp_path).table("u")


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("inline_bytes", [0, 65_536])
def test_a_full_disk_is_told_as_such_and_the_commit_is_known_not_to_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, inline_bytes: int
) -> None:
    catalog = Catalog(tmp_path, inline_bytes=inline_bytes)
    table = catalog.create_table("t", pa.schema([("a", pa.int64())]), mode=mode)
    table.append([{"a": 1}])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    verbs: list[Callable[[], object]] = [
        lambda: table.append([{"a": 2}]),
        lambda: table.overwrite([{"a": 2}]),
        lambda: table.add_column("b", pa.int64()),
        lambda: table.tag("now"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        patch.setattr(os, "writev", full)
        for verb in verbs:
            with pytest.raises(StoreFull, match=r"no room for .*was not stored; make room"):
                verb()
    assert Catalog(tmp_path).read("t").to_pylist() == [{"a": 1}]
    assert not [found for found in tmp_path.rglob(".*") if found.is_file()]
    table.append([{"a": 2}])
    assert table.read()["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize("url", [None, 5, b"x", ["x"]])
def test_what_is_no_url(url: Any) -> None:
    with pytest.raises(InvalidArgument, match="pass a path"):
        Catalog(url)


def test_storage_options_that_are_no_map(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="storage_options is a map"):
        Catalog(tmp_path, True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"up_keep": True}, "there is no option 'up_keep'; there are upkeep"),
        ({"upkeep": "off"}, "upkeep='off': pass True or False or 'synchronous'"),
        ({"bundle_every": "32"}, "bundle_every='32': pass a whole number from 2 up to 10,000"),
        ({"verify": "no"}, "verify='no': pass True or False"),
        ({"grace_seconds": -1}, "grace_seconds=-1: pass a number from 0 up to 1,000,000,000"),
        ({"max_clock_skew_seconds": 0}, "pass a number above 0 up to"),
        ({"segment_bytes": 1}, "segment_bytes=1: pass a whole number from 1,048,576"),
        ({"chunk_rows": 0}, "chunk_rows=0: pass a whole number from 1 up to 131,072 or None"),
        ({"isolation": "strict"}, "isolation='strict': pass 'snapshot' or 'serializable'"),
        ({"verify": 3, "retries": 1.5}, "verify=3: pass True or False; retries=1.5: pass a whole number"),
        ({"chunk_rows_max": 1}, "chunk_rows_max=1 must not fall; give all three"),
    ],
)
def test_options_are_not_guessed(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Catalog(tmp_path, **options)
    assert told in str(caught.value)
    assert "Input should" not in str(caught.value), "which is the wording of a library below"


def test_every_option_says_what_it_may_be(tmp_path: Path) -> None:
    for name in set(Options.model_fields) - {"on_conflict"}:
        with pytest.raises(InvalidArgument, match=rf"\] {name}=\[\]: pass "):
            Catalog(tmp_path, None, **{name: []})


def test_at_takes_what_commits_return_and_dates(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    first = catalog.commit("t", [{"a": 1}])
    catalog.commit("t", [{"a": 2}])
    assert catalog.read("t", at=first).num_rows == 1
    assert catalog.read("t", at=date.today() + timedelta(days=2)).num_rows == 2  # noqa: DTZ011
    assert catalog.read("t", at=datetime.now(UTC) + timedelta(minutes=1)).num_rows == 2
    assert str(first.id) in str(catalog.table("t").history()[0])


def test_at_says_what_it_takes(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.commit("t", [{"a": 1}])
    table = catalog.table("t")
    table.tag("kept")
    with pytest.raises(NotFound, match=r"ISO date\. Tags: kept"):
        table.read(at="2026-13-45")
    with pytest.raises(NotFound, match=re.escape("pass str(head.snapshot)")):
        table.read(at=table.head().snapshot.id)
    with pytest.raises(InvalidArgument, match="restore to what"):
        table.restore(None)  # type: ignore[arg-type]


def test_a_lost_settings_file_is_damage_not_an_invitation(tmp_path: Path) -> None:
    Catalog(tmp_path).commit("t", [{"a": 1}])
    (tmp_path / "tables/t/settings.json").unlink()
    with pytest.raises(Corrupt, match="restore it from a copy"):
        Catalog(tmp_path).commit("t", [{"zz": 1}])


def test_a_write_only_handle_learns_that_its_table_is_gone(tmp_path: Path) -> None:
    handle = Catalog(tmp_path).create_table("t")
    handle.append([{"a": 1}])
    Catalog(tmp_path).drop_table("t")
    handle.append([{"a": 2}])
    with pytest.raises(NotFound, match="was dropped"):
        handle.read()
    with pytest.raises(NotFound, match="was dropped"):
        handle.append([{"a": 3}])


def test_contains(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.commit("t", [{"a": 1}])
    assert "t" in catalog
    assert "u" not in catalog
    assert "../t" not in catalog
    assert 5 not in catalog


def test_a_scan_is_iterable(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.commit("t", [{"a": 1}, {"a": 2}])
    assert [batch.num_rows for batch in catalog.table("t").scan()] == [2]


def test_an_odd_failure_of_the_version_put_is_unknown_and_says_which_key(tmp_path: Path) -> None:
    class Odd(LocalStore):
        def _put(self, name: str, data: Any) -> None:
            super()._put(name, data)
            if name.endswith(".v"):
                raise RuntimeError("odd")

    catalog = Catalog(Odd(str(tmp_path)))
    with pytest.raises(CommitUnknown, match="same idempotency key, 'k'"):
        catalog.commit("t", [{"a": 1}], key="k")
    with pytest.raises(CommitUnknown, match="could count twice"):
        catalog.commit("t", [{"a": 1}])
    assert Catalog(tmp_path).commit("t", [{"a": 1}], key="k").rows == 1
    assert Catalog(tmp_path).read("t").num_rows == 2


def test_a_failed_segment_is_not_unknown(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore(str(tmp_path)))
    table = Catalog(store, inline_bytes=0).create_table("t")
    store.plan = lambda call: "error" if call.name.endswith(".parquet") else None
    with pytest.raises(StoreError) as caught:
        table.append([{"a": 1}])
    assert not isinstance(caught.value, CommitUnknown)
    assert table.scan().count() == 0


def test_memory_is_not_handed_to_another_process() -> None:
    catalog = Catalog("memory://handed")
    assert pickle.loads(pickle.dumps(catalog)).url == catalog.url
    code = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    told = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(catalog), capture_output=True, check=False
    )
    assert b"lives in the memory of one process" in told.stderr


@pytest.mark.parametrize("columns", [5, True, "a", b"a", 1.5])
def test_columns_are_a_list_of_names(tmp_path: Path, columns: Any) -> None:
    catalog = Catalog(tmp_path)
    catalog.commit("t", [{"a": 1}])
    with pytest.raises(InvalidArgument, match="pass a list of names"):
        catalog.read("t", columns)


def test_rows_that_fail_while_they_are_read_create_nothing(tmp_path: Path) -> None:
    """Far behind the first, which says what the columns are."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": range(300_000)})
        raise KeyError("the source is gone")

    catalog = Catalog(tmp_path, inline_bytes=0, segment_bytes=2**20)
    with pytest.raises(KeyError, match="the source is gone"):
        catalog.commit("t", batches())
    with pytest.raises(SchemaMismatch):
        catalog.commit("t", [pa.record_batch({"a": [1]}), pa.record_batch({"a": ["text"]})])
    assert catalog.tables() == []
    catalog.commit("t", iter([pa.record_batch({"a": [1]})]), key="first")
    assert catalog.read("t").to_pylist() == [{"a": 1}]
    assert catalog.table("t").history()[0].key == "first"


@pytest.mark.parametrize("once", [False, True])
def test_a_table_made_with_a_key_while_its_first_rows_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, once: bool
) -> None:
    """Rows that can be read again go in by key; others are refused, since nobody knows theirs."""
    rows = pa.table({"a": [1, 1], "b": ["old", "new"]})
    stage = Staging.stage

    def slowly(self: Staging, batches: Iterable[pa.RecordBatch]) -> Part:
        Catalog(tmp_path).create_table("t", rows.schema, key=["a"])
        return stage(self, batches)

    monkeypatch.setattr(Staging, "stage", slowly)
    catalog = Catalog(tmp_path, inline_bytes=0)
    if once:
        with pytest.raises(InvalidArgument, match="key"):
            catalog.commit("t", rows.to_reader())
        assert catalog.read("t").num_rows == 0
    else:
        catalog.commit("t", rows)
        assert catalog.read("t").to_pylist() == [{"a": 1, "b": "new"}]


def test_large_appends_and_reads_while_the_program_ends(tmp_path: Path) -> None:
    """No thread can be started then."""
    program = f"""
import atexit
import pyarrow as pa
from crdtcat import Catalog

catalog = Catalog({str(tmp_path)!r}, chunk_rows=20_000)

def last() -> None:
    catalog.commit("t", pa.table({{"a": range(1_000_000)}}))
    table = catalog.table("t")
    table.update("a < 10", {{"a": -1}})
    print(table.read().num_rows, table.scan(filter="a = 999_999").count(), table.verify(depth="content").ok)

atexit.register(last)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1000000", "1", "True"]
    assert done.stderr == ""


def test_the_name_of_a_column_is_no_idempotency_key(tmp_path: Path) -> None:
    """Else the second commit is taken for a repetition of the first, and its rows are left out in silence."""
    catalog = Catalog(tmp_path)
    for create in (True, False):
        with pytest.raises(InvalidArgument, match=r"'id' is the name of a column.*create_table\(key="):
            catalog.commit("t", [{"id": 1}], key="id")
        if create:
            catalog.create_table("t", pa.schema([("id", pa.int64())]))
    catalog.commit("t", [{"id": 1}], key="monday")
    catalog.commit("t", [{"id": 1}], key="monday")
    assert catalog.read("t").to_pylist() == [{"id": 1}]


def test_a_stream_says_that_its_first_batch_decides(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    stream = table.stream()
    stream.write([{"a": 1}])
    with pytest.raises(SchemaMismatch, match="'b' was not in the first batch"):
        stream.write([{"a": 2, "b": 2}])
    stream.abort()
    assert table.read().num_rows == 0


def test_a_function_of_an_update_that_returns_nothing(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("t", pa.schema([("a", pa.int64())]))
    table.append([{"a": 1}])
    with pytest.raises(InvalidArgument, match="'a': the function returned None; return an array"):
        table.update("true", {"a": lambda rows: None})


def test_verbs_of_a_transaction_take_what_those_of_a_table_take(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    table = catalog.create_table("t", pa.schema([("k", pa.int64())]), key=["k"])
    first = table.append([{"k": 1}, {"k": 2}])
    with catalog.transaction() as tx:
        tx.delete("t", keys=[1])
        assert tx.read("t").to_pylist() == [{"k": 2}]
        assert tx.read("t", at=first.id).num_rows == 2
        fork = pickle.loads(pickle.dumps(tx.fork()))
        fork.upsert("t", [{"k": 3}])
        assert "t: " in repr(fork)
        assert repr(pickle.loads(pickle.dumps(fork))) == repr(fork)
        tx.join(fork)
    assert table.read().to_pylist() == [{"k": 2}, {"k": 3}]


def test_a_conflict_says_what_may_be_answered(tmp_path: Path) -> None:
    rows = pa.table({"k": [1], "v": [0]})
    plain = Catalog(tmp_path).create_table("plain", rows.schema, mode="cas")
    keyed = Catalog(tmp_path).create_table("keyed", rows.schema, key=["k"], mode="cas")
    for table in (plain, keyed):
        table.append(rows)
    tx = Catalog(tmp_path).transaction()
    tx.update("plain", "k = 1", {"v": 1})
    tx.upsert("keyed", [{"k": 1, "v": 1}])
    plain.delete("k = 1")
    keyed.upsert([{"k": 1, "v": 2}])
    with pytest.raises(CommitConflict) as refused:
        tx.commit()
    told = str(refused.value)
    assert "update-delete may be answered theirs, or by a function" in told
    assert re.search("[a-z]+-[a-z]+ may be answered ours, or by a function", told)  # keys know no `theirs`


def test_a_function_is_told_where_its_rows_cannot_be_taken(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path, on_conflict=lambda sides: sides.mine)
    table = catalog.create_table(
        "t", pa.schema([("k", pa.int64()), ("n", pa.int64())]), key=["k"], mode="cas"
    )
    table.upsert([{"k": 1, "n": 0}, {"k": 2, "n": 0}])
    theirs = Catalog(tmp_path).table("t")

    def commit(*keys: int) -> None:
        with catalog.transaction() as tx:
            for key in keys:
                tx.update("t", f"k = {key}", {"n": 1})
            theirs.update("k = 1", {"n": 2})

    commit(1)
    assert table.read()["n"].to_pylist() == [1, 0]
    with pytest.raises(CommitConflict, match=r"by a function, which here says a word: rows .* single change"):
        commit(1, 2)
    branch = table.branch("b")
    branch.update("k = 1", {"n": 3})
    theirs.update("k = 1", {"n": 4})
    with pytest.raises(CommitConflict, match="by a function, which here says a word: rows go into no merge"):
        table.merge("b")
