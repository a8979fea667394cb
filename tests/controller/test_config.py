"""The controller's settings."""

from __future__ import annotations

import pytest

from oncelog_controller.config import ControllerConfig
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.topic_config import parse_topic_config


def test_topics_inherit_the_brokers_settings() -> None:
    config = ControllerConfig(topic_defaults={"retention.ms": "5", "min_insync_replicas": "2"})
    settings = parse_topic_config({}, config.defaults())
    assert (settings.retention_ms, settings.min_insync_replicas) == (5, 2)
    assert not settings.unclean_leader_election_enable


def test_the_most_exact_setting_wins() -> None:
    config = ControllerConfig(
        unclean_leader_election_enable=True,
        topic_defaults={"unclean.leader.election.enable": "false"},
    )
    assert not parse_topic_config({}, config.defaults()).unclean_leader_election_enable
    loose = ControllerConfig(unclean_leader_election_enable=True)
    assert parse_topic_config({}, loose.defaults()).unclean_leader_election_enable


def test_unknown_defaults_are_refused() -> None:
    with pytest.raises(InvalidConfigError):
        ControllerConfig(topic_defaults={"nope": "1"}).defaults()
