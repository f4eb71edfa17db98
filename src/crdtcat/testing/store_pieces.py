"""What every store must do with large objects: whole, in pieces, and told of before they are all made."""

# ruff: noqa: D102 (a test's name says what it shows)

from __future__ import annotations

import pytest

from crdtcat.errors import StoreUnavailable
from crdtcat.store import Store
from crdtcat.support.scattered import Scattered


class StorePieces:
    """Large objects. Run it as part of `StoreConformance`."""

    large_bytes: int = 12 * 2**20
    """Larger than the store's `multipart_bytes`, where it has such a thing."""

    def test_a_large_object_round_trips(self, store: Store) -> None:
        data = (b"%015d\n" * (self.large_bytes // 16)) % tuple(range(self.large_bytes // 16))
        store.put("large/a", memoryview(data))
        assert store.get("large/a") == data
        assert store.get("large/a", self.large_bytes - 20) == data[-20:]
        assert [info.size for info in store.list("large/")] == [len(data)]

    def test_an_object_in_pieces_round_trips(self, store: Store) -> None:
        """As `commit` puts large segments: in several buffers, of which some were announced."""
        whole = bytes(range(256)) * (self.large_bytes // 256)
        pieces = [whole[:1], whole[1 : 5 * 2**20], b"", whole[5 * 2**20 :]]
        store.write_ahead("pieces/large", Scattered(pieces[:2]))
        assert [*store.list("pieces/")] == []
        store.put("pieces/large", Scattered(pieces))
        assert store.get("pieces/large") == whole
        store.write_ahead("pieces/none", Scattered([b"x"]))
        store.forget("pieces/none")
        store.put("pieces/small", Scattered([b"a", b"b"]))
        names = ["pieces/large", "pieces/small"]
        assert [info.name for info in store.list("pieces/")] == names

    def test_what_the_store_has_need_not_be_kept(self, store: Store) -> None:
        """As `commit` puts segments larger than memory: what was announced and taken is let go of."""
        whole = bytes(range(256)) * (3 * self.large_bytes // 256)
        has = 0
        for stop in range(0, len(whole), self.large_bytes // 2):
            has_now = store.write_ahead("ahead/large", Scattered([whole[has:stop]], gone=has))
            assert has <= has_now <= stop
            has = has_now
        assert [*store.list("ahead/")] == []
        store.put("ahead/large", Scattered([whole[has:]], gone=has))
        assert store.get("ahead/large") == whole
        has = store.write_ahead("ahead/none", Scattered([whole]))
        store.forget("ahead/none")
        if has:
            with pytest.raises(StoreUnavailable):
                store.put("ahead/none", Scattered([whole[has:]], gone=has))
        assert [info.name for info in store.list("ahead/")] == ["ahead/large"]
