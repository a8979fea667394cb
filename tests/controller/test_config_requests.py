"""AlterConfigs of brokers are kept, spread, obeyed, and inherited by topics (test_topic_requests
has topics' own)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig
from oncelog_broker.controller_settings import ControllerSettings, controller_config
from oncelog_controller import znodes
from oncelog_controller.store import SetData, StoreDisconnectedError
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import BrokerOverrides, UpdateMetadataRequest
from support.controller_driver import Driver


def started(*broker_ids: int, **settings: Any) -> Driver:
    config = BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings})
    return Driver.started(
        *broker_ids, config=controller_config(config), settings=ControllerSettings(config)
    )


def wish(name: str, **entries: str | None) -> admin.ConfigAlteration:
    given = [admin.ConfigEntry(k.replace("__", "."), v) for k, v in entries.items()]
    return admin.ConfigAlteration(admin.RESOURCE_BROKER, name, given)


def alter(
    driver: Driver, *wishes: admin.ConfigAlteration, validate_only: bool = False
) -> list[str]:
    """Return the names of the errors, "" for none."""
    response = driver.ask(admin.AlterConfigsRequest(list(wishes), validate_only))
    codes = [result.error_code for result in response.resources]
    return [error_for(code).name if code else "" for code in codes]


def told(driver: Driver) -> dict[int, list[BrokerOverrides] | None]:
    """Return what each broker was last told of settings."""
    return {
        broker_id: request.broker_configs
        for broker_id, request in driver.requests
        if isinstance(request, UpdateMetadataRequest) and request.broker_configs is not None
    }


def node(driver: Driver, name: str) -> dict[str, str]:
    config: dict[str, str] = json.loads(driver.nodes[f"/config/brokers/{name}"].data)["config"]
    return config


def test_settings_are_kept_and_told_to_everybody() -> None:
    driver = started(1, 2)
    default, own = wish("", log_level="debug"), wish("2", max_connections="7")
    assert alter(driver, default, own) == ["", ""]
    assert node(driver, "<default>") == {"log_level": "debug"}
    assert node(driver, "2") == {"max_connections": "7"}
    everything = [
        BrokerOverrides(-1, 0, ["log_level"], ["debug"]),
        BrokerOverrides(2, 0, ["max_connections"], ["7"]),
    ]
    assert told(driver) == {1: everything, 2: everything}


def test_they_survive_the_controller_and_reach_who_registers_later() -> None:
    driver = started(1)
    alter(driver, wish("", log_level="debug"))
    heir = driver.take_over()
    expected = [BrokerOverrides(-1, 0, ["log_level"], ["debug"])]
    assert told(heir) == {1: expected}
    heir.join(2)
    assert told(heir)[2] == expected
    assert alter(heir, wish("", log_level=None)) == [""]
    assert node(heir, "<default>") == {}
    assert told(heir)[2] == [BrokerOverrides(-1, 1, [], [])]


def test_a_change_that_changes_nothing_or_is_only_checked_writes_nothing() -> None:
    driver = started(1)
    alter(driver, wish("", log_level="debug"))
    driver.writes.clear()
    driver.requests.clear()
    assert alter(driver, wish("", log_level="debug")) == [""]
    assert alter(driver, wish("", log_level="error"), validate_only=True) == [""]
    assert alter(driver, wish("1", rack="x"), validate_only=True) == ["INVALID_CONFIG"]
    assert not driver.writes
    assert not driver.requests


@pytest.mark.parametrize(
    ("wanted", "error", "says"),
    [
        (wish("1", rack="x"), "INVALID_CONFIG", "needs a restart"),
        (wish("", no_such="x"), "INVALID_CONFIG", "not a setting"),
        (wish("", max_connections="0"), "INVALID_CONFIG", "greater than or equal to 1"),
        (wish("", max_connections="many"), "INVALID_CONFIG", "integer"),
        (wish("", log_level="debug\n"), "INVALID_CONFIG", "line break"),
        (wish("", log_level="${LEVEL}"), "INVALID_CONFIG", "not replaced"),
        (wish("1", group_max_size="5"), "INVALID_CONFIG", "the same on all"),
        (wish("", group_max_session_timeout_ms="5"), "INVALID_CONFIG", "above group_max"),
        (wish("", topic_defaults__segment_bytes="1"), "INVALID_CONFIG", "1024"),
        (wish("", topic_defaults__nothing="1"), "INVALID_CONFIG", "not a setting of topics"),
        (wish("", topic_defaults="{}"), "INVALID_CONFIG", "name one entry"),
        (wish("", replica_lag_time_max_ms="9" * 400), "INVALID_CONFIG", "too large"),
        (wish("", **{f"log_levels__log.x{i}": "info" for i in range(101)}),
         "INVALID_CONFIG", "at most 100"),
        (wish("9", log_level="debug"), "INVALID_REQUEST", "not registered"),
        (wish("-1", log_level="debug"), "INVALID_REQUEST", "no broker id"),
        (wish("²", log_level="debug"), "INVALID_REQUEST", "no broker id"),
        (wish("1" * 200, log_level="debug"), "INVALID_REQUEST", "no broker id"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(
    wanted: admin.ConfigAlteration, error: str, says: str
) -> None:
    driver = started(1)
    driver.writes.clear()
    response = driver.ask(admin.AlterConfigsRequest([wanted]))
    (result,) = response.resources
    assert error_for(result.error_code).name == error
    assert says in result.error_message
    assert not driver.writes


def test_resources_of_one_request_are_checked_one_after_the_other() -> None:
    driver = started(1)
    twice = [wish("", log_level="debug"), wish("", log_level="info")]
    assert alter(driver, *twice) == ["INVALID_REQUEST", "INVALID_REQUEST"]
    key_twice = wish("", log_level="debug")
    key_twice.entries.append(admin.ConfigEntry("log.level", "info"))
    assert alter(driver, key_twice) == ["INVALID_CONFIG"]


def test_a_broker_that_is_away_can_have_its_settings_taken_back() -> None:
    driver = started(1, 2)
    alter(driver, wish("2", log_level="debug"))
    driver.lose(2)
    assert alter(driver, wish("2", log_level=None)) == [""]
    assert node(driver, "2") == {}


def test_defaults_of_topics_hold_for_topics_that_do_not_say() -> None:
    driver = started(1)
    driver.ask(admin.CreateTopicsRequest([admin.CreatableTopic("mine", 1, 1)], 1000))
    own = [admin.ConfigEntry("retention_ms", "5")]
    driver.ask(admin.CreateTopicsRequest([admin.CreatableTopic("own", 1, 1, None, own)], 1000))
    alter(driver, wish("", topic_defaults__retention_ms="9"))
    topics = driver.machine.cluster.topics
    assert [topics[t].settings.retention_ms for t in ("mine", "own")] == [9, 5]
    assert topics["mine"].overrides == {}
    heir = driver.take_over()
    topics = heir.machine.cluster.topics
    assert [topics[t].settings.retention_ms for t in ("mine", "own")] == [9, 5]
    alter(heir, wish("", topic_defaults__retention_ms=None))
    assert topics["mine"].settings.retention_ms == 604_800_000


def test_allowing_unclean_elections_for_all_elects_at_once() -> None:
    driver = started(1, 2)
    driver.create("t", [1, 2])
    driver.lose(2)
    driver.join(2)
    driver.lose(1)
    assert driver.state("t").leader == -1
    assert alter(driver, wish("", unclean_leader_election_enable="true")) == [""]
    assert (driver.state("t").leader, driver.state("t").isr) == (2, (2,))


def test_a_smaller_min_isr_for_all_ends_the_elr_before_it_counts() -> None:
    driver = started(1, 2, 3, min_insync_replicas=2)
    driver.create("t", [1, 2, 3])
    driver.lose(3)
    driver.lose(2)
    assert driver.state("t").elr == (2,)
    driver.writes.clear()
    assert alter(driver, wish("", min_insync_replicas="1")) == [""]
    assert driver.state("t").elr == ()
    paths = [op.path for ops in driver.writes for op in ops if not hasattr(op, "ephemeral")]
    paths = [path for path in paths if path != znodes.CONTROLLER_EPOCH]
    assert paths == [znodes.state_path("t", 0)]
    order = [any("/config/" in op.path for op in ops) for ops in driver.writes]
    assert order == [False, True]


def test_rebalancing_can_be_switched_off_and_on() -> None:
    driver = started(1, 2)
    driver.create("t", [1, 2])
    assert alter(driver, wish("", auto_leader_rebalance_enable="false", balance_mode="off")) == [""]
    driver.pass_time(0)  # what follows from brokers that come is looked at once
    assert driver.machine.wake_at is None
    driver.join(2)
    driver.pass_time(0)
    assert driver.machine.wake_at is None
    assert alter(driver, wish("", auto_leader_rebalance_enable="true")) == [""]
    assert driver.machine.wake_at is not None


def test_a_lost_write_is_read_back_and_asked_again() -> None:
    driver = started(1)
    alter(driver, wish("", log_level="debug"))
    lost: list[bool] = []

    def lose(ops: Any) -> Any:
        if not lost and any(isinstance(op, SetData) and "/config/" in op.path for op in ops):
            lost.append(True)
            return StoreDisconnectedError("lost"), True
        return None

    driver.fail_write = lose
    request = admin.AlterConfigsRequest([wish("", log_level="error")])
    request_id = driver.ask_later(request)
    assert driver.lost_track
    driver.load()
    assert driver.replies[request_id].resources[0].error_code == 0
    assert node(driver, "<default>") == {"log_level": "error"}
    assert driver.machine.cluster.broker_configs[-1].version == 1


def test_what_the_store_holds_is_survived() -> None:
    driver = started(1)
    alter(driver, wish("", group_max_size="5"))
    bad = {"group_max_size": "0", "nonsense": "x", "min_insync_replicas": "2", "broker_id": "4"}
    driver.nodes["/config/brokers/<default>"].data = znodes.encode_config(bad)
    heir = driver.take_over()
    assert heir.machine._core.config.defaults()["min_insync_replicas"] == "2"
    assert alter(heir, wish("", nonsense=None, group_max_size=None, broker_id=None)) == [""]
    assert node(heir, "<default>") == {"min_insync_replicas": "2"}
