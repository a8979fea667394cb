"""Topic settings follow the table row by row, and errors say why one is refused."""

from __future__ import annotations

import dataclasses

import pytest

from oncelog_protocol import limits
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.topic_config import (
    TOPIC_SETTINGS,
    TopicConfig,
    normalise_key,
    parse_topic_config,
)


def test_the_table_and_the_class_name_the_same_settings() -> None:
    assert set(TOPIC_SETTINGS) == {field.name for field in dataclasses.fields(TopicConfig)}
    assert list(TOPIC_SETTINGS) == sorted(TOPIC_SETTINGS)


@pytest.mark.parametrize("name", TOPIC_SETTINGS)
def test_every_row_is_complete_and_its_default_allowed(name: str) -> None:
    setting = TOPIC_SETTINGS[name]
    assert setting.name == name
    assert setting.documentation.endswith(".")
    assert setting.allowed
    assert normalise_key(setting.dotted) == name
    setting.check(setting.default)


def test_the_defaults() -> None:
    config = parse_topic_config({})
    assert config.cleanup_policy == {"delete"}
    assert config.compression_type == "producer"
    assert config.flush == "commit"
    assert config.index_interval_bytes == 4096
    assert config.max_message_bytes == 1048588
    assert config.message_timestamp_type == "CreateTime"
    assert config.message_timestamp_after_max_ms == 3_600_000
    assert config.message_timestamp_before_max_ms == 2**63 - 1
    assert config.min_insync_replicas == 1
    assert config.retention_bytes == -1
    assert config.retention_ms == 7 * 24 * 3_600_000
    assert config.segment_bytes == 1024**3
    assert config.segment_ms == 7 * 24 * 3_600_000
    assert config.unclean_leader_election_enable is False
    assert config.file_delete_delay_ms == 60_000
    assert config.deletes_old
    assert not config.is_compacted
    assert not config.uses_append_time


def test_an_override_goes_before_the_brokers_default_and_that_before_the_table() -> None:
    defaults = {"retention.ms": "5", "min_insync_replicas": "2"}
    config = parse_topic_config({"min.insync.replicas": "3"}, defaults)
    assert (config.retention_ms, config.min_insync_replicas) == (5, 3)


@pytest.mark.parametrize(
    ("key", "value", "parsed"),
    [
        ("cleanup.policy", "compact", frozenset({"compact"})),
        ("cleanup.policy", "compact,delete", frozenset({"compact", "delete"})),
        ("cleanup.policy", "delete, compact", frozenset({"compact", "delete"})),
        ("compression.type", "zstd", "zstd"),
        ("flush", "interval", "interval"),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("unclean.leader.election.enable", "true", True),
        ("retention.ms", "-1", -1),
        ("retention.ms", "0", 0),
        ("max.message.bytes", str(limits.BATCH_BYTES_MAX), limits.BATCH_BYTES_MAX),
        ("message_timestamp_before_max_ms", "9223372036854775807", 2**63 - 1),
    ],
)
def test_allowed_values(key: str, value: str, parsed: object) -> None:
    config = parse_topic_config({key: value})
    assert getattr(config, normalise_key(key)) == parsed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", "shred"),
        ("compression.type", "snappy"),
        ("compression.type", "ZSTD"),
        ("flush", "never"),
        ("index.interval.bytes", "-1"),
        ("max.message.bytes", "60"),
        ("max.message.bytes", str(limits.BATCH_BYTES_MAX + 1)),
        ("message.timestamp.type", "createtime"),
        ("message.timestamp.after.max.ms", "-1"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "-1"),
        ("min.insync.replicas", "1.0"),
        ("min.insync.replicas", "one"),
        ("min.insync.replicas", " 1"),
        ("min.insync.replicas", "+1"),
        ("min.insync.replicas", "1_0"),
        ("min.insync.replicas", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("min.insync.replicas", ""),
        ("min.insync.replicas", "-"),
        ("retention.bytes", "-2"),
        pytest.param("retention.ms", "-2", id="retention -2"),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "9" * 10_000),
        pytest.param("segment.bytes", "0", id="segment bytes 0"),
        ("segment.bytes", "1023"),
        ("segment.ms", "0"),
        ("unclean.leader.election.enable", "True"),
        ("unclean.leader.election.enable", "1"),
        pytest.param("retention.ms", "5\n", id="a newline"),
        pytest.param("retention.ms", "${env:HOME}", id="an expansion"),
    ],
)
def test_refused_values_name_key_value_and_what_is_allowed(key: str, value: str) -> None:
    name = normalise_key(key)
    with pytest.raises(InvalidConfigError) as caught:
        parse_topic_config({key: value})
    message = str(caught.value)
    assert name in message
    assert repr(value[:100]) in message
    assert TOPIC_SETTINGS[name].allowed in message
    assert len(message) < 400


def test_a_bad_default_of_the_broker_is_refused_too() -> None:
    with pytest.raises(InvalidConfigError, match="segment_ms"):
        parse_topic_config({}, {"segment.ms": "soon"})


@pytest.mark.parametrize("key", ["retention", "", "retention ms", "RETENTION_MS", "x" * 10_000])
def test_line_101_unknown_keys_are_refused_with_the_list_of_known_ones(key: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse_topic_config({key: "1"})
    assert "retention_ms" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_one_setting_in_two_spellings_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match="twice"):
        parse_topic_config({"retention.ms": "1", "retention_ms": "2"})


def test_settings_of_compaction() -> None:
    config = parse_topic_config({})
    assert config.min_cleanable_dirty_ratio == 0.5
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (0, 2**63 - 1)
    assert config.delete_retention_ms == 86_400_000
    for text, value in (("0", 0.0), ("1", 1.0), ("0.25", 0.25), (".5", 0.5), ("1.0", 1.0)):
        assert parse_topic_config({"min_cleanable_dirty_ratio": text}) == dataclasses.replace(
            config, min_cleanable_dirty_ratio=value
        )


@pytest.mark.parametrize("text", ["", ".", "1.1", "-0.5", "nan", "inf", "1e-1", "0_1", "٠", "0,5"])
def test_a_ratio_is_a_number_from_0_to_1(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="a number from 0 to 1"):
        parse_topic_config({"min.cleanable.dirty.ratio": text})
