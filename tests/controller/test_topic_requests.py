"""Topics are created, grown and altered; what cannot be is refused."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_controller import order_sizes, znodes
from oncelog_controller.order_sizes import entry_bytes
from oncelog_controller.store import Create
from oncelog_protocol.errors import ERRORS, NO_ERROR
from oncelog_protocol.messages import admin, moves
from oncelog_protocol.messages.replication import LeaderAndIsrRequest, UpdateMetadataRequest
from support.controller_driver import Driver
from support.room_settings import controller_settings


def name_of(code: int) -> str:
    return "NONE" if code == NO_ERROR else ERRORS[code].name


def create(driver: Driver, *topics: admin.CreatableTopic, **kwargs: Any) -> list[admin.TopicResult]:
    response = driver.ask(admin.CreateTopicsRequest(list(topics), 1000, **kwargs))
    return list(response.topics)


def entries(**configs: str | None) -> list[admin.ConfigEntry]:
    return [admin.ConfigEntry(key, value) for key, value in configs.items()]


def alter(driver: Driver, topic: str, **configs: str | None) -> admin.ConfigResourceResult:
    wish = admin.ConfigAlteration(admin.RESOURCE_TOPIC, topic, entries(**configs))
    response = driver.ask(admin.AlterConfigsRequest([wish]))
    result: admin.ConfigResourceResult = response.resources[0]
    return result


# ---------------------------------------------------------------- create


def test_a_topic_is_made_with_leaders_in_one_multi() -> None:
    driver = Driver.started(1, 2, 3)
    driver.requests.clear()
    driver.writes.clear()
    (result,) = create(driver, admin.CreatableTopic("t", 3, 2, None, entries(retention_ms="1000")))
    assert (result.error_code, result.topic_id) == (0, "id-1-0")
    assert (result.partition_count, result.replication_factor) == (3, 2)
    assert len(driver.writes) == 1
    assert znodes.decode_topic("t", driver.nodes[znodes.topic_path("t")].data) == (
        "id-1-0",
        [[1, 2], [2, 3], [3, 1]],
    )
    assert driver.state("t", 1).isr == (2, 3)
    order = next(r for b, r in driver.requests if b == 1 and isinstance(r, LeaderAndIsrRequest))
    assert [p.partition for p in order.partitions] == [0, 2]
    assert all(p.is_new for p in order.partitions)
    assert order.configs[0].keys == ["retention_ms"]
    told = [b for b, r in driver.requests if isinstance(r, UpdateMetadataRequest)]
    assert told == [1, 2, 3]


def test_the_start_rotates_from_topic_to_topic() -> None:
    driver = Driver.started(1, 2, 3)
    for name in ("a", "b", "c"):
        create(driver, admin.CreatableTopic(name, 1, 1))
    assert [driver.state(name).leader for name in ("a", "b", "c")] == [1, 2, 3]


def test_defaults_fill_in() -> None:
    config = controller_settings(num_partitions=4, default_replication_factor=2)
    driver = Driver.started(1, 2, config=config)
    (result,) = create(driver, admin.CreatableTopic("t", -1, -1))
    assert (result.partition_count, result.replication_factor) == (4, 2)


def test_a_large_topic_takes_several_multis() -> None:
    driver = Driver.started(1, 2, 3)
    driver.writes.clear()
    create(driver, admin.CreatableTopic("t", 500, 3))
    assert len(driver.writes) == 1 + 4
    assert all(driver.partition("t", p).leader > 0 for p in range(500))


def test_a_controller_that_died_between_the_multis_is_followed_by_one_that_finishes() -> None:
    driver = Driver.started(1, 2, 3)
    create(driver, admin.CreatableTopic("t", 500, 3))
    for index in range(100, 500):
        del driver.nodes[znodes.state_path("t", index)]
        del driver.nodes[znodes.partition_path("t", index)]
    heir = driver.take_over()
    assert all(heir.state("t", p).leader > 0 for p in range(500))


def test_several_topics_have_a_result_each() -> None:
    driver = Driver.started(1)
    results = create(
        driver,
        admin.CreatableTopic("a", 1, 1),
        admin.CreatableTopic("b", 0, 1),
        admin.CreatableTopic("c", 1, 1),
        admin.CreatableTopic("c", 2, 1),
    )
    names = [name_of(r.error_code) for r in results]
    assert names == ["NONE", "INVALID_PARTITIONS", "INVALID_REQUEST", "INVALID_REQUEST"]
    assert sorted(driver.machine.cluster.topics) == ["a"]
    assert results[1].error_message is not None
    assert "10000" in results[1].error_message


def test_validate_only_writes_nothing() -> None:
    driver = Driver.started(1)
    driver.writes.clear()
    (result,) = create(driver, admin.CreatableTopic("t", 2, 1), validate_only=True)
    assert (result.error_code, result.partition_count, result.topic_id) == (0, 2, "")
    assert not driver.writes


def test_the_answer_waits_for_the_leaders() -> None:
    driver = Driver.started(1, 2, auto_ack=False)
    driver.requests.clear()
    request_id = driver.ask_later(
        admin.CreateTopicsRequest([admin.CreatableTopic("t", 2, 2)], timeout_ms=1000)
    )
    first, second = (r for _, r in driver.requests if isinstance(r, LeaderAndIsrRequest))
    assert request_id not in driver.replies
    driver.handle(driver.answer(1, first))
    assert request_id not in driver.replies, "broker 2 leads partition 1"
    driver.handle(driver.answer(2, second))
    assert driver.replies[request_id].topics[0].error_code == 0


def test_the_answer_does_not_wait_for_ever() -> None:
    driver = Driver.started(1, auto_ack=False)
    request_id = driver.ask_later(
        admin.CreateTopicsRequest([admin.CreatableTopic("t", 1, 1)], timeout_ms=500)
    )
    driver.pass_time(0.4)
    assert request_id not in driver.replies
    driver.pass_time(0.2)
    result = driver.replies[request_id].topics[0]
    assert name_of(result.error_code) == "REQUEST_TIMED_OUT"
    assert driver.state("t").leader == 1, "the topic is made all the same"


def test_the_answer_waits_for_the_new_leader_when_the_first_one_died() -> None:
    driver = Driver.started(1, 2, auto_ack=False)
    request_id = driver.ask_later(
        admin.CreateTopicsRequest(
            [admin.CreatableTopic("t", -1, -1, [[1, 2]])],
            timeout_ms=5000,
        )
    )
    driver.suspect(1)
    orders = [r for b, r in driver.requests if b == 2 and isinstance(r, LeaderAndIsrRequest)]
    driver.handle(driver.answer(2, orders[-1]))
    assert driver.replies[request_id].topics[0].error_code == 0


def test_a_topic_deleted_while_its_creation_waits() -> None:
    driver = Driver.started(1, auto_ack=False)
    request_id = driver.ask_later(
        admin.CreateTopicsRequest([admin.CreatableTopic("t", 1, 1)], 60_000)
    )
    driver.ask(admin.DeleteTopicsRequest(["t"], 1000))
    result = driver.replies[request_id].topics[0]
    assert name_of(result.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_replicas_are_not_put_on_brokers_that_refuse_or_leave_if_others_are_enough() -> None:
    driver = Driver.started(1, 2, 3)
    driver.suspect(2)
    create(driver, admin.CreatableTopic("t", 4, 2))
    assert {b for p in range(4) for b in driver.partition("t", p).replicas} == {1, 3}
    create(driver, admin.CreatableTopic("u", 1, 3))
    assert set(driver.state("u").isr) == {1, 3}


def test_a_config_node_left_by_hand_is_overwritten() -> None:
    driver = Driver.started(1)
    driver._apply([Create(znodes.config_path("t"), znodes.encode_config({"retention_ms": "7"}))])
    heir = driver.take_over()
    create(heir, admin.CreatableTopic("t", 1, 1))
    assert znodes.decode_config("t", heir.nodes[znodes.config_path("t")].data) == {}
    assert heir.machine.cluster.topics["t"].config_version == 1
    assert alter(heir, "t", retention_ms="8").error_code == 0


# ---------------------------------------------------------------- what is refused

LINE_100 = [
    ("partitions 0", admin.CreatableTopic("x", 0, 1), "INVALID_PARTITIONS"),
    ("partitions -2", admin.CreatableTopic("x", -2, 1), "INVALID_PARTITIONS"),
    ("partitions 10^6", admin.CreatableTopic("x", 10**6, 1), "INVALID_PARTITIONS"),
    ("partitions 2^31-1", admin.CreatableTopic("x", 2**31 - 1, 1), "INVALID_PARTITIONS"),
    ("RF 0", admin.CreatableTopic("x", 1, 0), "INVALID_REPLICATION_FACTOR"),
    ("RF -2", admin.CreatableTopic("x", 1, -2), "INVALID_REPLICATION_FACTOR"),
    ("RF above brokers", admin.CreatableTopic("x", 1, 4), "INVALID_REPLICATION_FACTOR"),
    ("RF 32767", admin.CreatableTopic("x", 1, 32767), "INVALID_REPLICATION_FACTOR"),
    ("duplicate broker", admin.CreatableTopic("x", -1, -1, [[1, 1]]), "INVALID_REPLICA_ASSIGNMENT"),
    ("unknown broker", admin.CreatableTopic("x", -1, -1, [[1, 9]]), "INVALID_REPLICA_ASSIGNMENT"),
    ("negative broker", admin.CreatableTopic("x", -1, -1, [[-1]]), "INVALID_REPLICA_ASSIGNMENT"),
    ("uneven", admin.CreatableTopic("x", -1, -1, [[1, 2], [3]]), "INVALID_REPLICA_ASSIGNMENT"),
    ("an empty entry", admin.CreatableTopic("x", -1, -1, [[1], []]), "INVALID_REPLICA_ASSIGNMENT"),
    ("an empty first entry", admin.CreatableTopic("x", -1, -1, [[]]), "INVALID_REPLICA_ASSIGNMENT"),
    ("no entries", admin.CreatableTopic("x", -1, -1, []), "INVALID_PARTITIONS"),
    ("assignment and count", admin.CreatableTopic("x", 2, -1, [[1], [2]]), "INVALID_REQUEST"),
    ("assignment and RF", admin.CreatableTopic("x", -1, 1, [[1]]), "INVALID_REQUEST"),
]

NAMES = [
    ("empty", "", "INVALID_TOPIC"),
    ("dot", ".", "INVALID_TOPIC"),
    ("dots", "..", "INVALID_TOPIC"),
    ("a path", "../../etc/passwd", "INVALID_TOPIC"),
    ("absolute", "/tmp/x", "INVALID_TOPIC"),
    ("a slash", "a/b", "INVALID_TOPIC"),
    ("a backslash", "a\\b", "INVALID_TOPIC"),
    ("NUL", "a\0b", "INVALID_TOPIC"),
    ("a newline at the end", "a\n", "INVALID_TOPIC"),
    ("emoji", "a\U0001f600", "INVALID_TOPIC"),
    ("right to left", "a\u202eb", "INVALID_TOPIC"),
    ("250 characters", "a" * 250, "INVALID_TOPIC"),
    ("10^6 characters", "a" * 10**6, "INVALID_TOPIC"),
    ("there already", "old.one", "TOPIC_ALREADY_EXISTS"),
    ("collides but for the dot", "old_one", "INVALID_TOPIC"),
    ("internal", "__consumer_offsets", "INVALID_TOPIC"),
    ("internal too", "__transaction_state", "INVALID_TOPIC"),
]


@pytest.mark.parametrize(("label", "new", "error"), LINE_100, ids=[row[0] for row in LINE_100])
def test_bad_topics_are_refused_and_nothing_is_written(
    label: str, new: admin.CreatableTopic, error: str
) -> None:
    driver = Driver.started(1, 2, 3)
    driver.writes.clear()
    (result,) = create(driver, new)
    assert name_of(result.error_code) == error, label
    assert result.error_message
    assert not driver.writes
    (good,) = create(driver, admin.CreatableTopic("canary", 1, 1))
    assert good.error_code == 0


@pytest.mark.parametrize(("label", "topic", "error"), NAMES, ids=[row[0] for row in NAMES])
def test_bad_names_are_refused_and_nothing_is_written(label: str, topic: str, error: str) -> None:
    driver = Driver.started(1)
    create(driver, admin.CreatableTopic("old.one", 1, 1))
    driver.writes.clear()
    (result,) = create(driver, admin.CreatableTopic(topic, 1, 1))
    assert name_of(result.error_code) == error, label
    assert not driver.writes


def test_the_longest_name_is_legal() -> None:
    driver = Driver.started(1)
    (result,) = create(driver, admin.CreatableTopic("a" * 249, 1, 1))
    assert result.error_code == 0


def test_names_of_one_request_collide_too() -> None:
    driver = Driver.started(1)
    results = create(driver, admin.CreatableTopic("a.b", 1, 1), admin.CreatableTopic("a_b", 1, 1))
    assert [name_of(r.error_code) for r in results] == ["NONE", "INVALID_TOPIC"]


def test_the_cluster_itself_may_make_its_own_topics() -> None:
    driver = Driver.started(1)
    new = admin.CreatableTopic("__consumer_offsets", 1, 1)
    response = driver.ask(admin.CreateTopicsRequest([new], 1000), internal=True)
    assert response.topics[0].error_code == 0


# ---------------------------------------------------------------- what is refused

LINE_101 = [
    ("unknown key", "no_such_key", "1"),
    ("a broker's key", "log_dirs", "/etc"),
    ("wrong type", "retention_ms", "soon"),
    ("a fraction", "segment_bytes", "1.5e9"),
    ("min ISR 0", "min_insync_replicas", "0"),
    ("min ISR above RF", "min_insync_replicas", "3"),
    ("segment bytes 0", "segment_bytes", "0"),
    ("retention -2", "retention_ms", "-2"),
    ("retention bytes -2", "retention_bytes", "-2"),
    ("a newline", "cleanup_policy", "delete\nretention_ms=1"),
    ("a newline at the end", "retention_ms", "1000\n"),
    ("an environment variable", "retention_ms", "${env:HOME}"),
    ("a path", "cleanup_policy", "../../etc/passwd"),
    ("an unknown choice", "flush", "never"),
    ("a flag that is none", "unclean_leader_election_enable", "maybe"),
    ("an empty value", "segment_ms", ""),
    ("too large a batch", "max_message_bytes", str(2**31 - 1)),
]


@pytest.mark.parametrize(("label", "key", "value"), LINE_101, ids=[row[0] for row in LINE_101])
def test_bad_settings_are_refused_and_nothing_is_written(label: str, key: str, value: str) -> None:
    driver = Driver.started(1, 2)
    create(driver, admin.CreatableTopic("t", 1, 2))
    driver.writes.clear()
    (made,) = create(driver, admin.CreatableTopic("x", 1, 2, None, [admin.ConfigEntry(key, value)]))
    assert name_of(made.error_code) == "INVALID_CONFIG", label
    altered = alter(driver, "t", **{key: value})
    assert name_of(altered.error_code) == "INVALID_CONFIG", label
    assert altered.error_message
    assert not driver.writes
    assert alter(driver, "t", retention_ms="5000").error_code == 0


# ---------------------------------------------------------------- alter


def test_settings_change_key_by_key_and_every_broker_hears() -> None:
    driver = Driver.started(1, 2)
    create(driver, admin.CreatableTopic("t", 1, 1, None, entries(retention_ms="1000")))
    driver.requests.clear()
    assert alter(driver, "t", **{"segment.bytes": "2048"}).error_code == 0
    topic = driver.machine.cluster.topics["t"]
    assert topic.overrides == {"retention_ms": "1000", "segment_bytes": "2048"}
    assert topic.settings.segment_bytes == 2048
    told = dict(driver.requests)
    assert sorted(told) == [1, 2]
    assert told[1].configs[0].version == 1
    assert told[1].configs[0].keys == ["retention_ms", "segment_bytes"]
    assert alter(driver, "t", retention_ms=None).error_code == 0
    assert driver.take_over().machine.cluster.topics["t"].overrides == {"segment_bytes": "2048"}


def test_a_change_that_changes_nothing_writes_nothing() -> None:
    driver = Driver.started(1)
    create(driver, admin.CreatableTopic("t", 1, 1, None, entries(retention_ms="1000")))
    driver.writes.clear()
    assert alter(driver, "t", retention_ms="1000").error_code == 0
    assert not driver.writes


def test_allowing_unclean_elections_elects_at_once() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.lose(2)
    driver.join(2)
    driver.lose(1)
    assert driver.state("t").leader == -1
    assert alter(driver, "t", unclean_leader_election_enable="true").error_code == 0
    assert (driver.state("t").leader, driver.state("t").isr) == (2, (2,))


def test_other_wishes_are_refused() -> None:
    driver = Driver.started(1)
    create(driver, admin.CreatableTopic("t", 1, 1))
    driver.writes.clear()
    twice = admin.ConfigAlteration(admin.RESOURCE_TOPIC, "t", entries(retention_ms="1"))
    wishes = [
        admin.ConfigAlteration(99, "1", []),
        admin.ConfigAlteration(admin.RESOURCE_TOPIC, "nope", []),
        admin.ConfigAlteration(admin.RESOURCE_TOPIC, "../x", []),
        admin.ConfigAlteration(admin.RESOURCE_TOPIC, "__consumer_offsets", []),
        twice,
        twice,
    ]
    response = driver.ask(admin.AlterConfigsRequest(wishes))
    assert [name_of(r.error_code) for r in response.resources] == [
        "INVALID_REQUEST",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "INVALID_TOPIC",
        "INVALID_TOPIC",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]
    both = [admin.ConfigEntry("retention_ms", "1"), admin.ConfigEntry("retention.ms", "2")]
    wish = admin.ConfigAlteration(admin.RESOURCE_TOPIC, "t", both)
    response = driver.ask(admin.AlterConfigsRequest([wish], validate_only=True))
    assert name_of(response.resources[0].error_code) == "INVALID_CONFIG"
    good = admin.ConfigAlteration(admin.RESOURCE_TOPIC, "t", both[:1])
    response = driver.ask(admin.AlterConfigsRequest([good], validate_only=True))
    assert response.resources[0].error_code == 0
    assert not driver.writes


# ---------------------------------------------------------------- grow


def grow(driver: Driver, topic: str, count: int, assignment: Any = None, **kw: Any) -> str:
    growth = admin.PartitionGrowth(topic, count, assignment)
    response = driver.ask(admin.CreatePartitionsRequest([growth], 1000, **kw))
    return name_of(response.topics[0].error_code)


def test_new_partitions_go_on_where_the_old_ones_ended() -> None:
    driver = Driver.started(1, 2, 3)
    create(driver, admin.CreatableTopic("t", 2, 2))
    assert grow(driver, "t", 5) == "NONE"
    replicas = [list(driver.partition("t", p).replicas) for p in range(5)]
    assert replicas == [[1, 2], [2, 3], [3, 1], [1, 2], [2, 3]]
    assert driver.state("t", 4).leader == 2
    heir = driver.take_over()
    assert len(heir.machine.cluster.topics["t"].partitions) == 5
    assert grow(heir, "t", 6, [[2, 1]]) == "NONE"
    assert heir.state("t", 5).leader == 2


@pytest.mark.parametrize("target", [[1, 2, 3], [1]])
def test_new_partitions_have_as_many_replicas_as_the_first_one_is_to_have(
    target: list[int],
) -> None:
    driver = Driver.started(1, 2, 3)
    create(driver, admin.CreatableTopic("t", 1, 2))
    wish = moves.ReassignedPartition("t", 0, target)
    driver.ask(moves.AlterPartitionReassignmentsRequest([wish], True))
    assert grow(driver, "t", 2) == "NONE"
    assert len(driver.partition("t", 1).replicas) == len(target)


def test_a_growth_that_was_cut_off_is_finished_by_the_next_controller() -> None:
    driver = Driver.started(1)
    create(driver, admin.CreatableTopic("t", 1, 1))
    assert grow(driver, "t", 300) == "NONE"
    for index in range(150, 300):
        del driver.nodes[znodes.state_path("t", index)]
        del driver.nodes[znodes.partition_path("t", index)]
    assert driver.take_over().state("t", 299).leader == 1


GROWTHS = [
    ("the same", "t", 2, None, "INVALID_PARTITIONS"),
    ("fewer", "t", 1, None, "INVALID_PARTITIONS"),
    ("none", "t", 0, None, "INVALID_PARTITIONS"),
    ("negative", "t", -1, None, "INVALID_PARTITIONS"),
    ("too many", "t", 10**6, None, "INVALID_PARTITIONS"),
    ("no such topic", "nope", 3, None, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("a bad name", "a/b", 3, None, "INVALID_TOPIC"),
    ("internal", "__transaction_state", 3, None, "INVALID_TOPIC"),
    ("too short an assignment", "t", 4, [[1, 2]], "INVALID_REPLICA_ASSIGNMENT"),
    ("another replication factor", "t", 3, [[1]], "INVALID_REPLICA_ASSIGNMENT"),
    ("an unknown broker", "t", 3, [[1, 7]], "INVALID_REPLICA_ASSIGNMENT"),
    ("a broker twice", "t", 3, [[1, 1]], "INVALID_REPLICA_ASSIGNMENT"),
]


@pytest.mark.parametrize(
    ("label", "topic", "count", "assignment", "error"), GROWTHS, ids=[row[0] for row in GROWTHS]
)
def test_bad_growths_are_refused(
    label: str, topic: str, count: int, assignment: Any, error: str
) -> None:
    driver = Driver.started(1, 2)
    create(driver, admin.CreatableTopic("t", 2, 2))
    driver.writes.clear()
    assert grow(driver, topic, count, assignment) == error, label
    assert not driver.writes


def test_growth_may_be_tried_without_doing_it() -> None:
    driver = Driver.started(1)
    create(driver, admin.CreatableTopic("t", 1, 1))
    driver.writes.clear()
    assert grow(driver, "t", 3, validate_only=True) == "NONE"
    assert not driver.writes
    twice = [admin.PartitionGrowth("t", 2), admin.PartitionGrowth("t", 3)]
    response = driver.ask(admin.CreatePartitionsRequest(twice, 1000))
    assert [name_of(r.error_code) for r in response.topics] == ["INVALID_REQUEST"] * 2


# ---- more than can work


def test_more_than_a_broker_can_be_told_is_refused_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_sizes, "ORDER_BYTES_MAX", 10 * entry_bytes("name", 1))
    driver = Driver.started(1, 2)
    (first,) = create(driver, admin.CreatableTopic("name", 14, 1))
    assert first.error_code == 0
    driver.writes.clear()
    results = create(driver, admin.CreatableTopic("more", 6, 1), admin.CreatableTopic("most", 1, 1))
    assert [name_of(each.error_code) for each in results] == ["NONE", "POLICY_VIOLATION"]
    assert "a broker may have 10 replicas" in (results[1].error_message or "")
    assert sorted(driver.machine.cluster.topics) == ["more", "name"]
    driver.writes.clear()
    assert grow(driver, "name", 15) == "POLICY_VIOLATION"
    assert not driver.writes
