"""Partitioned tables, whatever was done to them: a filter finds what it would find were nothing pruned."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table
from crdtcat.errors import Corrupt
from crdtcat.log.bodies import bodies_of
from crdtcat.log.log import NONE
from crdtcat.log.serialize import decode_bundle, encode_bundle
from crdtcat.testing.invariants import log_value
from crdtcat.verbs import write as write_verb
from crdtcat.writing.bodies import joined_bodies
from crdtcat.writing.inlined import moved_to_segments
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, rows
from tests.rows.late import held_back

SCHEMA = pa.schema([("n", pa.int64()), ("k", pa.string()), ("ts", pa.timestamp("us"))])
PARTITIONINGS = (
    ["bucket(3, n)"],
    ["k"],
    ["day(ts)"],
    ["year(ts)", "month(ts)"],
    ["hour(ts)"],
    ["truncate(4, n)", "truncate(1, k)"],
    ["bucket(2, k)", "bucket(3, n)"],
    ["k", "bucket(2, ts_day)"],
)
FILTERS = (
    "n = {n}",
    "n in ({n}, 7) or k = 'c'",
    "n is null",
    "k = 'ab' and n > {n}",
    "k is null or k = 'b'",
    "not k = 'a'",
    "ts >= timestamp '2020-01-02 00:00:00' and n < {n}",
    "ts is null or ts < timestamp '1970-01-01 00:00:00'",
)
DAYS = (None, dt.datetime(1969, 12, 31, 23), dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 2))  # noqa: DTZ001


def some_rows(number: int) -> list[dict[str, Any]]:
    """A few rows, by number."""
    return [
        {
            "n": None if at % 7 == 6 else at % 11,
            "k": (None, "a", "ab", "b", "c")[at % 5],
            "ts": DAYS[at % 4],
            "ts_day": None if (day := DAYS[at % 4]) is None else day.date(),
        }
        for at in range(number, number + 3)
    ]


def changed(table: Table, verb: str, number: int) -> None:
    """One step of a history."""
    row = some_rows(number)[0]
    if verb == "append":
        table.append(some_rows(number))
    elif verb == "update":
        table.update(f"n = {number % 11}", {"n": number * 3 % 11})
    elif verb == "move":
        table.update(f"n > {number % 11}", {name: row[name] for name in ("k", "ts", "ts_day")})
    elif verb == "delete":
        table.delete(f"n = {number % 11}")
    elif verb == "write":
        held = rows(table.read())
        held = [{**one, **row} if at % 3 == number % 3 else one for at, one in enumerate(held)]
        table.write(pa.Table.from_pylist([*held[number % 2 :], *some_rows(number + 1)], table.schema))
    elif verb == "compact":
        table.compact()
    elif verb == "cluster":
        table.compact(cluster_by=["n"])
    else:
        table.checkpoint()


verbs = ("append", "update", "move", "write", "write", "delete", "compact", "cluster", "checkpoint")
steps = st.lists(
    st.tuples(st.sampled_from(verbs), st.integers(0, 1), st.integers(0, 30), st.booleans()), max_size=8
)


@given(st.sampled_from(PARTITIONINGS), steps, st.integers(0, 11), st.booleans())
@settings(max_examples=bounded(200, 16), deadline=None)
def test_filters_find_what_they_find_unpruned(
    partitioning: list[str], moves: list[tuple[str, int, int, bool]], n: int, inline: bool
) -> None:
    catalog = lake(chunk_rows=4, inline_bytes=65_536 if inline else 0)
    schema = SCHEMA.append(pa.field("ts_day", pa.date32()))
    first = catalog.create_table("t", schema, partition_by=partitioning)
    tables, waiting = [first, another(catalog, chunk_rows=4).table("t")], []
    first.append(some_rows(0) + some_rows(3))
    for verb, who, number, late in moves:
        table = tables[who]

        def act(table: Table = table, verb: str = verb, number: int = number) -> None:
            changed(table, verb, number)

        waiting.append(held_back(table, act)) if late and verb != "checkpoint" else act()
    for arrive in waiting:
        arrive()
    plain = lake().create_table("t", schema)
    plain.append(first.read())
    for filter in (template.format(n=n) for template in FILTERS):
        expected = sorted(map(str, rows(plain.read(filter=filter))))
        assert sorted(map(str, rows(first.read(filter=filter)))) == expected, filter
        assert first.scan(filter=filter).count() == len(expected), filter


def written(partition_by: list[str]) -> Table:
    """A table whose last version has rows and, over others, cells."""
    table = lake(inline_bytes=0).create_table("t", SCHEMA, partition_by=partition_by)
    table.append([{"n": n, "k": "a", "ts": DAYS[2]} for n in (0, 1)])
    data = [{"n": n, "k": k, "ts": DAYS[2]} for n, k in ((0, "changed"), (1, "a"), (2, "new"))]
    table.write(pa.Table.from_pylist(data, SCHEMA))
    return table


@pytest.mark.parametrize("partition_by", [["bucket(3, n)"], ["day(ts)"]])
def test_what_lies_over_rows_is_in_no_partition(partition_by: list[str]) -> None:
    table = written(partition_by)
    log = table.head().log
    assert b"" not in log.partitions
    assert (log.partition == NONE).sum() == 1
    assert bodies_of(log)[-1]["q"].count(None) == 1  # as whoever commits it again says it
    assert [row["k"] for row in rows(table.read(filter="n = 1"))] == ["a"]
    assert [row["k"] for row in rows(table.read(filter="n = 0"))] == ["changed"]


@pytest.mark.parametrize("odd", [b"", b"\xc1", b"\x91", b"\x81\x01\x02", b"\x90", b"\x91\x90", b"\x01\x02"])
def test_values_that_no_release_or_only_the_first_one_wrote(
    odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bytes are read as nil. Others are no list of scalars: a typed error that names the version."""

    def joined(parts: Any) -> Any:
        body = joined_bodies(parts)
        return {**body, "q": [odd if (value is None) == (odd == b"") else value for value in body["q"]]}

    monkeypatch.setattr(write_verb, "joined_bodies", joined)
    table = written(["bucket(3, n)"])
    if odd == b"":
        assert [row["k"] for row in rows(table.read(filter="n = 1"))] == ["a"]
        assert b"" not in table.head().log.partitions
        return
    with pytest.raises(Corrupt, match=r"\.v: partition values"):
        table.read(filter="n = 1")
    with pytest.raises(Corrupt, match=r"\.v: partition values"):
        table.overwrite(table.read().slice(0, 0), where="n = 1")
    assert table.read().num_rows == 3


def test_bundles_with_values_of_no_bytes_are_read_as_if_there_were_none() -> None:
    log = moved_to_segments(written(["bucket(3, n)"]).head().log).log
    shifted = np.where(log.partition == NONE, np.uint32(0), log.partition + np.uint32(1))
    old = log.with_(partitions=(b"", *log.partitions), partition=shifted)
    read = decode_bundle(encode_bundle(old, "f"), "f", "name").log
    assert log_value(read) == log_value(log)
