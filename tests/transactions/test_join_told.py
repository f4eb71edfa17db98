"""What the error of a join tells: all that is in the way of a fork, in all tables, grouped, in full."""

from __future__ import annotations

import pickle
import secrets
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.cas import telling
from crdtcat.cas.sides import Sides
from crdtcat.errors import CommitConflict, StoreUnavailable
from crdtcat.transaction import Transaction

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def lake(mode: str = "cas", **options: Any) -> Catalog:
    """Tables a, b and c of rows 0 to 2."""
    catalog = Catalog(f"memory://join-{secrets.token_hex(6)}", upkeep=False, base_delay=0, **options)
    for name in ("a", "b", "c"):
        catalog.create_table(name, SCHEMA, mode=mode).append([{"n": n, "x": 0} for n in range(3)])
    return catalog


def met(catalog: Catalog, **options: Any) -> tuple[Transaction, Transaction]:
    """A transaction, and a fork of it that is in the way of four of five changes in two of three tables."""
    tx = catalog.transaction(["a", "b", "c"], **options)
    fork = tx.fork()
    tx.update("a", "n = 0", {"x": 1})
    tx.append("a", [{"n": 9, "x": 9}])
    tx.delete("a", "n = 1")
    tx.update("b", "n = 2", {"x": 1})
    tx.update("c", "n = 0", {"x": 1})
    tx.update("c", "n = 0", {"x": 2})
    for name in ("a", "b", "c"):
        fork.update(name, "n <= 1", {"x": 5})
    return tx, fork


def told(tx: Transaction, *forks: Transaction, **options: Any) -> CommitConflict:
    with pytest.raises(CommitConflict) as caught:
        tx.join(*forks, **options)
    return caught.value


def listed(error: CommitConflict) -> dict[str, list[str]]:
    return {table: [item.kind.value for item in found] for table, found in error.by_table.items()}


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_every_table_and_change_is_told(mode: str) -> None:
    catalog = lake(mode)
    tx, fork = met(catalog)
    error = told(tx, fork)
    assert listed(error) == {"a": ["update-update", "update-delete"], "c": ["update-update", "update-update"]}
    assert error.complete
    assert [sides.overlap for sides in error.sides] == list(error.conflicts)
    found = [sides.theirs and sides.theirs["x"].to_pylist() for sides in error.sides]
    assert found == [[1], None, [1], [2]]
    assert [sides.mine["x"].to_pylist() for sides in error.sides] == [[5]] * 4
    assert "tables 'a', 'c': this fork touched what was staged" in str(error)
    assert "\n  table 'c':\n  update-update" in str(error)
    assert pickle.loads(pickle.dumps(error)).complete
    error.retry({"update-update": "ours", "update-delete": "theirs"})
    tx.commit()
    assert {name: sorted(catalog.read(name)["x"].to_pylist()) for name in ("a", "b", "c")} == {
        "a": [0, 5, 9], "b": [1, 5, 5], "c": [0, 5, 5]
    }  # fmt: skip


def test_what_words_settle_is_left_out_and_functions_are_asked_about_none_after_the_first() -> None:
    tx, fork = met(lake(on_conflict={"update-delete": "theirs"}))
    assert listed(told(tx, fork)) == {"a": ["update-update"], "c": ["update-update"] * 2}
    asked: list[str] = []

    def fail(sides: Sides) -> str:
        asked.append(sides.overlap.table)
        return "fail"

    assert len(told(tx, fork, on_conflict=fail).conflicts) == 4
    assert asked == ["a"]
    assert listed(told(tx, fork, on_conflict={"update-update": "ours"})) == {"a": ["update-delete"]}


def test_reads_of_a_fork_are_told_of_all_tables() -> None:
    catalog = lake()
    tx = catalog.transaction(["a", "b", "c"], isolation="serializable")
    fork = tx.fork()
    for name in ("a", "b"):
        fork.read(name, filter="n = 0")
        for x in (1, 2):
            tx.update(name, "n = 0", {"x": x})
    fork.append("c", [{"n": 9, "x": 9}])
    error = told(tx, fork)
    assert listed(error) == {"a": ["read-write"] * 2, "b": ["read-write"] * 2}
    assert error.complete


def test_later_forks_are_not_looked_at() -> None:
    tx, fork = met(lake())
    other = tx.fork()
    tx.update("b", "n = 0", {"x": 7})
    other.update("b", "n = 0", {"x": 8})
    error = told(tx, fork, other)
    assert listed(error)["b"] == ["update-update"], "of the first fork"
    assert len(error.by_table["b"]) == 1


def test_more_than_the_limit_and_what_cannot_be_read_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, fork = met(lake())
    with monkeypatch.context() as patched:
        patched.setattr(telling, "CONFLICTS_MAX", 3)
        error = told(tx, fork)
    assert (len(error.conflicts), error.complete) == (3, False)
    after = Transaction._after

    def broken(*args: Any) -> Any:
        yield next(after(*args))
        raise StoreUnavailable("gone")

    monkeypatch.setattr(Transaction, "_after", broken)
    error = told(tx, fork)
    assert (listed(error), error.complete) == ({"a": ["update-update", "update-delete"]}, False)
