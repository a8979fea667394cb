"""These checks of topic requests are not reached by the tables of test_topic_requests."""

from __future__ import annotations

import pytest

from oncelog_controller import request_checks
from oncelog_controller.request_checks import (
    altered,
    check_assignment,
    check_name,
    check_new_name,
    check_once,
    check_partition_count,
    check_settings,
    refuse_twice,
    sizes,
)
from oncelog_controller.state import ClusterState
from oncelog_protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    TopicAlreadyExistsError,
)
from oncelog_protocol.messages.admin import ConfigEntry, CreatableTopic
from support.controller_driver import registration
from support.room_settings import controller_settings


def test_names() -> None:
    check_name("a.b_c-1", internal=False)
    check_name("__consumer_offsets", internal=True)
    check_new_name("ab", ["a.b", "a_b"], internal=False)
    with pytest.raises(InvalidTopicError, match="legal"):
        check_name("a b", internal=True)
    with pytest.raises(InvalidTopicError, match="own"):
        check_name("__transaction_state", internal=False)
    with pytest.raises(TopicAlreadyExistsError):
        check_new_name("a", ["a"], internal=False)
    with pytest.raises(InvalidTopicError, match="collides"):
        check_new_name("a.b", ["a_b"], internal=False)


def test_items_named_twice() -> None:
    assert check_once(["a", "b", "a", "c", "a"]) == {"a"}
    refuse_twice("b", {"a"})
    with pytest.raises(InvalidRequestError):
        refuse_twice("a", {"a"})


def test_sizes() -> None:
    config = controller_settings(num_partitions=6, default_replication_factor=2)
    assert sizes(CreatableTopic("t", -1, -1), config, 3) == (6, 2)
    assert sizes(CreatableTopic("t", 4, 3), config, 3) == (4, 3)
    assert sizes(CreatableTopic("t", -1, -1, [[1, 2], [2, 3]]), config, 3) == (2, 2)
    with pytest.raises(InvalidReplicationFactorError, match="1 to 1"):
        sizes(CreatableTopic("t", 1, -1), config, 1)
    with pytest.raises(InvalidRequestError):
        sizes(CreatableTopic("t", 1, -1, [[1]]), config, 3)


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_partition_counts(count: int) -> None:
    check_partition_count(10_000)
    with pytest.raises(InvalidPartitionsError):
        check_partition_count(count)


def test_assignments() -> None:
    cluster = ClusterState(1, 1, 1, brokers={b: registration(b, b) for b in (1, 2)})
    check_assignment([[1, 2], [2, 1]], cluster)
    wrong: list[list[list[int]]] = [[[]], [[1, 1]], [[3]], [[1], [1, 2]]]
    for bad in wrong:
        with pytest.raises(InvalidReplicaAssignmentError, match="entry"):
            check_assignment(bad, cluster)
    with pytest.raises(InvalidReplicaAssignmentError, match="not 2"):
        check_assignment([[1]], cluster, replication_factor=2)


def test_settings_are_altered_key_by_key() -> None:
    before = {"retention_ms": "1", "segment_ms": "2"}
    entries = [ConfigEntry("retention.ms", None), ConfigEntry("segment_ms", "3")]
    assert altered(before, entries) == {"segment_ms": "3"}
    assert before == {"retention_ms": "1", "segment_ms": "2"}
    with pytest.raises(InvalidConfigError, match="more than once"):
        altered({}, [ConfigEntry("segment_ms", "1"), ConfigEntry("segment.ms", "1")])
    with pytest.raises(InvalidConfigError, match="control"):
        altered({}, [ConfigEntry("segment_ms", "1\r\n")])
    with pytest.raises(InvalidConfigError):
        altered({}, [ConfigEntry("nope", None)])


def test_min_isr_above_the_replication_factor() -> None:
    inherited = {"min_insync_replicas": "2"}
    assert check_settings({}, inherited, 1).min_insync_replicas == 2
    assert check_settings({"min_insync_replicas": "3"}, {}, 3).min_insync_replicas == 3
    with pytest.raises(InvalidConfigError, match="replication factor 1"):
        check_settings({"min_insync_replicas": "2"}, {}, 1)


def test_settings_of_topics_that_exist_are_survived(caplog: pytest.LogCaptureFixture) -> None:
    defaults = {"retention_ms": "5"}
    assert request_checks.settled("t", {"segment_ms": "9"}, defaults).segment_ms == 9
    settings = request_checks.settled("t", {"of_a_newer_release": "9"}, defaults)
    assert settings.retention_ms == 5
    assert "topic_config_ignored topic=t " in caplog.text
