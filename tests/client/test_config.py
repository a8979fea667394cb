"""Options are checked when the client is made, and the error names option, value and remedy."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import pytest

from oncelog import Producer
from oncelog.config import (
    Address,
    ConnectionOptions,
    ConsumerOptions,
    GroupOptions,
    ProducerOptions,
    parse_addresses,
    take,
)
from oncelog.errors import ConfigurationError
from oncelog_protocol.records.compression import CodecUnavailableError
from oncelog_protocol.types import Acks, IsolationLevel


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        (["a:1", "b"], [("a", 1), ("b", 9092)]),
        ("[::1]:9093,[::2]", [("::1", 9093), ("::2", 9092)]),
        ("a:1,a:1", [("a", 1)]),
        ("10.0.0.1:65535", [("10.0.0.1", 65535)]),
    ],
)
def test_addresses(given: Any, addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(given) == tuple(Address(*address) for address in addresses)


@pytest.mark.parametrize("given", ["", ",", [], ":9092", "a:0", "a:65536", "a:b", "a:-1", "[::1:9"])
def test_bad_addresses(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        parse_addresses(given)


def test_an_address_is_written_as_one_types_it() -> None:
    assert str(Address("a", 1)) == "a:1"
    assert str(Address("::1", 1)) == "[::1]:1"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("acks", 2),
        ("acks", "some"),
        ("acks", True),
        ("compression_type", "snappy"),
        ("linger_ms", -1),
        ("linger_ms", True),
        ("batch_size", 0),
        ("batch_size", 2**40),
        ("buffer_memory", 1),
        ("max_in_flight_requests_per_connection", 0),
        ("max_in_flight_requests_per_connection", 1000),
        ("max_request_size", 10),
        ("delivery_timeout_ms", 0),
    ],
)
def test_bad_producer_options(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{option}="):
        ProducerOptions(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("auto_offset_reset", "whatever"),
        ("auto_offset_reset", "by_duration:"),
        ("auto_offset_reset", "by_duration:P"),
        ("auto_offset_reset", "by_duration:1H"),
        ("auto_offset_reset", timedelta(seconds=-1)),
        ("auto_offset_reset", None),
        ("isolation_level", "serializable"),
        ("fetch_min_bytes", -1),
        ("fetch_max_wait_ms", 10**9),
        ("fetch_max_bytes", 0),
        ("max_partition_fetch_bytes", 1.5),
        ("max_poll_records", 0),
    ],
)
def test_bad_consumer_options(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{option}="):
        ConsumerOptions(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("client_id", ""),
        ("client_id", "x" * 2000),
        ("client_id", "a\nb"),
        ("request_timeout_ms", 0),
        ("connect_timeout_ms", "5"),
        ("metadata_max_age_ms", 0),
        ("retry_backoff_ms", 0),
        ("retry_backoff_max_ms", 1),
        ("max_block_ms", -1),
    ],
)
def test_bad_connection_options(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{option}="):
        ConnectionOptions(bootstrap_servers="a", **{option: value})


@pytest.mark.parametrize(
    ("acks", "code"), [("all", Acks.ALL), (-1, Acks.ALL), (1, Acks.LEADER), ("0", Acks.NONE)]
)
def test_acks(acks: Any, code: Acks) -> None:
    assert ProducerOptions(acks=acks).acks_code is code


def test_a_codec_that_is_missing_is_found_when_the_client_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(CodecUnavailableError, match=r"oncelog\[lz4\]"):
        Producer("localhost:1", compression_type="lz4")
    Producer("localhost:1", compression_type="gzip")


def test_isolation() -> None:
    assert ConsumerOptions().isolation_code is IsolationLevel.READ_COMMITTED
    options = ConsumerOptions(isolation_level="read_uncommitted")
    assert options.isolation_code is IsolationLevel.READ_UNCOMMITTED


def test_options_are_taken_from_a_constructors_parameters() -> None:
    options = take(ProducerOptions, {"acks": 1, "unrelated": 3})
    assert options == ProducerOptions(acks=1)
    assert ConnectionOptions(bootstrap_servers="a:1,b:2").addresses[1] == Address("b", 2)


@pytest.mark.parametrize("name", ["a..b:9092", "x" * 64 + ".example:9092"])
def test_a_name_that_no_host_can_have_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigurationError, match="not a host name"):
        ConnectionOptions(bootstrap_servers=name)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("group_id", ""),
        ("group_id", "x" * 2000),
        ("group_id", 3),
        ("group_instance_id", ""),
        ("group_instance_id", "i"),
        ("auto_commit_interval_ms", 0),
        ("session_timeout_ms", 1),
        ("heartbeat_interval_ms", 30_000),
        ("max_poll_interval_ms", 0),
    ],
)
def test_bad_group_options(option: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{option}="):
        GroupOptions(**{option: value})
