"""Docs are claims: links resolve, examples run, tables say what the code says, named tests exist.

`docs/format.md` holds a small reader that uses nothing of crdtcat. It is run here on a catalog that the
library wrote, so that whoever implements the format from that page gets the same answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, errors, limits
from crdtcat.chunks.hashing import column_hash
from crdtcat.chunks.transforms import bucket_of
from crdtcat.chunks.type_codes import LISTS, PLAIN, encode_type
from crdtcat.format.ops import ColumnId, Definition, Ops
from crdtcat.format.row_ids import KeyedTag
from crdtcat.format.sealed_json import seal_json
from crdtcat.format.settings import MARKER, MARKER_NAME, decode_settings
from crdtcat.format.version import KEYS, OPERATIONS, decode_version, encode_version, unpack
from crdtcat.limits import CONDITIONS_MAX
from crdtcat.log import State
from crdtcat.log.statistics import DOMAINS
from crdtcat.merkle import Tree, make_leaves
from crdtcat.options import Options
from crdtcat.scan.filters.sql_errors import FUNCTIONS

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "proofs/README.md", *(ROOT / "docs").rglob("*.md")]
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_TEST = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")
_PATH = re.compile(r"(?<![\w/.])((?:src|tests|docs|proofs|benchmarks)/[\w/.-]*\w)")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return [code for kind, code in _BLOCK.findall(text(name)) if kind == language]


def table_rows(name: str, header: str) -> Iterator[list[str]]:
    """The rows, as cells, of the table whose header line begins so."""
    lines = iter(text(name).splitlines())
    assert any(line.startswith(header) for line in lines), f"{name} has no table {header!r}"
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line[1:-1].split("|")]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_tests_exist(page: Path) -> None:
    for path, name in _TEST.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).is_file(), f"{page.name} names {path}"
        assert f"def {name}(" in text(path), f"{page.name} names {path}::{name}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    prose = _LINK.sub("", _BLOCK.sub("", page.read_text(encoding="utf-8")))
    for path in _PATH.findall(prose):
        assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_every_contract_sentence_about_requests_names_a_test() -> None:
    for row in table_rows("docs/contracts/cost.md", "| operation"):
        assert _TEST.search(row[2]), row


def test_the_first_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks("README.md", "python")[0], names)
    assert names["cat"].read("events", columns=["user"], filter="action = 'login'").to_pylist() == [
        {"user": 1}
    ]


def test_the_example_of_transactions_runs() -> None:
    cat = Catalog("memory://transactions-page")
    cat.commit("stock", [{"item": "tea", "left": 5}])
    for name in ("orders", "notes"):
        cat.create_table(name)
    exec(blocks("docs/contracts/transactions.md", "python")[0], {"cat": cat})
    assert cat.read("stock").to_pylist() == [{"item": "tea", "left": 4}]
    assert cat.read("orders")["item"].to_pylist() == ["tea", "cup"]
    assert cat.read("notes").num_rows == 1


def test_the_example_of_the_change_feed_copies_a_table() -> None:
    cat = Catalog("memory://feed-page")
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    orders, copy = (cat.create_table(name, columns, key=["id"]) for name in ("orders", "copy"))
    names = {"orders": orders, "copy": copy, "pc": pc, "seen": None}
    orders.upsert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    example = blocks("docs/contracts/reads.md", "python")[0]
    exec(example, names)
    assert copy.read().equals(orders.read())
    orders.delete(keys=[1])
    orders.upsert([{"id": 3}, {"id": 2, "n": 2}])
    exec(example, names)
    assert copy.read().to_pylist() == [{"id": 2, "n": 2}, {"id": 3, "n": None}]


def test_the_error_table_is_the_error_tree() -> None:
    tree = {
        (found.code, name, found.__bases__[0].__name__ if name != "CrdtcatError" else "")
        for name in errors.__all__
        if issubclass(found := getattr(errors, name), errors.CrdtcatError)
    }
    rows = list(table_rows("docs/contracts/errors.md", "| code"))
    assert {(code, name.strip("`"), below.strip("`")) for code, name, below, *_ in rows} == tree
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert all(len(row) == 7 for row in rows)


def test_every_option_is_listed_with_its_default() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in table_rows("docs/operations.md", "| option")}
    assert set(listed) == set(Options.model_fields)
    defaults = {name: field.default for name, field in Options.model_fields.items()}
    shown = {"128 GiB": 2**37, "True": True, "False": False, "None": None, '"snapshot"': "snapshot"}
    assert {
        name: shown[value] if value in shown else float(value.replace(",", ""))
        for name, value in listed.items()
    } == defaults


def test_every_limit_is_listed_with_its_value() -> None:
    listed = {row[0].strip("`"): row[1] for row in table_rows("docs/operations.md", "| limit")}
    named = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert listed == {name: f"{value:,}" for name, value in named.items()}


def test_the_filters_page_lists_every_function_and_the_limit() -> None:
    cells = [row[0] for row in table_rows("docs/filters.md", "| function")]
    assert not [name for name in FUNCTIONS if not any(f"`{name}" in cell for cell in cells)]
    assert f"{CONDITIONS_MAX:,} conditions in one" in text("docs/filters.md")


def test_every_key_operation_type_and_domain_is_in_the_format() -> None:
    page = text("docs/format.md")
    for key in KEYS:
        assert f"\n| `{key}` | " in page, f"key {key}"
    for number, operation in enumerate(OPERATIONS):
        assert re.search(rf"\b{number}\s+`{operation}`", page), operation
    for kind in type_code_kinds():
        assert f"`{kind}`" in page or f'`["{kind}"' in page, kind
    for domain in DOMAINS:
        assert f"\n| `{domain}` | " in page, f"domain {domain}"
    every = Ops(
        definitions=(Definition(ColumnId("a"), "a", "int8"),),
        drops=(ColumnId("a"),),
        properties={"a": 1},
        removed_versions=np.zeros(1, "S36"),
        removed_ordinals=np.zeros(1, np.uint32),
        removed_keyed=(KeyedTag("k", bytes(32), 0),),
        is_overwrite=True,
    ).encode()
    assert every is not None
    for key in unpack(every, "ops"):
        assert f"\n| `{key}` | " in page, f"op {key}"
    assert MARKER.decode() in page
    assert f"these {len(MARKER)} bytes" in page


def type_code_kinds() -> set[str]:
    item = pa.int8()
    others = [
        pa.timestamp("us"), pa.time32("s"), pa.time64("us"), pa.duration("s"), pa.binary(3),
        pa.decimal32(5), pa.decimal64(5), pa.decimal128(5), pa.decimal256(5), pa.list_(item, 2),
        pa.struct([("a", item)]), pa.map_(item, item), pa.dictionary(pa.int32(), pa.string()), pa.uuid(),
        pa.run_end_encoded(pa.int32(), item),
    ]  # fmt: skip
    return {*PLAIN, *LISTS, *(encode_type(t)[0] for t in others)}


@pytest.fixture(scope="module")
def page_code() -> dict[str, Any]:
    """Everything the Python blocks of the format's page define."""
    names: dict[str, Any] = {}
    exec("\n".join(blocks("docs/format.md", "python")), names)
    return names


