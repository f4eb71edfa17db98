"""A PUT whose answer was lost and whose repetition is refused: nobody may say that nothing was stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crdtcat import Catalog
from crdtcat.errors import AccessDenied, CommitUnknown, StoreError, StoreUnavailable
from crdtcat.store import RetryPolicy
from crdtcat.store.local import LocalStore
from crdtcat.store.values import Data

QUICK = RetryPolicy(attempts=5, base_ms=1, max_ms=1)


class LostThenRefused(LocalStore):
    """Stores an object and loses the answer, then fails every repetition of it for another reason."""

    failure: Callable[[], Exception] | None = None

    def __init__(self, root: Path) -> None:
        super().__init__(root, retry=QUICK)
        self.stored: set[str] = set()

    def _put(self, name: str, data: Data) -> None:
        self._fail(name, lambda: LocalStore._put(self, name, data))

    def _put_if_absent(self, name: str, data: Data) -> None:
        self._fail(name, lambda: LocalStore._put_if_absent(self, name, data))

    def _fail(self, name: str, store: Callable[[], None]) -> None:
        if self.failure is not None and name in self.stored:
            raise self.failure()
        store()
        self.stored.add(name)
        if self.failure is not None:
            raise TimeoutError("no answer")


REFUSALS = [PermissionError, ValueError, NotImplementedError, FileNotFoundError, lambda: AccessDenied("no")]


@pytest.mark.parametrize("failure", REFUSALS)
def test_a_later_refusal_does_not_hide_an_unclear_try(
    tmp_path: Path, failure: Callable[[], Exception]
) -> None:
    store = LostThenRefused(tmp_path)
    store.failure = failure
    for put in (store.put, store.put_if_absent):
        name = f"{put.__name__}.v"
        with pytest.raises(StoreUnavailable, match="2 times") as caught:
            put(name, b"bytes")
        assert caught.value.__cause__ is not None
        assert store.get(name) == b"bytes"


def test_a_refusal_at_once_is_still_a_refusal(tmp_path: Path) -> None:
    store = LostThenRefused(tmp_path)
    store.put("a.v", b"bytes")
    store.failure = PermissionError
    with pytest.raises(AccessDenied):
        store.put("a.v", b"bytes")
    store.failure = ValueError
    with pytest.raises(StoreError, match="not understood"):
        store.put("a.v", b"bytes")


def test_the_commit_says_that_it_may_stand(tmp_path: Path) -> None:
    store = LostThenRefused(tmp_path)
    catalog = Catalog(store, upkeep=False)
    catalog.commit("t", [{"n": 1}])
    store.failure = PermissionError
    with pytest.raises(CommitUnknown):
        catalog.commit("t", [{"n": 2}])
    store.failure = None
    assert Catalog(tmp_path).read("t").to_pylist() == [{"n": 1}, {"n": 2}]
    version = catalog.commit("t", [{"n": 3}])
    assert version.id.seq == 1  # under a new identity
