"""Messages of Kafka go to bytes and back as two other implementations of Kafka's wire have it."""

from __future__ import annotations

import importlib
import io
import tracemalloc
import uuid
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from oncelog_broker.kafka.wire.codec import (
    ITEMS_MAX,
    decode,
    encode,
    read_varint,
    skip_tags,
    write_varint,
)
from oncelog_broker.kafka.wire.declaration import NO_UUID, KafkaMessage, KafkaRequest
from oncelog_broker.kafka.wire.messages.api_versions import (
    KafkaApiVersionsRequest,
    KafkaApiVersionsResponse,
)
from oncelog_broker.kafka.wire.messages.fetch import (
    KafkaFetchRequest,
    KafkaFetchResponse,
    KafkaFetchResponseEpochEndOffset,
    KafkaFetchResponseFetchableTopicResponse,
    KafkaFetchResponsePartitionData,
)
from oncelog_broker.kafka.wire.messages.heartbeat import KafkaHeartbeatRequest
from oncelog_broker.kafka.wire.messages.join_group import KafkaJoinGroupRequest
from oncelog_broker.kafka.wire.messages.metadata import KafkaMetadataRequest
from oncelog_broker.kafka.wire.messages.produce import KafkaProduceRequest
from oncelog_broker.kafka.wire.plan import plan_of
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.schema import Span
from support.kafka_messages import encoded, every_version, kafka_messages, name_of, plain
from support.messages import mutated

MIB = 2**20
FEW = settings(max_examples=2, deadline=None)
CASES = every_version()
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in an old way
    KAFKA_PYTHON = [
        importlib.import_module(f"kafka.protocol.{name}")
        for name in ("admin", "consumer", "producer", "metadata")
    ]
SEEN_DIFFERENTLY = ("authorized_operations",)
"""kafka-python makes sets of these bit fields."""


def view(data: bytes) -> memoryview:
    return memoryview(bytearray(data))


def kio_class(cls: type[KafkaMessage], version: int) -> Any:
    """Return kio's class for the same message and version."""
    name = cls.__name__.removeprefix("Kafka")
    bare = name.removesuffix("Request").removesuffix("Response")
    file = name.removeprefix(bare).lower() or "data"
    folder = "".join(f"_{char.lower()}" if char.isupper() else char for char in bare).strip("_")
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{file}"), name)


def kafka_python_class(cls: type[KafkaMessage]) -> Any:
    """Return kafka-python's class for the same message, if it reads it as it is."""
    name = cls.__name__.removeprefix("Kafka")
    if name == "ApiVersionsResponse" or "ConsumerProtocol" in name:
        return None  # it reads the first as older ones too, the others with their version before
    return next((getattr(each, name) for each in KAFKA_PYTHON if hasattr(each, name)), None)


@pytest.mark.parametrize("case", CASES, ids=name_of)
@FEW
@given(data=st.data())
def test_kio_reads_what_is_written_here_and_writes_the_same(
    case: tuple[type[KafkaMessage], int], data: st.DataObject
) -> None:
    cls, version = case
    message = data.draw(kafka_messages(cls, version))
    here = encoded(message, version)
    theirs = kio_class(cls, version)
    entity = entity_reader(theirs)(here, 0)[0]
    out = io.BytesIO()
    entity_writer(theirs)(out, entity)
    assert out.getvalue() == here
    plan = plan_of(cls, version)
    assert plain(decode(cls, version, view(out.getvalue())), plan) == plain(message, plan)


@pytest.mark.parametrize(
    "case", [each for each in CASES if kafka_python_class(each[0])], ids=name_of
)
@FEW
@given(data=st.data())
def test_kafka_python_reads_the_same_values_under_the_same_names(
    case: tuple[type[KafkaMessage], int], data: st.DataObject
) -> None:
    cls, version = case
    message = data.draw(kafka_messages(cls, version))
    here = encoded(message, version)
    theirs = kafka_python_class(cls).decode(here, version=version)
    read = theirs.to_dict(json=False)
    if (cls, version) != (KafkaMetadataRequest, 0):  # it reads an empty list as "all topics"
        assert difference(plain(message, plan_of(cls, version)), read) == ""
    theirs._header = None
    assert theirs.encode(version=version) == here


