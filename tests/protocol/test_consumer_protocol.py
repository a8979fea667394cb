"""Members of a group tell each other whole messages, and bytes that are none are refused."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.types import TopicPartition

partitions = st.lists(
    st.builds(TopicPartition, st.text("ab.", max_size=3), st.integers(0, 2**31 - 1)),
    unique=True,
    max_size=8,
)


@given(st.lists(st.text(max_size=5)), partitions, st.integers(-1, 2**31 - 1), st.binary())
def test_a_subscription_comes_back(
    topics: list[str], owned: list[TopicPartition], generation: int, user_data: bytes
) -> None:
    told = ConsumerSubscription(tuple(topics), tuple(owned), generation, "rack", user_data)
    read = decode_subscription(encode_subscription(told))
    assert sorted(read.owned) == sorted(told.owned)
    assert (read.topics, read.generation, read.rack) == (told.topics, generation, "rack")
    assert read.user_data == user_data


@given(partitions, st.binary())
def test_an_assignment_comes_back(given_: list[TopicPartition], user_data: bytes) -> None:
    read = decode_assignment(encode_assignment(ConsumerAssignment(tuple(given_), user_data)))
    assert sorted(read.partitions) == sorted(given_)
    assert read.user_data == user_data


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == ConsumerAssignment(())


def test_fields_of_a_later_release_are_passed_over() -> None:
    assert decode_assignment(msgpack.packb([7, ["t", [1]], b"", "new", [1]])).partitions == (
        TopicPartition("t", 1),
    )
    later = [7, ["t"], ["t", [0]], 3, None, b"", ["new"]]
    assert decode_subscription(msgpack.packb(later)).generation == 3


BAD = [
    b"\xc1",
    b"\x93",
    msgpack.packb(5),
    msgpack.packb([]),
    msgpack.packb(["0", [], b""]),
    msgpack.packb([0, {}, b""]),
    msgpack.packb([0, ["t"], b""]),
    msgpack.packb([0, ["t", 1], b""]),
    msgpack.packb([0, ["t", [-1]], b""]),
    msgpack.packb([0, ["t", [True]], b""]),
    msgpack.packb([0, [1, [1]], b""]),
    msgpack.packb([0, [], "text"]),
    msgpack.packb([0, [], b""]) + b"\x00",
    b"\x91" * 2000,
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_what_is_no_assignment_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        decode_assignment(data)


@pytest.mark.parametrize("place", range(6))
def test_what_is_no_subscription_is_refused(place: int) -> None:
    fields: list[object] = [0, ["t"], ["t", [0]], 1, None, b""]
    fields[place] = 1.5
    with pytest.raises(InvalidRequestError):
        decode_subscription(msgpack.packb(fields))


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except InvalidRequestError:
            pass


def test_what_is_too_large_to_travel_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidRequestError, match="at most"):
        encode_assignment(ConsumerAssignment((), bytes(limits.BLOB_BYTES_MAX)))
