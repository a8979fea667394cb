"""The model: defaults, and what others make of it."""

from __future__ import annotations

from oncelog_broker.config import BrokerConfig, ListenerConfig


def test_topic_defaults_take_numbers_and_truths() -> None:
    config = BrokerConfig(
        broker_id=1,
        log_dirs=["/d"],
        min_insync_replicas=2,
        topic_defaults={"retention_ms": 5, "unclean_leader_election_enable": True},
    )
    texts = config.topic_default_texts()
    assert texts["retention_ms"] == "5"
    assert texts["unclean_leader_election_enable"] == "true"
    assert texts["min_insync_replicas"] == "2"
    assert config.listener("external") == ListenerConfig(name="external")