def test_the_worked_example_is_what_the_page_shows(page_code: dict[str, Any]) -> None:
    example = page_code["example"]
    shown = "".join(
        f"{at:04x}  {part.hex(' '):<47}  {''.join(chr(b) if 32 <= b < 127 else '.' for b in part)}\n"
        for at in range(0, len(example), 16)
        if (part := example[at : at + 16])
    )
    assert blocks("docs/format.md", "hexdump") == [shown]
    id, body = decode_version(example, "example")
    assert f"{id}.v\n" in text("docs/format.md")
    assert body == page_code["body"]
    assert page_code["read_version"](example) == (id.to_bytes(), body)


def test_the_pages_reader_reads_claims_that_carry_others(page_code: dict[str, Any], tmp_path: Path) -> None:
    handles = [Catalog(str(tmp_path), upkeep=False, base_delay=0) for _ in range(2)]
    handles[0].create_table("t", pa.schema([("n", pa.int64())]), mode="cas")
    tables = [catalog.table("t") for catalog in handles]
    for n in range(8):
        tables[n % 2].append([{"n": n}])
    files = [path.read_bytes() for path in sorted((tmp_path / "tables" / "t" / "main").glob("*.c"))]
    held = [page_code["frames_of"](data) for data in files]
    assert max(map(len, held)) > 3
    for at, frames in enumerate(held):
        assert frames == [own[0] for own in held[at - len(frames) + 1 : at + 1]][::-1]
        assert page_code["read_version"](frames[0])[1]["#"] == at + 1


