"""Messages become arrays and come back: every class, every kind of field, every way to be wrong."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import field
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import limits, schema
from oncelog_protocol.errors import LocalProtocolError, RemoteProtocolError
from oncelog_protocol.messages.replication import LeaderAndIsrPartition, UpdateMetadataRequest
from oncelog_protocol.packing import pack, unpack
from oncelog_protocol.schema import (
    Blob,
    Int8,
    Int16,
    Int32,
    Int64,
    Name,
    Shared,
    Span,
    message,
    since,
)
from support.messages import a_third, all_message_classes, message_classes, messages


@message
class Leaf:
    number: Int32
    name: Name = "leaf"


@message
class Sample:
    small: Int8
    short: Int16
    long: Int64
    plain: int
    flag: bool
    name: Name
    blob: Blob
    maybe: Name | None
    maybe_number: Int32 | None
    numbers: list[Int32]
    maybe_numbers: list[Int32] | None
    names: list[Name]
    grid: list[list[Int16]]
    holes: list[Int32 | None]
    leaf: Leaf
    maybe_leaf: Leaf | None
    leaves: list[Leaf]


@message
class Grown:
    """It gained fields in versions 1 and 2."""

    first: Int32
    second: Int32 = since(1, 7)
    third: list[Leaf] = since(2, factory=list)


@message
class Nothing:
    pass


@message
class Carrier:
    spans: list[Span] = field(default_factory=list)


def sample(**changes: Any) -> Sample:
    values: dict[str, Any] = {
        "small": -128,
        "short": 2**15 - 1,
        "long": -(2**63),
        "plain": 2**63 - 1,
        "flag": True,
        "name": "n",
        "blob": b"b",
        "maybe": None,
        "maybe_number": None,
        "numbers": [1, -2],
        "maybe_numbers": None,
        "names": ["a", ""],
        "grid": [[1], []],
        "holes": [1, None],
        "leaf": Leaf(3),
        "maybe_leaf": None,
        "leaves": [Leaf(4, "x")],
    }
    return Sample(**{**values, **changes})


def through_the_wire(message: Any, version: int = 0) -> Any:
    packed = pack(schema.encode(message, version))
    array = unpack(packed, array_count_max=limits.ARRAY_COUNT_MAX, list_count_max=10**6)
    return schema.decode(type(message), array, version)


@pytest.mark.parametrize(
    ("cls", "version"),
    [
        pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
        for cls in message_classes()
        for version in range(getattr(cls, "versions", (0, 0))[1] + 1)
    ],
)
@a_third
@given(data=st.data())
def test_every_message_survives_the_wire(cls: type, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(cls, version))
    assert through_the_wire(message, version) == message


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"maybe": "there", "maybe_number": 5, "maybe_numbers": [7], "maybe_leaf": Leaf(9)},
        {"numbers": list(range(1000))},
        {"holes": []},
    ],
)
def test_every_kind_of_field(changes: dict[str, Any]) -> None:
    assert through_the_wire(sample(**changes)) == sample(**changes)


def test_decoding_leaves_its_input_as_it_was() -> None:
    array = schema.encode(sample(), 0)
    before = repr(array)
    schema.decode(Sample, array, 0)
    assert repr(array) == before


class Colour(IntEnum):
    RED = 1


class Word(StrEnum):
    HELLO = "hello"


@pytest.mark.parametrize(
    ("field_name", "given_value", "arrives"),
    [
        ("small", Colour.RED, 1),
        ("maybe_number", Colour.RED, 1),
        ("numbers", [Colour.RED, 2], [1, 2]),
        ("numbers", (1, 2), [1, 2]),
        ("maybe_numbers", (3,), [3]),
        ("grid", ((1,), (2, 3)), [[1], [2, 3]]),
        ("blob", bytearray(b"x"), b"x"),
        ("blob", memoryview(b"x"), b"x"),
        ("name", Word.HELLO, "hello"),
        ("names", [Word.HELLO], ["hello"]),
    ],
)
def test_what_loses_nothing_is_forgiven_to_the_sender(
    field_name: str, given_value: Any, arrives: Any
) -> None:
    received = getattr(through_the_wire(sample(**{field_name: given_value})), field_name)
    assert received == arrives
    assert type(received) is type(arrives)


WRONG = [
    ("small", 128),
    ("small", -129),
    ("short", 2**15),
    ("long", 2**63),
    ("plain", 2**63),
    ("plain", -(2**63) - 1),
    ("small", True),
    ("small", 1.0),
    ("small", float("nan")),
    ("small", float("inf")),
    ("small", None),
    ("small", "1"),
    ("small", [1]),
    ("flag", 1),
    ("flag", None),
    ("name", b"n"),
    ("name", None),
    ("name", "n" * (limits.NAME_CHARS_MAX + 1)),
    ("blob", "b"),
    ("blob", b"b" * (limits.BLOB_BYTES_MAX + 1)),
    ("maybe", 5),
    ("maybe", "n" * (limits.NAME_CHARS_MAX + 1)),
    ("maybe_number", 2**31),
    ("maybe_number", False),
    ("numbers", None),
    ("numbers", "12"),
    ("numbers", [1, None]),
    ("numbers", [1, True]),
    ("numbers", [1, 2**31]),
    ("numbers", [1, [2]]),
    ("numbers", [0] * (limits.ARRAY_COUNT_MAX + 1)),
    ("names", [1]),
    ("names", [None]),
    ("names", ["n" * (limits.NAME_CHARS_MAX + 1)]),
    ("names", [""] * (limits.ARRAY_COUNT_MAX + 1)),
    ("grid", [1]),
    ("grid", [[2**15]]),
    ("grid", [None]),
    ("holes", [True]),
    ("leaf", None),
    ("leaf", 5),
    ("leaves", [None]),
    ("leaves", [5]),
]


@pytest.mark.parametrize(("field_name", "value"), WRONG)
def test_wrong_values_are_refused_when_sent(field_name: str, value: Any) -> None:
    with pytest.raises(LocalProtocolError, match=f"Sample.{field_name}|Leaf"):
        schema.encode(sample(**{field_name: value}), 0)


@pytest.mark.parametrize(("field_name", "value"), WRONG)
def test_lines_32_to_34_wrong_values_are_refused_on_arrival(field_name: str, value: Any) -> None:
    array = schema.encode(sample(), 0)
    names = [f.name for f in dataclasses.fields(Sample)]
    array[names.index(field_name)] = value
    with pytest.raises(RemoteProtocolError, match=f"Sample.{field_name}|Leaf"):
        schema.decode(Sample, array, 0)


class Huge(int):
    """It is an integer of another type that is out of range too."""


def test_an_odd_integer_out_of_range_is_refused_once() -> None:
    with pytest.raises(LocalProtocolError):
        schema.encode(sample(numbers=[Huge(2**40)]), 0)


@pytest.mark.parametrize(
    "value", [None, 5, "text", {}, (), [], [1], [1, "leaf", 3], [1, "leaf", []]]
)
def test_line_34_missing_and_extra_fields(value: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="Leaf v0: not an array of 2 fields"):
        schema.decode(Leaf, value, 0)


def test_a_field_of_a_later_version_is_absent_below_it() -> None:
    grown = Grown(1, 2, [Leaf(3)])
    assert schema.encode(grown, 0) == [1]
    assert schema.encode(grown, 1) == [1, 2]
    assert schema.decode(Grown, [1], 0) == Grown(1, 7, [])
    assert schema.decode(Grown, [1, 2], 1) == Grown(1, 2, [])
    assert through_the_wire(grown, 2) == grown
    with pytest.raises(RemoteProtocolError):
        schema.decode(Grown, [1, 2], 0)
    with pytest.raises(RemoteProtocolError):
        schema.decode(Grown, [1], 1)


@message
class Login:
    user: Name
    password: Blob = field(repr=False)


@message
class OtherLogin:
    user: Name
    password: Blob


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (Login("ann", b"secret"), True),
        (Login("ann", b"other"), False),
        (Login("bob", b"secret"), False),
        (OtherLogin("ann", b"secret"), False),
        ("ann", False),
    ],
)
def test_messages_are_equal_by_class_and_fields(other: object, equal: bool) -> None:
    login = Login("ann", b"secret")
    assert (login == other) is equal
    assert (login != other) is not equal


def test_a_message_shows_its_fields_but_for_the_secret_ones() -> None:
    assert repr(Login("ann", b"secret")) == "Login(user='ann')"
    assert repr(Leaf(7)) == "Leaf(number=7, name='leaf')"
    assert repr(Nothing()) == "Nothing()"


def test_a_message_may_change_so_it_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Leaf(7))


def test_a_message_has_slots_and_takes_no_other_attribute() -> None:
    with pytest.raises(AttributeError):
        Leaf(7).numbr = 8  # type: ignore[attr-defined]


def test_all_messages_share_their_equality() -> None:
    """A class that has its own takes 2.6 KB more of every process."""
    own = [
        cls for cls in all_message_classes() if cls.__module__.startswith("oncelog_protocol.mes")
    ]
    assert len(own) > 200
    assert {vars(cls)["__eq__"] for cls in own} == {vars(Leaf)["__eq__"]}


def test_a_message_without_fields() -> None:
    assert schema.encode(Nothing(), 0) == []
    assert schema.decode(Nothing, [], 0) == Nothing()
    with pytest.raises(RemoteProtocolError):
        schema.decode(Nothing, [1], 0)


@pytest.mark.parametrize("value", [5, "text", None, object()])
def test_only_messages_are_encoded(value: object) -> None:
    with pytest.raises(LocalProtocolError):
        schema.encode(value, 0)


@pytest.mark.parametrize(
    "value", [None, 5, [], [1], [1, 2, 3], [-1, 2], [1, -2], [1.0, 2], [True, 1]]
)
def test_what_is_no_span(value: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        schema.decode(Carrier, [[value]], 0)


@pytest.mark.parametrize("span", [Span(-1, 0), Span(0, -1), Span(typing.cast(int, 1.0), 1)])
def test_an_illegal_span_is_not_sent(span: Span) -> None:
    with pytest.raises(LocalProtocolError):
        schema.encode(Carrier([span]), 0)


def test_a_span_names_a_part_of_the_payload() -> None:
    assert bytes(Span(2, 3).of(memoryview(b"0123456"))) == b"234"


@pytest.mark.parametrize(
    ("spans", "payload_bytes"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(0, 10)], 10),
        ([(0, 4), (4, 6)], 10),
        ([(0, 2), (0, 0), (2, 8)], 10),
    ],
)
def test_spans_that_hold(spans: list[tuple[int, int]], payload_bytes: int) -> None:
    assert schema.span_fault(Carrier([Span(*s) for s in spans]), payload_bytes) == ""


@pytest.mark.parametrize(
    ("spans", "payload_bytes"),
    [
        ([(0, 11)], 10),
        ([(11, 0)], 10),
        ([(2**62, 2**62)], 10),
        ([(0, 5), (4, 2)], 10),
        ([(5, 5), (0, 5)], 10),
        ([(0, 5), (0, 5)], 10),
        ([], 1),
        ([(0, 0)], 1),
        ([(1, 9)], 10),
        ([(0, 9)], 10),
        ([(0, 4), (5, 5)], 10),
    ],
)
def test_spans_outside_the_payload_or_in_each_other_or_with_gaps(
    spans: list[tuple[int, int]], payload_bytes: int
) -> None:
    assert schema.span_fault(Carrier([Span(*s) for s in spans]), payload_bytes).startswith("span: ")


def test_a_message_without_spans_has_no_payload() -> None:
    assert schema.span_fault(sample(), 0) == ""
    assert "nothing accounts for the last 1 bytes" in schema.span_fault(sample(), 1)


def test_messages_nest_less_deep_than_the_limit() -> None:
    def depth(hint: Any) -> int:
        inner = [depth(arg) for arg in typing.get_args(hint)]
        if typing.get_origin(hint) is list:
            return 1 + max(inner)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            hints = typing.get_type_hints(hint, include_extras=True).values()
            return 1 + max((depth(h) for h in hints), default=0)
        return max(inner, default=0)

    # One more for the frame's own array.
    assert max(1 + depth(cls) for cls in message_classes()) <= limits.NESTING_DEPTH_MAX


@pytest.mark.parametrize("cls", all_message_classes(), ids=lambda cls: cls.__name__)
def test_fields_of_later_versions_come_last_and_have_defaults(cls: type) -> None:
    fields = dataclasses.fields(cls)
    versions = [f.metadata.get("since", 0) for f in fields]
    assert versions == sorted(versions)
    for f in fields:
        if f.metadata.get("since", 0):
            assert (
                f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
            )


def test_a_shared_list_is_encoded_once_and_reads_as_any_other() -> None:
    order = LeaderAndIsrPartition("t", "id", 0, 1, 2, [1], 3, [1, 2], False)
    shared = Shared([order, order])
    plain = UpdateMetadataRequest(1, 2, 3, True, [order, order], [])
    update = UpdateMetadataRequest(1, 2, 3, True, shared, [])
    for version in (0, 1, 2):
        assert pack(schema.encode(update, version)) == pack(schema.encode(plain, version))
    first, second = (schema.encode(update, 2)[4] for _ in range(2))
    assert first is second
    assert list(shared) == plain.partitions


def test_a_shared_list_is_checked_as_any_other() -> None:
    wrong = Shared([LeaderAndIsrPartition("t", "id", 2**31, 1, 2, [1], 3, [1, 2], False)])
    with pytest.raises(LocalProtocolError, match="partition"):
        schema.encode(UpdateMetadataRequest(1, 2, 3, True, wrong, []), 2)
