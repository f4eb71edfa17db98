"""Forks in the middle of something: what was begun is the parent's; its children neither do it nor hang."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from tests.processes.test_copies import _in_a_fork

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = Catalog(tmp_path, upkeep=False, chunk_rows=20_000, inline_bytes=0)
    return catalog.create_table("t", pa.schema([("n", pa.int64()), ("text", pa.string())]))


def some_rows(count: int) -> pa.Table:
    return pa.table({"n": range(count), "text": [f"{number * 7919:040}" for number in range(count)]})


def found(table: Table) -> int:
    """Rows that a process finds which knows nothing yet."""
    return Catalog(table._session.store.url).table("t").scan().count()


@pytest.mark.parametrize("count", [3, 400_000])  # few rows wait in memory, many are with threads
def test_a_stream_is_committed_by_the_process_that_opened_it(table: Table, count: int) -> None:
    def leave() -> None:
        with stream:
            pass

    with table.stream() as stream:
        stream.write(some_rows(count))
        for work in (stream.commit, leave, lambda: stream.write(some_rows(1))):
            assert "opened before a fork" in _in_a_fork(work)
        assert _in_a_fork(stream.abort) == "None"  # lets go of the child's copy alone
        assert found(table) == 0
        stream.write(some_rows(2))
    assert found(table) == count + 2
    assert table.verify("content").ok


def test_a_transaction_is_committed_by_the_process_that_began_it(table: Table) -> None:
    catalog = Catalog(table._session.store.url)

    def leave() -> None:
        with transaction:
            pass

    with catalog.transaction() as transaction:
        transaction.append("t", some_rows(3))
        for work in (transaction.commit, leave):
            assert "begun before a fork" in _in_a_fork(work)
        assert _in_a_fork(transaction.abort) == "None"
        assert found(table) == 0
    assert found(table) == 3


def test_a_reader_that_was_begun_before_a_fork_says_so(table: Table) -> None:
    table.append(some_rows(400_000))
    batches = iter(table.scan().to_reader())
    count = next(batches).num_rows
    assert "being read before a fork" in _in_a_fork(lambda: sum(batch.num_rows for batch in batches))
    assert _in_a_fork(lambda: table.scan().to_table().num_rows) == "400000"
    assert count + sum(batch.num_rows for batch in batches) == 400_000


def test_one_that_was_not_begun_is_read_by_whoever_reads_it(table: Table) -> None:
    table.append(some_rows(100_000))
    reader = table.scan().to_reader()
    assert _in_a_fork(lambda: reader.read_all().num_rows) == "100000"
    assert reader.read_all().num_rows == 100_000
