"""Dead letters carry what failed, and count at their time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.config import ConnectionOptions
from oncelog.consumer.dead_letter import (
    ERROR_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    PREFIX,
    DeadLetters,
    cut,
    with_cause,
)
from oncelog.consumer.record import Record
from oncelog.errors import NotEnoughReplicasError, UnknownTopicOrPartitionError
from oncelog_protocol.limits import HEADER_COUNT_MAX
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.decode import decode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster

RECORD = Record("orders", 3, 42, 1_700_000_000_000, b"k", b"v", (("trace", b"1"), ("x", None)))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def causes(error: BaseException, record: Record = RECORD) -> dict[str, bytes | None]:
    headers = with_cause(record, error, 5, "billing")
    return {name.removeprefix(PREFIX): value for name, value in headers if PREFIX in name}


def test_the_cause() -> None:
    headers = with_cause(RECORD, ValueError("no such customer"), 5, "billing")
    assert headers[:2] == RECORD.headers
    assert dict(headers[2:]) == {
        "oncelog-dead-letter-topic": b"orders",
        "oncelog-dead-letter-partition": b"3",
        "oncelog-dead-letter-offset": b"42",
        "oncelog-dead-letter-timestamp": b"1700000000000",
        "oncelog-dead-letter-attempts": b"5",
        "oncelog-dead-letter-error": b"ValueError",
        "oncelog-dead-letter-message": b"no such customer",
        "oncelog-dead-letter-group": b"billing",
    }
    assert len(with_cause(RECORD, ValueError(), 1)) == len(headers) - 1


def test_an_earlier_death_is_replaced() -> None:
    first = RECORD._replace(headers=with_cause(RECORD, ValueError("first"), 1))
    again = with_cause(first._replace(topic="orders-failed"), KeyError("second"), 2)
    assert len(again) == len(first.headers)
    assert dict(again)[PREFIX + "topic"] == b"orders-failed"


def test_classes_are_named_with_their_module() -> None:
    assert causes(Unspeakable())["error"] == f"{__name__}.Unspeakable".encode()


def test_messages_of_any_kind_are_bounded() -> None:
    assert causes(Unspeakable())["message"] == b""
    assert causes(ValueError("x" * 10_000))["message"] == b"x" * MESSAGE_BYTES_MAX
    assert causes(ValueError("\ud800"))["message"] == b"\\ud800"
    long = causes(ValueError("ä" * MESSAGE_BYTES_MAX))["message"]
    assert long is not None
    assert long.decode() == "ä" * (MESSAGE_BYTES_MAX // 2)
    name = causes(type("N" * 1000, (Exception,), {})())["error"]
    assert name is not None
    assert len(name) == ERROR_BYTES_MAX


def test_cut_between_characters() -> None:
    assert cut("aä", 2) == b"a"
    assert cut("aä", 3) == "aä".encode()
    assert cut("", 3) == b""


def test_room_is_made_among_too_many_headers() -> None:
    full = RECORD._replace(headers=tuple((f"h{n}", b"") for n in range(HEADER_COUNT_MAX)))
    assert len(with_cause(full, ValueError(), 1)) == HEADER_COUNT_MAX
    assert causes(ValueError(), full)["offset"] == b"42"


def letters_of(cluster: FakeCluster) -> DeadLetters:
    options = replace(ConnectionOptions(bootstrap_servers=cluster.bootstrap), max_block_ms=300)
    return DeadLetters("dead", options, group_id=None, clock=None, entropy=SeededEntropy(1))


async def test_sent_means_acknowledged_by_all() -> None:
    async with FakeCluster() as cluster:
        (partition,) = cluster.create_topic("dead")
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotEnoughReplicasError, times=2)
        letters = letters_of(cluster)
        await letters.start()
        await letters.send(RECORD, ValueError("bad"), 2)
        columns = decode_batch(partition.batches[0])
        assert columns.keys is not None
        assert columns.headers is not None
        assert (columns.keys[0], columns.values[0]) == (b"k", b"v")
        assert tuple(columns.headers[0]) == with_cause(RECORD, ValueError("bad"), 2)
        requests = [r for _, r in cluster.requests if r.api_key == ApiKey.PRODUCE]
        assert len(requests) == 3
        assert {request.acks for request in requests} == {-1}
        await letters.close()


async def test_a_topic_that_does_not_exist_is_noticed_at_the_start() -> None:
    async with FakeCluster() as cluster:
        letters = letters_of(cluster)
        with pytest.raises(UnknownTopicOrPartitionError):
            await letters.start()
        await letters.close()
