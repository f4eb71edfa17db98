"""Reading rows: exactly the bytes of the columns and chunks that survive pruning, and one footer each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.chunks.footer import SegmentRef
from crdtcat.chunks.footer_cache import FooterCache
from crdtcat.chunks.read import read_footer
from crdtcat.scan import Scan, units
from tests.cost.places import SCHEMA, Place, asked, few, measured, rows

CHUNK_ROWS = 500


def _table(place: Place, appends: int = 3, chunks: int = 4, **options: Any) -> tuple[Catalog, Table]:
    """A few segments of a few chunks each, with `n` rising throughout, and a warm handle."""
    catalog = place.open(inline_bytes=0, chunk_rows=CHUNK_ROWS, **options)
    table = catalog.create_table("t", SCHEMA)
    size = chunks * CHUNK_ROWS
    for at in range(appends):
        table.append(rows(at * size, (at + 1) * size))
    table.head()
    return catalog, table


def _expected_bytes(
    table: Table, columns: Sequence[str], groups: Iterable[tuple[int, int]], *, footers: bool = True
) -> tuple[int, int]:
    """Bytes and ranges of `columns` in (segment, row group) pairs: footers once, runs that touch as one. All
    there is in a segment is one request."""
    wanted: dict[int, list[tuple[int, int]]] = {}
    for segment, group in groups:
        footer = read_footer(table._session.store, _ref(table, segment), FooterCache())
        places = [footer.places[group][footer.names.index(name)] for name in columns]
        wanted.setdefault(segment, []).extend((place.start, place.stop) for place in places)
    total = requests = 0
    for segment, ranges in wanted.items():
        ref, end = _ref(table, segment), -1
        everything = sum(stop - start for start, stop in ranges) == ref.size - ref.footer_length - 4
        requests += footers and not everything
        total += ref.footer_length if footers else 0
        for first, stop in sorted(ranges):
            start = 0 if first == 4 else first  # the magic is taken along
            requests += start != end
            total += stop - start
            end = stop
    return total, requests


def _ref(table: Table, segment: int) -> SegmentRef:
    plan = table.scan().plan
    log = plan.head.log
    return SegmentRef(
        plan.segment_file(segment),
        int(log.segment_size[segment]),
        int(log.segment_footer[segment]),
        log.segment_digest[segment].tobytes(),
    )


def _groups(table: Table, numbers: range) -> list[tuple[int, int]]:
    """(segment, row group) of the chunks that hold these values of `n`."""
    plan = table.scan().plan
    wanted = sorted({number // CHUNK_ROWS for number in numbers})
    return [plan.places(int(plan.chunks[at]))[0] for at in wanted]


@pytest.mark.parametrize("columns", [["n"], ["text"], ["x"], ["n", "x"], ["n", "text", "x"], ["x", "n"]])
def test_projection_fetches_the_wanted_columns_and_one_footer_per_segment(
    place: Place, columns: list[str]
) -> None:
    catalog, table = _table(place)
    groups = _groups(table, range(6000))
    expected, requests = _expected_bytes(table, columns, groups)
    scan = table.scan(columns)
    with measured(catalog) as cost:
        found = scan.to_table()
    assert found.equals(rows(0, 6000).select(columns))
    assert cost.requests == {"get": requests}
    assert cost.bytes_in == expected
    with measured(catalog) as cost:  # the handle keeps footers
        scan.to_table()
    expected, requests = _expected_bytes(table, columns, groups, footers=False)
    assert cost.requests == {"get": requests}
    assert cost.bytes_in == expected


@pytest.mark.parametrize("span", [range(10, 20), range(1990, 2010), range(700, 3300), range(5999, 6000)])
def test_pruned_chunks_are_not_fetched(place: Place, span: range) -> None:
    catalog, table = _table(place)
    expected, requests = _expected_bytes(table, ["text", "n"], _groups(table, span))
    scan = table.scan(["text"], f"n >= {span.start} and n < {span.stop}")
    with measured(catalog) as cost:
        found = scan.to_table()
    assert found.equals(rows(span.start, span.stop).select(["text"]))
    assert cost.requests == {"get": requests}
    assert cost.bytes_in == expected


@pytest.mark.parametrize("span", [range(10, 20), range(990, 1010), range(1400, 1401)])
def test_after_clustering_a_filter_fetches_the_chunks_it_must_and_no_other(place: Place, span: range) -> None:
    catalog = place.open(inline_bytes=0, chunk_rows=CHUNK_ROWS)
    table = catalog.create_table("t", SCHEMA)
    ordered = rows(0, 2000)
    for at in range(4):
        table.append(ordered.take(pa.array(range(at, 2000, 4))))
    filter = f"n >= {span.start} and n < {span.stop}"
    assert len(table.scan(["text"], filter).plan.chunks) == 4
    table.compact(cluster_by=["n"])
    expected, requests = _expected_bytes(table, ["text", "n"], _groups(table, span))
    scan = table.scan(["text"], filter)
    assert (len(scan.plan.chunks), scan.plan.pruned) == ((2, 2) if 1000 in span else (1, 3))
    with measured(catalog) as cost:
        found = scan.to_table()
    assert found.equals(ordered.slice(span.start, len(span)).select(["text"]))
    assert cost.requests == {"get": requests}
    assert cost.bytes_in == expected


def test_a_filter_that_rules_everything_out_fetches_nothing(place: Place) -> None:
    catalog, table = _table(place)
    scan = table.scan(filter="n > 1000000")
    assert asked(catalog, scan.to_table) == {}


def test_one_footer_for_a_segment_that_is_read_in_several_pieces(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "UNIT_BYTES", 1)  # every chunk is a piece of its own
    catalog, table = _table(place, appends=1, chunks=8)
    footer = _ref(table, 0).footer_length
    expected, _ = _expected_bytes(table, ["n"], _groups(table, range(4000)))
    scan = table.scan(["n"])
    with measured(catalog) as cost:
        assert scan.to_table().num_rows == 4000
    # The magic is fetched with the first chunk only; every chunk is one range, and the footer is one.
    assert cost.requests == {"get": 8 + 1}
    assert cost.bytes_in == expected
    assert footer < expected


def test_inlined_rows_came_with_the_head(place: Place) -> None:
    catalog = place.open()
    table = catalog.create_table("t", SCHEMA)
    table.append(few(100))
    scan = table.scan(["n"])
    assert asked(catalog, scan.to_table) == {}


def test_count_reads_no_data(place: Place) -> None:
    catalog, table = _table(place)
    assert asked(catalog, lambda: table.scan().count()) == {"list": 1}
    scan = table.scan(filter="n >= 500 and n < 2500")  # whole chunks: statistics decide all of them
    assert asked(catalog, scan.count) == {}
    assert scan.count() == 2000


def test_count_with_a_filter_reads_only_its_columns_of_undecided_chunks(place: Place) -> None:
    catalog, table = _table(place)
    expected, requests = _expected_bytes(table, ["n"], _groups(table, range(2200, 2201)))
    scan = table.scan(filter="n >= 500 and n < 2200")
    with measured(catalog) as cost:
        assert scan.count() == 1700
    assert cost.requests == {"get": requests}
    assert cost.bytes_in == expected


def _said(scan: Scan) -> tuple[int, int]:
    """The bytes that `explain` says will be fetched, and those of footers that it read."""
    text = scan.explain().replace(",", "")
    line = next(line for line in text.splitlines() if "fetch:" in line)
    read = re.search(r"footers of (\d+) bytes", line)
    found = re.search(r"fetch: +(\d+) bytes of", line)
    assert found is not None
    return int(found[1]), int(read[1]) if read else 0


def _changed(table: Table) -> None:
    """Overlays, deletes, an insertion in the middle."""
    table.update("n >= 900 and n < 1100", {"x": 0.5})
    table.update("n % 7 = 0", {"text": "seven"})
    table.delete("n >= 3000 and n < 3010")
    rows = table.read()
    table.write(pa.concat_tables([rows.slice(0, 1700), rows.slice(5, 3), rows.slice(1700)]))


def _compacted(table: Table) -> None:
    _changed(table)
    table.compact()


def _alike(table: Table) -> None:
    """Chunks of equal content, which have one place: overlays, and rows that come again."""
    table.update("true", {"text": "alike"})
    for _ in range(2):
        table.append(rows(0, 500))


def _other_columns(table: Table) -> None:
    table.add_column("more", pa.int64())
    table.drop_column("x")
    table.append(pa.table({"n": [50_000], "text": ["z"], "more": [1]}))


@pytest.mark.parametrize("change", [None, _changed, _compacted, _alike, _other_columns])
def test_explain_says_exactly_what_will_be_fetched(
    place: Place, change: Callable[[Table], None] | None
) -> None:
    catalog, table = _table(place)
    if change is not None:
        change(table)
    cases: list[tuple[list[str] | None, str | None]]
    cases = [(["n"], None), (None, None), (["text", "n"], "n < 700"), (["text"], "n = 1600")]
    for columns, filter in cases:
        scan = Catalog(catalog.store, inline_bytes=0).table("t").scan(columns, filter)
        with measured(catalog) as asking:
            columns_bytes, footer_bytes = _said(scan)
        assert asking.bytes_in == footer_bytes
        with measured(catalog) as reading:
            scan.to_table()
        assert reading.bytes_in == columns_bytes
        assert _said(scan) == (columns_bytes, 0)
        scan = Catalog(catalog.store, inline_bytes=0).table("t").scan(columns, filter)
        with measured(catalog) as both:
            scan.to_table()
        assert both.bytes_in == columns_bytes + footer_bytes


def test_explain_of_a_keyed_table(place: Place) -> None:
    catalog = place.open(inline_bytes=0, chunk_rows=CHUNK_ROWS)
    table = catalog.create_table("t", SCHEMA, key=["n"])
    for at in (0, 1000, 1500, 5000):
        table.upsert(rows(at, at + 1000))
    table.delete(keys=[{"n": n} for n in range(1400, 1600)])
    for columns, filter in ((["x"], None), (["text"], "n < 1200"), (None, None)):
        scan = table.scan(columns, filter)
        columns_bytes, _ = _said(scan)
        with measured(catalog) as reading:
            scan.to_table()
        assert reading.bytes_in == columns_bytes


def test_explain_reads_footers_once_and_repr_nothing(place: Place) -> None:
    catalog, table = _table(place)
    scan = table.scan(["n"], "n < 700")
    assert asked(catalog, lambda: repr(scan)) == {}
    assert asked(catalog, scan.explain) == {"get": 1}
    assert asked(catalog, scan.explain) == {}
    assert asked(catalog, scan.to_table) == {"get": 2}  # one for each of two chunks
    assert asked(catalog, lambda: (repr(table), repr(catalog))) == {}
    assert "2 of 12 kept" in scan.explain()


def test_time_travel_reads_data_only_of_then(place: Place) -> None:
    catalog, table = _table(place)
    first = table.history()[0].id
    with measured(catalog) as cost:
        found = table.read(["n"], at=first)
    assert found.num_rows == 2000
    expected, requests = _expected_bytes(table, ["n"], _groups(table, range(2000)))
    assert cost.requests == {"list": 1, "get": requests}
    assert cost.bytes_in == expected


def test_reading_after_bundling_costs_what_it_did(place: Place) -> None:
    catalog, table = _table(place)
    table.checkpoint()
    table.head()
    expected, requests = _expected_bytes(table, ["n"], _groups(table, range(6000)))
    scan = table.scan(["n"])
    with measured(catalog) as cost:
        assert isinstance(scan.to_table(), pa.Table)
    assert (cost.get, cost.bytes_in) == (requests, expected)
