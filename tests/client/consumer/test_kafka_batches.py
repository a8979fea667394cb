"""A consumer reads what Kafka's clients wrote, and what ours did beside it."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import Consumer
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import FakeCluster

T_MS = 1_700_000_000_000

SNAPPY, LZ4, ZSTD = (
    bytes.fromhex(text)
    for text in (
        "000000000000000000000065000000000209f54b120002000000020000018bcfe568000000018bcfe56800ffff"
        "ffffffffffffffffffffffff0000000382534e4150505900000000010000000100000020ae012c72000000026b"
        "6476616c7565b20500100072000002e23a000004d63a00",
        "00000000000000000000006c00000000025c5e5e050003000000020000018bcfe568000000018bcfe56800ffff"
        "ffffffffffffffffffffffff0000000304224d186840ae000000000000005324000000cf72000000026b647661"
        "6c756505001a5f00720000023a00261f043a001e50616c75650000000000",
        "000000000000000000000058000000000288712e650004000000020000018bcfe568000000018bcfe56800ffff"
        "ffffffffffffffffffffffff0000000328b52ffd20aef500009072000000026b6476616c756500720000020403"
        "0003a77057a716664902",
    )
)
"""kafka-python 3.0.12 wrote each of these, with three records."""


def reader(cluster: FakeCluster) -> Consumer:
    return Consumer(
        "t",
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        entropy=SeededEntropy(1),
    )


@pytest.mark.parametrize("batch", [SNAPPY, LZ4, ZSTD], ids=["snappy", "lz4", "zstd"])
async def test_what_a_kafka_client_compressed_is_read(batch: bytes) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.partition("t", 0).append(bytearray(batch))
        async with reader(cluster) as consumer:
            records = [await consumer.getone() for _ in range(3)]
    assert [record.offset for record in records] == [0, 1, 2]
    assert {(record.key, record.value, record.timestamp) for record in records} == {
        (b"k", b"value" * 10, T_MS)
    }


@pytest.mark.parametrize("codec", list(Codec))
async def test_both_formats_say_the_same_in_one_partition(codec: Codec) -> None:
    options: dict[str, Any] = {
        "keys": [b"k", None, b""],
        "timestamps": [T_MS, T_MS - 5, T_MS + 70_000],
        "headers": [[("h", b"1"), ("h", None)], None, [("ü", b"")]],
    }
    values = [b"v", None, b"w" * 200]
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        partition = cluster.partition("t", 0)
        partition.append(encode_batch(values, **options))
        partition.append(encode_batch(values, magic=KAFKA_MAGIC, codec=codec, **options))
        async with reader(cluster) as consumer:
            records = [await consumer.getone() for _ in range(6)]
    ours, theirs = (
        [(r.key, r.value, r.timestamp, r.headers) for r in some]
        for some in (records[:3], records[3:])
    )
    assert theirs == ours
    assert [record.offset for record in records] == list(range(6))
    assert [record.value for record in records[:3]] == values
