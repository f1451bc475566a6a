"""The bounded cache: it never exceeds its limit and keeps what is asked for."""

from __future__ import annotations

from penstock.core.security.bounded_cache import BoundedCache


def test_it_is_bounded_and_keeps_what_is_in_use() -> None:
    cache: BoundedCache[int, int] = BoundedCache(10)
    for number in range(1_000):
        cache.put(number, number)
        assert cache.get(0) == 0, "asked for all the time"
        assert len(cache) <= 10
    assert cache.get(999) == 999
    assert cache.get(500) is None


def test_clear_forgets_both_generations() -> None:
    cache: BoundedCache[str, int] = BoundedCache(4)
    for name in "abc":
        cache.put(name, 1)
    cache.clear()
    assert [cache.get(name) for name in "abc"] == [None] * 3
    assert len(cache) == 0
