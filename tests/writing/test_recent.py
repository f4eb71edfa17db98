"""What a writer keeps of what it stored: little, and the latest."""

from __future__ import annotations

from crdtcat.writing.recent import RECENT_BYTES_MAX, RECENT_FILES_MAX, Recent


def test_the_latest_are_kept_within_both_limits_and_once() -> None:
    recent = Recent()
    for number in range(2 * RECENT_FILES_MAX):
        recent.add(f"{number}", b"small")
    latest = [f"{number}" for number in range(RECENT_FILES_MAX, 2 * RECENT_FILES_MAX)]
    assert recent.taken() == dict.fromkeys(latest, b"small")
    assert recent.taken() == {}
    half = bytes(RECENT_BYTES_MAX // 2)
    for name in ("first", "second", "third"):
        recent.add(name, half)
    assert list(recent.taken()) == ["second", "third"]
    recent.add("too large", bytes(RECENT_BYTES_MAX + 1))
    assert recent.taken() == {}
