"""Keys have their partitions for ever; records without keys may go anywhere."""

from __future__ import annotations

from typing import Any

import pytest
import xxhash

from oncelog.errors import ConfigurationError
from oncelog.producer.partitioner import STICKY, make_partitioner, murmur2, partition_rows


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        # From Kafka's UtilsTest.testMurmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, digest: int) -> None:
    assert murmur2(key) == digest & 0xFFFFFFFF


def test_the_default_is_xxh3_of_the_key_and_must_not_change() -> None:
    partitioner = make_partitioner("default")
    assert partitioner.partition("t", b"42", 6) == xxhash.xxh3_64_intdigest(b"42") % 6
    assert [partitioner.partition("t", b"%d" % i, 12) for i in range(8)] == [
        xxhash.xxh3_64_intdigest(b"%d" % i) % 12 for i in range(8)
    ]
    assert partitioner.partition("t", None, 6) == STICKY


def test_murmur2_ignores_the_sign_as_kafka_does() -> None:
    partitioner = make_partitioner("murmur2")
    assert partitioner.partition("t", b"foobar", 10) == ((-790332482) & 0x7FFFFFFF) % 10
    assert partitioner.partition("t", None, 10) == STICKY


def test_round_robin_takes_turns_by_topic() -> None:
    partitioner = make_partitioner("round_robin")
    assert [partitioner.partition("t", b"k", 3) for _ in range(4)] == [0, 1, 2, 0]
    assert partitioner.partition("u", None, 3) == 0


def test_sticky_ignores_keys() -> None:
    assert make_partitioner("sticky").partition("t", b"k", 3) == STICKY


def test_a_function_and_an_object_of_ones_own() -> None:
    def last(topic: str, key: bytes | None, count: int) -> int:
        return count - 1

    class First:
        def partition(self, topic: str, key: bytes | None, count: int) -> int:
            return 0

    assert make_partitioner(last).partition("t", None, 5) == 4
    assert make_partitioner(First()).partition("t", None, 5) == 0


@pytest.mark.parametrize("option", ["random", 3, None, dict])
def test_anything_else_is_refused(option: Any) -> None:
    with pytest.raises(ConfigurationError, match="^partitioner="):
        make_partitioner(option)


@pytest.mark.parametrize("name", ["default", "murmur2"])
def test_rows_by_partition_are_those_of_the_partitioner(name: str) -> None:
    partitioner = make_partitioner(name)
    keys = [None if i % 5 == 0 else b"%d" % i for i in range(100)]
    rows = partition_rows(partitioner, "t", keys, 4)
    assert sorted(row for some in rows.values() for row in some) == list(range(100))
    for number, some in rows.items():
        assert some == sorted(some)
        assert all(partitioner.partition("t", keys[row], 4) == number for row in some)
