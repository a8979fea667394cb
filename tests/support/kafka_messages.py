"""Messages of Kafka are drawn by chance in any version here, and told as plain values."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from oncelog_broker.kafka.wire.codec import encode
from oncelog_broker.kafka.wire.declaration import KafkaMessage
from oncelog_broker.kafka.wire.messages.consumer_protocol_assignment import (
    KafkaConsumerProtocolAssignment,
)
from oncelog_broker.kafka.wire.messages.consumer_protocol_subscription import (
    KafkaConsumerProtocolSubscription,
)
from oncelog_broker.kafka.wire.messages.table import REQUESTS
from oncelog_broker.kafka.wire.plan import FieldPlan, StructPlan, plan_of
from oncelog_protocol.schema import Span

ERROR_CODES = (0, 3, 6, 25, 87)
NUMBERS = {
    "int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1),
}  # fmt: skip
RECORDS = b"the records of one batch"


def every_version() -> list[tuple[type[KafkaMessage], int]]:
    """Return each message that is known, once for each of its versions."""
    classes: list[type[KafkaMessage]] = [KafkaConsumerProtocolSubscription]
    classes.append(KafkaConsumerProtocolAssignment)
    for request in REQUESTS.values():
        classes += (request, request.response)
    return [
        (cls, version) for cls in classes for version in range(cls.versions[0], cls.versions[1] + 1)
    ]


def name_of(each: tuple[type[KafkaMessage], int]) -> str:
    """Return how a test of one message in one version is called."""
    return f"{each[0].__name__}-{each[1]}"


def kafka_messages(cls: type[KafkaMessage], version: int) -> st.SearchStrategy[Any]:
    """Draw messages of ``cls`` that ``version`` can hold; records are ``RECORDS``, or none."""
    return _structs(plan_of(cls, version))


def encoded(message: KafkaMessage, version: int) -> bytes:
    """Return the message on the wire, with ``RECORDS`` wherever it has any."""
    return b"".join(bytes(each) for each in encode(message, version, payload_of(message)))


def payload_of(message: Any) -> list[bytes]:
    """Return the records that the spans of the message name."""
    if isinstance(message, Span):
        return [RECORDS[: message.length]] if message.length else []
    if isinstance(message, list):
        return [part for each in message for part in payload_of(each)]
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message)]
        return [part for name in names for part in payload_of(getattr(message, name))]
    return []


def plain(value: Any, plan: StructPlan) -> dict[str, Any]:
    """Return the fields that the version of ``plan`` has, by name, as plain values."""
    return {
        field.name: _plain(getattr(value, field.name), field)
        for field in plan.fields
        if field.is_present
    }


def _plain(value: Any, field: FieldPlan) -> Any:
    if isinstance(value, list):
        return [_plain(each, field.item()) for each in value]
    if field.struct is not None and value is not None:
        return plain(value, field.struct)
    return value.length if isinstance(value, Span) else value


def _structs(plan: StructPlan) -> st.SearchStrategy[Any]:
    present = {field.name: _values(field) for field in plan.fields if field.is_present}
    return st.builds(plan.cls, **present)


def _values(field: FieldPlan) -> st.SearchStrategy[Any]:
    bare = st.lists(_one(field.item()), max_size=3) if field.is_array else _one(field)
    return st.none() | bare if field.nullable or field.kind == "records" else bare


def _one(field: FieldPlan) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return _structs(field.struct)
    if field.name.endswith("error_code"):
        return st.sampled_from(ERROR_CODES)
    if field.name.endswith("_ms"):
        return st.integers(0, 2**31 - 1)
    if field.kind in NUMBERS:
        return st.integers(*NUMBERS[field.kind])
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "string": st.text(max_size=8),
        "bytes": st.binary(max_size=8),
        "uuid": st.binary(min_size=16, max_size=16),
        "float64": st.floats(allow_nan=False),
        "records": st.just(Span(0, len(RECORDS))),
    }
    return kinds[field.kind]