def difference(here: Any, there: Any, path: str = "") -> str:
    """Return where two plain values differ first; "" if nowhere."""
    if isinstance(here, dict):
        names = [name for name in here if not name.endswith(SEEN_DIFFERENTLY)]
        found = (difference(here[name], there[name], f"{path}.{name}") for name in names)
        return next(filter(None, found), "")
    if isinstance(here, list) and isinstance(there, (list, tuple)) and len(here) == len(there):
        pairs = enumerate(zip(here, there, strict=True))
        found = (difference(one, other, f"{path}[{index}]") for index, (one, other) in pairs)
        return next(filter(None, found), "")
    if isinstance(there, uuid.UUID):
        there = there.bytes
    if there is None and here == NO_UUID:
        there = here
    if path.endswith(".records") and there is not None:
        there = len(there)
    return "" if here == there else f"{path}: {here!r} is {there!r} there"


# ---------------------------------------------------------------------------- what is bounded


def test_a_claimed_array_takes_nothing() -> None:
    claim = b"\xff\xff\xff\xff\x0f"
    body = b"\x00" * 13 + claim + b"\x00" * 40
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="items"):
            decode(KafkaFetchRequest, 12, view(body))
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_message_has_so_many_items_and_no_more() -> None:
    count = ITEMS_MAX + 1
    body = count.to_bytes(4, "big") + b"\x00\x00" * count
    with pytest.raises(RemoteProtocolError, match=f"more than {ITEMS_MAX} items"):
        decode(KafkaMetadataRequest, 0, view(body))


@pytest.mark.parametrize(
    ("body", "match"),
    [
        (b"", "cut off"),
        (b"\x00\x05abc", "5 bytes, 3 are left"),
        (b"\xff\xff", "a length of -1"),
        (b"\xff\xfe", "a length of -2"),
        (b"\x00\x02\xff\xff" + bytes(6), "no UTF-8"),
    ],
)
def test_what_does_not_hold_is_refused(body: bytes, match: str) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        decode(KafkaHeartbeatRequest, 0, view(body))


def test_what_stands_behind_a_message_is_not_looked_at() -> None:
    body = b"\x00\x01g" + bytes(4) + b"\x00\x01m" + b"more"
    assert decode(KafkaHeartbeatRequest, 0, view(body)) == KafkaHeartbeatRequest("g", 0, "m")


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="five bytes"):
        read_varint(view(b"\xff\xff\xff\xff\xff\x01"), 0)


@given(value=st.integers(0, 2**32 - 1))
def test_varints(value: int) -> None:
    data = write_varint(value)
    assert read_varint(view(data), 0) == (value, len(data))


def test_unknown_tags_are_skipped_within_their_bytes() -> None:
    data = b"\x02\x07\x03abc\x09\x00" + b"rest"
    assert skip_tags(view(data), 0) == len(data) - 4
    with pytest.raises(RemoteProtocolError, match="200 bytes"):
        skip_tags(view(b"\x01\x07\xc8\x01a"), 0)
    hello = KafkaApiVersionsRequest("probe", "1")
    plainly = encoded(hello, 3)
    assert plainly[-1:] == b"\x00"
    assert decode(KafkaApiVersionsRequest, 3, view(plainly[:-1] + b"\x01\x63\x02ab")) == hello


def test_a_known_tag_fills_its_bytes() -> None:
    answer = KafkaApiVersionsResponse(finalized_features_epoch=7)
    data = encoded(answer, 3)
    assert b"\x01\x08" + (7).to_bytes(8, "big") in data
    broken = data.replace(b"\x01\x08" + (7).to_bytes(8, "big"), b"\x01\x09" + bytes(9))
    with pytest.raises(RemoteProtocolError, match="does not fill"):
        decode(KafkaApiVersionsResponse, 3, view(broken))


def test_a_version_that_the_schema_does_not_have() -> None:
    with pytest.raises(LocalProtocolError, match="no version 2, but 3 to 13"):
        encode(KafkaProduceRequest(), 2)


