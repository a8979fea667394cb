"""Fetch is spoken with peers of version 0, which know of no lanes and of one batch format."""

from __future__ import annotations

from oncelog_protocol import schema
from oncelog_protocol.messages.fetch import (
    COLUMNS_FORMAT,
    NOT_KNOWN,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC, MAGIC
from oncelog_protocol.types import FetchLane

CATCHING_UP = FetchRequest(2, 7, 0, 1, 1024, 0, 0, [], lane=FetchLane.CATCH_UP.value, formats=3)
FAR = FetchResponse(0, [FetchTopicResponse("t", [FetchPartitionResponse(0, bytes_left=99)])])


def test_lane_formats_and_what_is_left_travel_in_version_1() -> None:
    assert schema.decode(FetchRequest, schema.encode(CATCHING_UP, 1), 1) == CATCHING_UP
    assert schema.decode(FetchResponse, schema.encode(FAR, 1), 1) == FAR


def test_a_reader_of_version_0_is_on_the_main_lane_and_knows_one_format() -> None:
    asked = schema.decode(FetchRequest, schema.encode(CATCHING_UP, 0), 0)
    assert (asked.lane, asked.formats) == (FetchLane.MAIN, COLUMNS_FORMAT)


def test_a_leader_of_version_0_does_not_say_how_much_is_left() -> None:
    heard = schema.decode(FetchResponse, schema.encode(FAR, 0), 0)
    assert heard.topics[0].partitions[0].bytes_left == NOT_KNOWN


def test_each_magic_has_a_bit_of_its_own() -> None:
    assert 1 << (MAGIC - 1) == COLUMNS_FORMAT
    assert 1 << (KAFKA_MAGIC - 1) == 2
