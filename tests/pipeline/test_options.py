"""These tests check the source's options together."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pyspark_oncelog.option_values import OffsetPoint, OptionError
from pyspark_oncelog.options import (
    NAMES,
    REFUSED,
    SourceOptions,
    find_bootstrap,
    names_a_source,
)

BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}


def parse(streaming: bool | None = None, /, **options: str) -> SourceOptions:
    return SourceOptions.parse({**BASE, **options}, streaming=streaming)


def refused(options: dict[str, str], streaming: bool | None = None) -> str:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse(options, streaming=streaming)
    return str(caught.value)


def test_defaults_are_sparks() -> None:
    options = parse()
    assert options.bootstrap_servers == "a:1"
    assert options.subscribe == ("orders",)
    assert options.starting is None
    assert options.ending == OffsetPoint("latest")
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation_level == "read_committed"
    assert (options.key_format, options.value_format) == ("binary", "binary")
    assert options.max_trigger_delay_ms == 15 * 60 * 1000


def test_options_travel() -> None:
    options = parse(startingOffsets='{"orders": {"0": 5}}')
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("name", "text", "attribute", "value"),
    [
        ("maxOffsetsPerTrigger", "100", "max_offsets_per_trigger", 100),
        ("minOffsetsPerTrigger", "10", "min_offsets_per_trigger", 10),
        ("maxTriggerDelay", "5s", "max_trigger_delay_ms", 5_000),
        ("minPartitions", "8", "min_partitions", 8),
        ("maxRecordsPerPartition", "9", "max_records_per_partition", 9),
        ("failOnDataLoss", "false", "fail_on_data_loss", False),
        ("includeHeaders", "true", "include_headers", True),
        ("groupId", "billing", "group_id", "billing"),
        ("isolationLevel", "read_uncommitted", "isolation_level", "read_uncommitted"),
        ("kafka.isolation.level", "read_uncommitted", "isolation_level", "read_uncommitted"),
        ("oncelog.max.partition.fetch.bytes", "77", "fetch_bytes", 77),
        ("valueFormat", "string", "value_format", "string"),
        ("decodeMode", "FAILFAST", "decode_mode", "failfast"),
        ("kafkaConsumer.pollTimeoutMs", "512", "poll_timeout_ms", 512),
        ("driverTimeoutMs", "700", "driver_timeout_ms", 700),
        ("latestOffsetWaitMs", "0", "latest_offset_wait_ms", 0),
        ("recordsPerArrowBatch", "50", "records_per_arrow_batch", 50),
        ("startingTimestamp", "5", "starting", OffsetPoint("timestamp", timestamp_ms=5)),
        ("endingTimestamp", "6", "ending", OffsetPoint("timestamp", timestamp_ms=6)),
        ("startingOffsetsByTimestampStrategy", "latest", "by_timestamp_strategy", "latest"),
    ],
)
def test_each_option(name: str, text: str, attribute: str, value: Any) -> None:
    assert getattr(parse(**{name: text}), attribute) == value
    assert getattr(parse(**{name.lower(): text}), attribute) == value


def test_topics_are_named_in_one_way() -> None:
    base = {"bootstrap.servers": "a:1"}
    assert SourceOptions.parse(base | {"assign": '{"a": [1]}'}).assign == {"a": (1,)}
    assert SourceOptions.parse(base | {"subscribePattern": "a.*"}).subscribe_pattern == "a.*"
    assert "none is given" in refused(base)
    assert "subscribe and assign are given" in refused(base | {"subscribe": "a", "assign": "{}"})
    assert names_a_source({"Subscribe": "a"})
    assert not names_a_source({"topic": "a"})


def test_brokers_are_named_once() -> None:
    for name in ("kafka.bootstrap.servers", "oncelog.bootstrap.servers", "bootstrap.servers"):
        assert find_bootstrap({name.upper(): " a:1 "}) == "a:1"
    assert find_bootstrap({"bootstrap.servers": "a:1", "kafka.bootstrap.servers": "a:1"}) == "a:1"
    with pytest.raises(OptionError, match="given twice"):
        find_bootstrap({"bootstrap.servers": "a:1", "kafka.bootstrap.servers": "b:1"})
    for nothing in ({}, {"bootstrap.servers": " "}):
        with pytest.raises(OptionError, match=r"oncelog\.bootstrap\.servers is missing"):
            find_bootstrap(nothing)


@pytest.mark.parametrize("bare", sorted(REFUSED))
@pytest.mark.parametrize("prefix", ["kafka.", "oncelog.", ""])
def test_what_would_break_exactly_once_is_refused_with_a_remedy(prefix: str, bare: str) -> None:
    told = refused(BASE | {prefix + bare: "x"})
    assert told.startswith(prefix + bare)
    assert REFUSED[bare] in told


def test_a_misspelt_option_is_refused() -> None:
    assert "did you mean maxOffsetsPerTrigger?" in refused(BASE | {"maxOffsetPerTrigger": "5"})
    assert "did you mean startingOffsets?" in refused(BASE | {"startingOffset": "earliest"})


def test_options_of_others_are_left_alone() -> None:
    """They are the sink's, the table's, and those of the client that change nothing here."""
    others = {"topic": "x", "path": "y", "checkpointLocation": "z", "kafka.client.id": "me"}
    assert SourceOptions.parse(BASE | others) == parse()


def test_a_place_is_said_in_one_way() -> None:
    told = refused(BASE | {"startingOffsets": "earliest", "startingTimestamp": "5"})
    assert "startingOffsets and startingTimestamp: give one of them" in told
    told = refused(BASE | {"isolationLevel": "read_committed", "kafka.isolation.level": "x"})
    assert "kafka.isolation.level" in told


def test_what_a_stream_may_not_be_told() -> None:
    for name, text in (
        ("endingOffsets", "latest"),
        ("endingTimestamp", "5"),
        ("endingOffsetsByTimestamp", '{"orders": {"0": 5}}'),
    ):
        assert "availableNow" in refused(BASE | {name: text}, streaming=True)
        parse(False, **{name: text})
    parse(True, startingOffsets="latest")


def test_what_a_batch_query_may_not_be_told() -> None:
    assert "would find nothing" in refused(BASE | {"startingOffsets": "latest"}, streaming=False)
    assert "would find nothing" in refused(BASE | {"endingOffsets": "earliest"}, streaming=False)
    told = refused(BASE | {"startingOffsets": '{"orders": {"0": -1}}'}, streaming=False)
    assert "latest (-1) makes no sense" in told
    told = refused(BASE | {"endingOffsets": '{"orders": {"0": -2}}'}, streaming=False)
    assert "earliest (-2) makes no sense" in told


def test_json_and_its_schema_go_together() -> None:
    assert parse(valueFormat="json", valueSchema="a INT").value_schema == "a INT"
    assert "valueFormat=json and valueSchema=''" in refused(BASE | {"valueFormat": "json"})
    assert "keySchema='a INT'" in refused(BASE | {"keySchema": "a INT"})


def test_limits_agree() -> None:
    told = refused(BASE | {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"})
    assert "minOffsetsPerTrigger=5: is above" in told


def test_the_group_of_a_query() -> None:
    named = parse().group_id
    assert named.startswith("spark-oncelog-")
    assert parse(startingOffsets="earliest").group_id == named
    assert SourceOptions.parse(BASE | {"subscribe": "other"}).group_id != named
    assert parse(groupIdPrefix="etl").group_id.startswith("etl-")
    assert parse(publishProgress="false").group_id == ""
    assert "groupId is empty" in refused(BASE | {"groupId": " "})


def test_where_a_beginning_depends_on_the_moment() -> None:
    for point in ("latest", '{"orders": {"0": 5, "1": -1}}'):
        assert parse(startingOffsets=point).begins_at_a_moment
    assert parse().begins_at_a_moment
    assert parse(startingTimestamp="5").begins_at_a_moment
    for point in ("earliest", '{"orders": {"0": 5, "1": -2}}'):
        assert not parse(startingOffsets=point).begins_at_a_moment


def test_names_are_written_as_in_the_guide() -> None:
    assert all(key == name.lower() for key, name in NAMES.items())
    assert "maxOffsetsPerTrigger" in NAMES.values()


def test_a_json_schema_is_read_when_it_is_given() -> None:
    """Spark would point into the schema of all columns, which nobody has written."""
    given = {"bootstrap.servers": "a:1", "subscribe": "t", "keyFormat": "json"}
    with pytest.raises(OptionError, match=r"keySchema: INTT is no type\n  a INT, b INTT\n {11}\^"):
        SourceOptions.parse({**given, "keySchema": "a INT, b INTT"})
