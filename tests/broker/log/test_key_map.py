"""The map has the newest offset of each key, as far as memory goes."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.key_map import ENTRY_BYTES, KeyMap

KEYS = st.lists(st.none() | st.binary(max_size=2), min_size=1, max_size=8)


@given(st.lists(KEYS, max_size=30), st.integers(0, 5000))
def test_it_holds_the_newest_of_an_unbroken_run_of_batches(
    batches: list[list[bytes | None]], bytes_max: int
) -> None:
    keys = KeyMap(bytes_max)
    expected: dict[bytes, int] = {}
    offset = 0
    for batch in batches:
        offsets = range(offset, offset + len(batch))
        if not keys.add(batch, offsets):
            assert len(keys) > 0
            break
        expected.update({k: o for k, o in zip(batch, offsets, strict=True) if k is not None})
        offset += len(batch)
    assert dict(keys.newest) == expected
    assert len(keys) == len(expected)
    assert keys.size_bytes == sum(ENTRY_BYTES + len(key) for key in expected)


def test_the_first_batch_goes_in_and_the_next_does_not() -> None:
    keys = KeyMap(1)
    assert keys.add([b"a", b"b"], [0, 1])
    assert not keys.add([b"a", b"c"], [2, 3])
    assert dict(keys.newest) == {b"a": 0, b"b": 1}
    assert not keys.add([b"a"], [2])


def test_it_takes_no_more_memory_than_it_says() -> None:
    for count in (1000, 30_000, 50_000):  # before and after the table grows
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        keys = KeyMap(1 << 40)
        for first in range(0, count, 1000):
            names = [b"group-%d" % number for number in range(first, first + 1000)]
            keys.add(names, [10**9 + number for number in range(1000)])
        del names
        taken = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        assert len(keys) == count
        assert taken < keys.size_bytes + 200_000
