"""The parts all stores share: counters, retries, names, secrets, the estimate of the store's clock."""

from __future__ import annotations

import errno
import pickle
import secrets
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.errors import AccessDenied, CapabilityMissing, InvalidArgument, StoreError, StoreUnavailable
from crdtcat.store import RequestCounter, RequestCounts, RetryPolicy, Store, open_store
from crdtcat.store.generic import FsspecStore, _modified_ms
from crdtcat.store.memory import MemoryStore
from crdtcat.store.naming import check_name, hide_secrets, public_url
from crdtcat.store.retry import RETRY_ATTEMPTS, RETRY_BASE_MS, RETRY_MAX_MS
from crdtcat.store.skew import SkewEstimate
from crdtcat.store.values import Data


class Failing(MemoryStore):
    """Fails with the errors it is given, then works."""

    def __init__(self, url: str, errors: list[Exception], **options: Any) -> None:
        super().__init__(url, options)
        self.errors = errors
        self.pauses: list[float] = []

    def _put(self, name: str, data: Data) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super()._put(name, data)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_transient_faults_are_absorbed() -> None:
    errors = [
        ConnectionResetError(),
        TimeoutError(),
        OSError(errno.EAGAIN, "again"),
        OSError(errno.EBUSY, "busy"),
    ]
    store = Failing("memory://parts/absorbed", list(errors))
    store.put("a", b"x")
    assert store.get("a") == b"x"
    assert store.requests.snapshot().put == len(errors) + 1
    assert len(store.pauses) == len(errors)


def test_retries_are_bounded_and_the_pauses_jittered() -> None:
    store = Failing("memory://parts/bounded", [ConnectionResetError("gone")] * 100)
    with pytest.raises(
        StoreUnavailable, match=f"put of 'a' in memory://parts/bounded failed {RETRY_ATTEMPTS} times"
    ):
        store.put("a", b"x")
    assert len(store.pauses) == RETRY_ATTEMPTS - 1
    for failures, pause in enumerate(store.pauses, start=1):
        assert 0 <= pause <= min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** (failures - 1)) / 1000
    assert len({RetryPolicy().pause_seconds(8) for _ in range(20)}) > 1
    assert RetryPolicy().pause_seconds(10_000) <= RETRY_MAX_MS / 1000


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError("no"), AccessDenied),
        (OSError(errno.ENOSPC, "full"), StoreUnavailable),
        (NotImplementedError("no such thing"), CapabilityMissing),
        (TypeError("unexpected option"), StoreError),
        (AccessDenied("already ours"), AccessDenied),
    ],
)
def test_other_faults_are_reported_at_once(error: Exception, expected: type[Exception]) -> None:
    store = Failing("memory://parts/reported", [error])
    with pytest.raises(expected):
        store.put("a", b"x")
    assert store.pauses == []
    assert store.requests.snapshot() == RequestCounts(put=1)


def test_a_cause_that_gives_a_secret_away_is_dropped() -> None:
    token, deep = secrets.token_hex(8), secrets.token_hex(8)
    options = {"token": token, "nested": {"keys": [deep]}, "endpoint_url": "http://shown"}
    for secret in (token, deep):
        outer = ValueError("harmless itself")
        outer.__cause__ = ValueError(f"sent {secret}")
        errors: list[Exception] = [ValueError(f"sent {secret}"), outer, ValueError("see http://shown")]
        store = Failing("memory://parts/hidden", errors, **options)
        for expected in (r"sent \*\*\*", "harmless itself"):
            with pytest.raises(StoreError, match=expected) as caught:
                store.put("a", b"x")
            assert secret not in "".join(traceback.format_exception(caught.value)) + repr(store)
        with pytest.raises(StoreError, match="http://shown") as caught:
            store.put("a", b"x")
        assert isinstance(caught.value.__cause__, ValueError)


def test_urls_are_shown_without_secrets() -> None:
    assert public_url("ftp://user:word@host/path") == "ftp://host/path"
    assert public_url("abfs://box@account.host/path?sig=abc#x") == "abfs://account.host/path"
    assert public_url("/a/path?with#signs") == "/a/path?with#signs"
    assert hide_secrets("a long-value", {"x": "long-value", "y": "abc", "z": b"bytes-too"}) == "a ***"
    secret = secrets.token_hex(8)
    with pytest.raises(InvalidArgument) as caught:
        FsspecStore(f"nosuch://user:{secret}@host/x", {"password": secret})
    assert secret not in "".join(traceback.format_exception(caught.value))


@given(st.text(max_size=40))
def test_names_never_leave_the_root(name: str) -> None:
    try:
        check_name(name)
    except ValueError:
        return
    assert name.isascii()
    assert not name.startswith("/")
    assert all(part and not part.startswith(".") for part in name.split("/"))


