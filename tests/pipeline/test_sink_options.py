"""Options of the sink become settings, and every mistake has its remedy."""

from __future__ import annotations

import pickle

import pytest

from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.sink_options import SinkOptions

SERVERS = {"oncelog.bootstrap.servers": "a:9092,b:9092"}


def test_some_cluster_must_be_named() -> None:
    with pytest.raises(OptionError, match="bootstrap.servers"):
        SinkOptions.parse({"topic": "t"})


def test_defaults() -> None:
    options = SinkOptions.parse(SERVERS)
    assert options == SinkOptions(bootstrap_servers="a:9092,b:9092")
    assert options.exactly_once
    assert options.topic is None
    assert options.partitioner == "default"
    assert options.transaction_timeout_ms == 900_000
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_whatever_its_case() -> None:
    options = SinkOptions.parse(
        {
            "Kafka.Bootstrap.Servers": " a:1 ",
            "TOPIC": "out",
            "sinkId": "totals",
            "deliveryGuarantee": "EXACTLY_ONCE",
            "Partitioner": "murmur2",
            "includeHeaders": "False",
            "transactionTimeoutMs": "1000",
            "oncelog.compression.type": "zstd",
            "kafka.batch.size": "1000",
            "oncelog.linger.ms": "0.5",
            "checkpointLocation": "/tmp/x",
            "queryName": "q",
        }
    )
    assert options == SinkOptions(
        bootstrap_servers="a:1",
        topic="out",
        sink_id="totals",
        partitioner="murmur2",
        include_headers=False,
        transaction_timeout_ms=1000,
        checkpoint="/tmp/x",
        client={"compression_type": "zstd", "batch_size": 1000, "linger_ms": 0.5},
    )


def test_without_transactions() -> None:
    assert not SinkOptions.parse({**SERVERS, "deliveryGuarantee": "at-least-once"}).exactly_once


def test_the_options_of_a_source_are_none_of_ours() -> None:
    """A table that is read and written has the options of both."""
    given = {**SERVERS, "subscribe": "t", "startingOffsets": "earliest", "topic": "t"}
    given["kafka.isolation.level"] = "read_committed"
    assert SinkOptions.parse(given) == SinkOptions.parse({**SERVERS, "topic": "t"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "INSERT INTO t WITH"),
        ({"kafka.bootstrap.servers": "other:1"}, "twice"),
        ({"topik": "t"}, "did you mean topic"),
        ({"sink_id": "t"}, "did you mean sinkId"),
        ({"colour": "red"}, "no option 'colour'"),
        ({"oncelog.lingr.ms": "5"}, "did you mean oncelog.linger.ms"),
        ({"oncelog.acks": "1"}, "in-sync"),
        ({"kafka.transactional.id": "x"}, "sinkId"),
        ({"kafka.transaction.timeout.ms": "1"}, "transactionTimeoutMs"),
        ({"kafka.value.serializer": "x"}, "binary"),
        ({"oncelog.linger.ms": "soon"}, "must be a number"),
        ({"oncelog.linger.ms": "1", "kafka.linger.ms": "2"}, "given twice"),
        ({"path": "t"}, "topic"),
        ({"partitioner": "random"}, "murmur2"),
        ({"deliveryGuarantee": "none"}, "exactly-once"),
        ({"deliveryGuarantee": "at-least-once", "sinkId": "x"}, "sinkId"),
        ({"sinkId": "with space"}, "white space"),
        ({"sinkId": ""}, "1 to 900"),
        ({"transactionTimeoutMs": "0"}, "transactionTimeoutMs"),
        ({"transactionTimeoutMs": "long"}, "transactionTimeoutMs"),
        ({"includeHeaders": "perhaps"}, "includeHeaders"),
    ],
)
def test_mistakes_are_named_with_their_remedy(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        SinkOptions.parse({**SERVERS, **given} if given else {})
