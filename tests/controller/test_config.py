"""These tests check what the controller makes of the defaults that brokers give to topics."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.topic_config import parse_topic_config
from support.room_settings import controller_settings


def test_topics_inherit_the_brokers_settings() -> None:
    config = controller_settings(topic_defaults={"retention.ms": "5", "min_insync_replicas": "2"})
    settings = parse_topic_config({}, config.defaults())
    assert (settings.retention_ms, settings.min_insync_replicas) == (5, 2)
    assert not settings.unclean_leader_election_enable


def test_the_most_exact_setting_wins() -> None:
    config = controller_settings(
        unclean_leader_election_enable=True,
        topic_defaults={"unclean.leader.election.enable": "false"},
    )
    assert not parse_topic_config({}, config.defaults()).unclean_leader_election_enable
    loose = controller_settings(unclean_leader_election_enable=True)
    assert parse_topic_config({}, loose.defaults()).unclean_leader_election_enable


def test_unknown_defaults_are_refused() -> None:
    with pytest.raises(InvalidConfigError):
        controller_settings(topic_defaults={"nope": "1"}).defaults()