def test_counters_add_up_over_threads() -> None:
    counter = RequestCounter()
    before = counter.snapshot()

    def count() -> None:
        for _ in range(2000):
            counter.add("put", bytes_out=2)
            counter.add("get", count=2, bytes_in=1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.since(before) == RequestCounts(put=8000, get=16000, bytes_in=8000, bytes_out=16000)
    assert (counter.put, counter.get, counter.list, counter.delete, counter.head) == (8000, 16000, 0, 0, 0)
    assert (counter.bytes_in, counter.bytes_out) == (8000, 16000)
    assert counter.snapshot().total == 24000
    assert str(RequestCounts(put=1, get=2)) == "1 put, 2 get"
    assert str(RequestCounts()) == "no requests"
    assert not hasattr(counter, "patch")


@given(
    skew=st.integers(-(10**7), 10**7),
    answers=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 500), st.integers(0, 500)), min_size=1),
    resolution=st.sampled_from([1, 20, 1000]),
)
def test_the_skew_is_bracketed_by_every_answer(
    skew: int, answers: list[tuple[int, int, int]], resolution: int
) -> None:
    assert SkewEstimate().milliseconds is None
    estimate = SkewEstimate()
    for sent, there, back in answers:
        stamp = (sent + there + skew) // resolution * resolution
        estimate.observe(stamp, resolution, sent, sent + there + back)
    found = estimate.milliseconds
    assert found is not None
    worst = min(there + back for _, there, back in answers) + resolution
    assert abs(found - skew) <= worst


def test_a_clock_set_anew_is_believed() -> None:
    estimate = SkewEstimate()
    estimate.observe(1000, 1, 1000, 1001)
    assert estimate.milliseconds == 0
    estimate.observe(90_000, 1, 2000, 2001)
    assert estimate.milliseconds == 88_000
    estimate.observe(90_000, 1, 2000, 1000)  # our own clock went back meanwhile: this says nothing
    estimate.observe(50, 1, 9000, 2000)
    assert estimate.milliseconds is not None


def test_memory_stores_share_objects_and_take_a_clock() -> None:
    now = [1_000_000]
    store = MemoryStore("memory://parts/clock", clock_ms=lambda: now[0])
    store.put("a", b"x")
    now[0] = 2_000_123
    store.put("b", b"x")
    assert [info.modified_ms for info in open_store("memory://parts/clock").list("")] == [
        1_000_000,
        2_000_123,
    ]
    assert store.skew_ms() != 0
    assert open_store("memory://parts").get("clock/a") == b"x"
    assert open_store("memory://").get("parts/clock/a") == b"x"


def test_filesystems_tell_the_time_in_many_ways() -> None:
    moment = 1_700_000_000_000
    for entry in (
        {"mtime": 1_700_000_000},
        {"mtime": None, "last_modified": "2023-11-14T22:13:20+00:00"},
        {"updated": "2023-11-14T22:13:20Z"},
        {"created": "2023-11-14T22:13:20"},
    ):
        assert _modified_ms(entry) == moment
    assert (
        _modified_ms({"mtime": "whenever"}) > moment
    )  # unknown is young, so that nothing is collected early


def test_opening_needs_a_url() -> None:
    with pytest.raises(InvalidArgument):
        open_store("")
    assert isinstance(open_store("memory://x"), MemoryStore)
    assert isinstance(open_store("data://x"), FsspecStore)


def test_what_a_filesystem_says_when_it_is_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("zip://x", "dir://x", "tar://x"):  # each has an error of its own for it
        with pytest.raises(InvalidArgument, match=f"fsspec cannot open {url}"):
            open_store(url)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        open_store("ftp://127.0.0.1/x", {"port": 9})


def test_a_store_that_looks_first_is_not_trusted() -> None:
    store = FsspecStore("memory://parts/exclusive")
    assert store.lists_in_order is False
    assert pickle.loads(pickle.dumps(store)).url == "memory://parts/exclusive"
    for _ in range(20):  # a race would be lost now and then only
        assert FsspecStore("memory://parts/exclusive").can_create_exclusively is False
    assert list(store.list("")) == []


@pytest.mark.parametrize("looks_first", [False, True])
def test_one_known_to_exclude_is_tried(monkeypatch: pytest.MonkeyPatch, *, looks_first: bool) -> None:
    """Under a name that is trusted: one that decides under a lock, and one that forgets the condition."""
    lock = threading.Lock()
    pipe = MemoryFileSystem.pipe_file

    def locked(self: Any, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> Any:
        with lock:
            return pipe(self, path, value, mode="overwrite" if looks_first else mode, **options)

    monkeypatch.setattr(MemoryFileSystem, "protocol", ("memory", "gs"))
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", locked)
    store = FsspecStore("memory://parts/known")
    assert store.can_create_exclusively is not looks_first
    assert list(store.list("")) == []


def test_the_interface_is_abstract() -> None:
    with pytest.raises(TypeError):
        Store("memory://")  # type: ignore[abstract]
