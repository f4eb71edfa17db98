"""Whatever the format can say, some kept file says: a new code, key or operation fails until it is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from crdtcat.chunks.type_codes import LISTS, PLAIN, encode_type
from crdtcat.format.carried import own_frame
from crdtcat.format.schema_code import decode_schema
from crdtcat.format.settings import decode_settings
from crdtcat.format.version import KEYS, OPERATIONS, decode_version
from crdtcat.testing.strategies import arrow_types
from tests.bounds import bounded
from tests.compat.every_type import ORDERED, TYPES
from tests.compat.write import DATA

FORMAT = Path(__file__).parent.parent.parent / "docs" / "format.md"


def versions() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every version that is kept in a file of its own, with those inside of transactions."""
    for path in sorted(DATA.rglob("*")):
        if path.suffix in {".v", ".c"}:
            _, body = decode_version(own_frame(path.read_bytes(), path.name), path.name)
            yield path.name, body
            for inner in (data for files in body.get("t", {}).values() for data in files):
                yield path.name, decode_version(inner, path.name)[1]


def codes() -> Iterator[Any]:
    for name, body in versions():
        for packed in body.get("f") or ():
            yield from (field.type for field in decode_schema(packed, name))


def forms(code: Any) -> set[str]:
    """What a code and those within it are, but for names, numbers and entries."""
    if isinstance(code, str):
        return {code}
    head, *rest = code
    if head == "struct":
        fields = {f"struct field {'' if nullable else 'not '}null" for _, _, nullable in rest[0]}
        return {"struct" if rest[0] else "struct of nothing", *fields}.union(
            *(forms(t) for _, t, _ in rest[0])
        )
    if head == "map":
        return {f"map to {rest[2]}, sorted {rest[3]}"} | forms(rest[0]) | forms(rest[1])
    if head == "extension":
        return {f"extension {rest[0]}"} | forms(rest[2])
    if head in {"dictionary", "run_end_encoded"}:
        value, index, *order = [*rest, "int32"] if len(rest) == 1 else rest
        kept = f" in order, of {forms(value)}" if order and order[0] else ""
        return {f"{head} by {index}{kept}"} | forms(value)
    if head in LISTS or head == "fixed_size_list":
        return {f"{head} {rest[1]}"} | forms(rest[0])
    if head == "timestamp":
        return {f"{head} {rest[0]} {len(rest)}"}
    return {f"{head} {rest[0]}" if isinstance(rest[0], str) else head}


@pytest.fixture(scope="module")
def kept() -> set[str]:
    return set().union(*(forms(code) for code in codes()))


def test_every_type_that_was_to_be_kept_is_kept(kept: set[str]) -> None:
    """Of those with an order, with the entries that rows have and no type alone says."""
    for t in TYPES:
        code = encode_type(t)
        wanted = forms([*code[:3], [0]] if t in ORDERED else code)
        assert wanted <= kept, t


@given(arrow_types())
@settings(
    deadline=None,
    max_examples=bounded(2000, 200),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_form_of_code_is_in_a_kept_file(kept: set[str], t: Any) -> None:
    assert forms(encode_type(t)) <= kept


def test_every_code_that_the_format_names_is_in_a_kept_file() -> None:
    """By its name and how many arguments it has."""
    page = FORMAT.read_text(encoding="utf-8").partition("\n## Type codes\n")[2].partition("\n### ")[0]
    cells = re.findall(r"^\| (`.*?) \| ", page, re.MULTILINE)
    named: set[tuple[str, int]] = set()
    for cell in cells:
        arguments = 0
        for code in re.findall(r"`([^`]+)`", cell):
            head, *rest = re.sub(r"\[\[.*\]\]|[\"\[\]]", "", code).split(", ")
            arguments = arguments if rest == ["..."] else len(rest)
            named.add((head, arguments))
    assert {*PLAIN, *LISTS, "dictionary", "decimal256"} <= {head for head, _ in named}
    found = set().union(*(_counted(code) for code in codes()))
    assert named <= found


def _counted(code: Any) -> set[tuple[str, int]]:
    if isinstance(code, str):
        return {(code, 0)}
    inner = (
        [t for _, t, _ in code[1]] if code[0] == "struct" else [part for part in code[1:4] if _is_code(part)]
    )
    return {(code[0], len(code) - 1)}.union(*(_counted(part) for part in inner))


def _is_code(part: Any) -> bool:
    return part in PLAIN if isinstance(part, str) else bool(isinstance(part, list) and _is_text(part[:1]))


def _is_text(parts: list[Any]) -> bool:
    return all(isinstance(part, str) for part in parts) and parts != []


def test_settings_keep_types_with_bytes_in_them() -> None:
    paths = sorted(DATA.rglob("settings*.json"))
    columns = [c for path in paths for c in decode_settings(path.read_bytes(), path.name).columns or ()]
    assert any(column.type[0] == "extension" and isinstance(column.type[2], bytes) for column in columns)


def test_every_key_and_operation_is_in_a_kept_file() -> None:
    found = [body for _, body in versions()]
    assert set().union(*found) == set(KEYS)
    unused = {"merge"}  # a number that is taken; a merge writes a bundle of the source's own versions
    assert {OPERATIONS[body["o"]] for body in found if "o" in body} == {*OPERATIONS} - unused