# ---------------------------------------------------------------------------- what is written


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="group_id: it may not be None"):
        encode(KafkaHeartbeatRequest(group_id=None), 0)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="KafkaHeartbeatRequest v0"):
        encode(KafkaHeartbeatRequest(generation_id=2**31), 0)
    with pytest.raises(LocalProtocolError, match="this version does not have group_instance_id"):
        encode(KafkaJoinGroupRequest(group_instance_id="static"), 4)


def test_what_may_be_left_out_is() -> None:
    assert encoded(KafkaJoinGroupRequest(reason="upgrade"), 7) == encoded(
        KafkaJoinGroupRequest(), 7
    )


def test_a_tag_is_written_unless_it_is_the_default() -> None:
    part = KafkaFetchResponsePartitionData()
    topic = KafkaFetchResponseFetchableTopicResponse("orders", partitions=[part])
    without = encoded(KafkaFetchResponse(responses=[topic]), 12)
    part.diverging_epoch = KafkaFetchResponseEpochEndOffset(3, 14)
    answer = KafkaFetchResponse(responses=[topic])
    assert len(encoded(answer, 12)) == len(without) + 2 + 4 + 8 + 1
    assert decode(KafkaFetchResponse, 12, view(encoded(answer, 12))) == answer


def test_records_go_out_as_they_are() -> None:
    parts = [
        KafkaFetchResponsePartitionData(index, records=Span(10 * index, 10)) for index in range(3)
    ]
    topic = KafkaFetchResponseFetchableTopicResponse("orders", partitions=parts)
    first, second = b"0123456789", b"abcdefghijABCDEFGHIJ"
    buffers = encode(KafkaFetchResponse(responses=[topic]), 11, [first, second])
    assert [bytes(each) for each in buffers if len(each) == 10] == [
        first, second[:10], second[10:],
    ]  # fmt: skip
    assert any(each is first for each in buffers)
    back = decode(KafkaFetchResponse, 11, view(b"".join(bytes(each) for each in buffers)))
    spans = [part.records for part in back.responses[0].partitions]
    data = b"".join(bytes(each) for each in buffers)
    assert [bytes(span.of(memoryview(data))) for span in spans if span] == [
        first, second[:10], second[10:],
    ]  # fmt: skip


def test_a_payload_fills_its_spans() -> None:
    part = KafkaFetchResponsePartitionData(records=Span(0, 10))
    topic = KafkaFetchResponseFetchableTopicResponse("orders", partitions=[part])
    answer = KafkaFetchResponse(responses=[topic])
    with pytest.raises(LocalProtocolError, match="4 bytes of the payload are missing"):
        encode(answer, 11, [b"012345"])
    with pytest.raises(LocalProtocolError, match="nothing accounts"):
        encode(answer, 11, [b"0123456789", b"x"])


# ---------------------------------------------------------------------------- fuzz


@pytest.mark.parametrize("case", CASES, ids=name_of)
@FEW
@given(data=st.data())
def test_changed_bytes_give_a_message_or_are_refused(
    case: tuple[type[KafkaMessage], int], data: st.DataObject
) -> None:
    cls, version = case
    original = encoded(data.draw(kafka_messages(cls, version)), version)
    changed = view(data.draw(mutated(original)))
    try:
        message = decode(cls, version, changed)
    except RemoteProtocolError:
        return
    assert type(message) is cls


# ---- plan.py: what a class is in one version


def test_the_smallest_of_each_message_is_as_small_as_its_plan_says() -> None:
    for cls, version in CASES:
        smallest = len(encoded(cls(), version))
        assert plan_of(cls, version).bytes_min <= smallest, (cls, version)


# ---- declaration.py: fields and their versions


def test_requests_know_their_answers() -> None:
    requests = [cls for cls, _ in CASES if issubclass(cls, KafkaRequest)]
    for cls in requests:
        assert cls.response.__name__ == cls.__name__.replace("Request", "Response")
        assert cls.response.versions[1] == cls.versions[1]