def test_the_pages_reader_reads_what_the_library_writes(page_code: dict[str, Any], tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), upkeep=False, chunk_rows=4)
    table = catalog.create_table("t", pa.schema([("n", pa.int64()), ("text", pa.string())]))
    expected = pa.table({"n": range(10), "text": [None, *"abcdefghi"]}, schema=table.schema)
    table.append(expected, key="once", metadata={"by": "me"})
    table.set_properties(owner="me")
    assert (tmp_path / MARKER_NAME).read_bytes() == MARKER
    folder = tmp_path / "tables/t/main"
    found = [page_code["read_version"](path.read_bytes()) for path in sorted(folder.glob("*.v"))]
    head = table.head()
    assert [id for id, _ in found] == [version.id.to_bytes() for version in head.history]
    assert page_code["snapshot_id"]([id for id, _ in found]) == head.snapshot.id
    leaves = [(bytes.fromhex(chunk.hash), chunk.rows) for chunk in head.chunks]
    assert page_code["merkle_root"](leaves) == head.root_hash
    proof = table.proof(1).to_bytes()
    assert page_code["check_proof"](head.root_hash, leaves[1][0], proof)
    assert not page_code["check_proof"](head.root_hash, leaves[0][0], proof)
    table.checkpoint()
    (path,) = folder.glob("*.b")
    (versions, first, last, replaces), meta, arrays = page_code["read_bundle"](path.read_bytes())
    assert (versions, first, last, replaces) == (2, found[0][0], found[1][0], [])
    assert arrays["ids"].tobytes() == b"".join(id for id, _ in found)
    assert arrays["hash"].tobytes() == found[0][1]["y"]
    assert arrays["key.data"].tobytes() == b"once"
    assert meta["l"] == "tables/t/main/"
    (segment,) = (tmp_path / "data").rglob("*.parquet")
    digest, footer = arrays["segment_digest"][0].tobytes(), int(arrays["segment_footer"][0])
    chunks = page_code["read_segment"](segment.read_bytes(), digest, footer)
    assert chunks == [hash for hash, _ in leaves]
    columns = {
        re.sub(r"\.(offsets|data|valid|none)$", "", re.sub(r"^stat\d+", "stat<n>", name)) for name in arrays
    }
    page = text("docs/format.md")
    assert not [name for name in columns if f"`{name}`" not in page]


def test_the_pages_functions_agree_with_the_library(page_code: dict[str, Any]) -> None:
    for values in (["a", None, "ä€"], ["x"], [None], []):
        assert page_code["column_hash_of_text"](values) == column_hash(pa.array(values, pa.string()))
    for value in (0, 1, -1, 2**63, "", "text", "ä", b"\xff\x00"):
        assert page_code["bucket"](value, 16) == bucket_of(value, 16)
    assert page_code["merkle_root"]([]) == root_of([])
    many = [(bytes([1 + n % 15]) + n.to_bytes(31, "big"), n) for n in range(3000)]  # no member ends a node
    assert page_code["merkle_root"](many) == root_of(many)
    mixed = [((n * 2654435761 % 2**32).to_bytes(4, "little") * 8, n) for n in range(3000)]
    assert page_code["merkle_root"](mixed) == root_of(mixed)


def test_the_rules_of_compatibility_hold(page_code: dict[str, Any]) -> None:
    def version(**more: Any) -> tuple[str, bytes]:
        id, data = encode_version({**page_code["body"], **more})
        return f"tables/t/main/{id}.v", data

    state = State("tables/t/main/")
    assert len(state.joined([version(unknown="ignored")]).log) == 1
    with pytest.raises(errors.UnsupportedFormat, match="time machine"):
        state.joined([version(**{"!": ["time machine"]})])
    content = {"format": 1, "unknown": True}
    with pytest.raises(errors.Corrupt, match="unknown"):
        decode_settings(seal_json(content), "settings.json")
    with pytest.raises(errors.UnsupportedFormat, match="format 2"):
        decode_settings(seal_json({**content, "format": 2}), "settings.json")


def root_of(leaves: list[tuple[bytes, int]]) -> str:
    hashes = np.frombuffer(b"".join(hash for hash, _ in leaves), np.uint8).reshape(-1, 32)
    return Tree.build(make_leaves(hashes, np.array([rows for _, rows in leaves], np.uint64))).root_hash
