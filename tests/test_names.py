"""Names: what is allowed, what is refused, and that every refusal says what to do."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat import limits, names
from crdtcat.errors import InvalidName, LimitExceeded

OBJECT_VALIDATORS = [names.validate_table_name, names.validate_branch_name, names.validate_tag_name]


@pytest.mark.parametrize("validate", OBJECT_VALIDATORS)
@pytest.mark.parametrize("name", ["a", "events", "Events_2024", "a.b-c", "_x", "9lives", "a" * 128, "main"])
def test_good_object_names(validate: Any, name: Any) -> None:
    assert validate(name) == name


@pytest.mark.parametrize("validate", OBJECT_VALIDATORS)
@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "a.", ".a", "-a", "a/b", "a\\b", "a b", "ä", "a\n", "a\0", "refs",
     "settings.json",     "a~1", "\u0430", "a%2f", None, 3, b"a"],
)  # fmt: skip
def test_bad_object_names(validate: Any, name: Any) -> None:
    with pytest.raises(InvalidName):
        validate(name)


@pytest.mark.parametrize("validate", OBJECT_VALIDATORS)
def test_long_object_names(validate: Any) -> None:
    with pytest.raises(LimitExceeded, match="at most 128"):
        validate("a" * 129)


@given(st.text())
def test_accepted_object_names_are_safe_paths(name: Any) -> None:
    try:
        names.validate_table_name(name)
    except (InvalidName, LimitExceeded):
        return
    assert name.isascii()
    assert not set(name) & set("/\\~%\0 \n")
    assert ".." not in name
    assert not name.startswith(".")


@pytest.mark.parametrize("name", ["a", "Größe", "日本語", "a b", "a.b", "ID", "x" * 255, "🙂", "a/b", "`"])
def test_good_column_names(name: Any) -> None:
    assert names.validate_column_name(name) == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "empty"),
        (" a", "use 'a'"),
        ("a\u00a0", "use 'a'"),
        ("a\tb", "U\\+0009"),
        ("a\u200bb", "U\\+200B"),
        ("a\u202eb", "U\\+202E"),
        ("a\u0378", "not assigned"),
        ("a\ue000", "private"),
        ("\ud800", "surrogate"),
        ("a\u2028b", "line separator"),
        ("e\u0301", "\\\\xe9"),
        (".", "folder"),
        ("..", "folder"),
        (7, "not int"),
    ],
)
def test_bad_column_names_say_what_to_do(name: Any, told: str) -> None:
    with pytest.raises(InvalidName, match=told):
        names.validate_column_name(name)


def test_long_column_names_count_bytes() -> None:
    with pytest.raises(LimitExceeded):
        names.validate_column_name("ä" * 128)


@given(st.text())
def test_accepted_column_names_are_canonical(name: Any) -> None:
    try:
        names.validate_column_name(name)
    except (InvalidName, LimitExceeded):
        return
    assert unicodedata.normalize("NFC", name) == name == name.strip()
    assert len(name.encode()) <= limits.COLUMN_NAME_BYTES_MAX


def test_columns_may_differ_by_case_but_not_look_alike() -> None:
    assert names.validate_column_names(["id", "ID"]) == ("id", "ID")
    with pytest.raises(InvalidName, match="twice"):
        names.validate_column_names(["id", "x", "id"])
    with pytest.raises(InvalidName, match="look alike"):
        names.validate_column_names(["file", "\ufb01le"])


def test_too_many_columns() -> None:
    with pytest.raises(LimitExceeded, match="10000"):
        names.validate_column_names(f"c{i}" for i in range(limits.COLUMNS_MAX + 1))
