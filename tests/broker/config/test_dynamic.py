"""Settings change while brokers run: names, values, layers, and what is survived."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig, ListenerConfig, dynamic
from oncelog_broker.config.marks import is_cluster_wide
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.messages.admin import ConfigEntry


def config(**settings: Any) -> BrokerConfig:
    return BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings})


def altered(
    entries: Mapping[str, str | None],
    *,
    broker_id: int = -1,
    configs: dict[int, dict[str, str]] | None = None,
    **settings: Any,
) -> dict[str, str]:
    wanted = [ConfigEntry(key, value) for key, value in entries.items()]
    return dynamic.altered(config(**settings), broker_id, configs or {}, wanted)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("log_level", "log_level"),
        ("log.level", "log_level"),
        ("log.cleaner.cpu_percent", "log_cleaner_cpu_percent"),
        ("topic_defaults.retention.ms", "topic_defaults.retention_ms"),
        ("topic.defaults.retention_ms", "topic_defaults.retention_ms"),
        ("log_levels.oncelog_broker.log", "log_levels.oncelog_broker.log"),
    ],
)
def test_keys_have_one_spelling(key: str, name: str) -> None:
    assert dynamic.normalised(key) == name


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("log_leval", "did you mean log_level?"),
        ("zzz", "see the reference"),
        ("", "not a setting"),
        ("topic_defaults", "name one entry"),
        ("topic_defaults.", "is a map|not a setting"),
        ("topic_defaults.nothing", "not a setting of topics"),
        ("log_level.x", "not a setting"),
    ],
)
def test_other_keys_are_refused(key: str, says: str) -> None:
    with pytest.raises(InvalidConfigError, match=says):
        dynamic.normalised(key)


def test_values_have_one_spelling() -> None:
    assert altered({"log_cleaner_enable": "no", "max_connections": "0007"}) == {
        "log_cleaner_enable": "false",
        "max_connections": "7",
    }


def test_only_named_keys_change() -> None:
    before = {-1: {"log_level": "debug", "max_connections": "5"}}
    assert altered({"log_level": None, "group_max_size": "9"}, configs=before) == {
        "max_connections": "5",
        "group_max_size": "9",
    }


def test_every_setting_is_dynamic_or_says_that_it_needs_a_restart() -> None:
    values = {"flush": "interval", "log_format": "json", "rack": "x"}
    for key, field in BrokerConfig.model_fields.items():
        if dynamic.may_change(key):
            continue
        with pytest.raises(InvalidConfigError, match=f"{key} needs a restart"):
            altered({key: values.get(key, "1")})
        assert not is_cluster_wide(field)


SECURITY = re.compile(
    r"tls|sasl|author|super_users|principal|reauth|inter_broker|zookeeper|security|token|listeners"
    r"|oidc|audit"
)
"""Settings are of security when their names say so."""


@pytest.mark.hostile(51)
@pytest.mark.cve("2023-25194", "2025-27819")
def test_who_may_change_settings_changes_no_security_by_them() -> None:
    """CVE-2025-27819: brokers took a new login from whoever may alter settings."""
    of_security = [key for key in BrokerConfig.model_fields if SECURITY.search(key)]
    assert {"authorizer", "super_users", "broker_principal", "listeners"} <= set(of_security)
    of_listeners = [f"listeners.external.{key}" for key in ListenerConfig.model_fields]
    for key in (*of_security, *of_listeners, "listeners.0.tls_client_auth"):
        with pytest.raises(InvalidConfigError, match=re.escape(f"{key} needs a restart")):
            altered({key: "1"})
        with pytest.raises(InvalidConfigError):
            altered({key.replace("_", "."): "1"}, broker_id=1)


@pytest.mark.hostile(52)
@pytest.mark.cve("2024-31141")
@pytest.mark.parametrize("text", ["${env:HOME}", "${file:/etc/passwd:root}", "${HOME}"])
def test_a_value_that_would_be_looked_up_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="are not replaced") as caught:
        altered({"topic_defaults.retention_ms": text})
    assert os.environ["HOME"] not in str(caught.value)


def test_what_is_set_for_all_must_go_with_what_single_brokers_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = BrokerConfig.model_fields["group_min_session_timeout_ms"]
    monkeypatch.setattr(mark, "metadata", [m for m in mark.metadata if "wide" not in str(m)])
    own = {2: {"group_min_session_timeout_ms": "5000"}}
    with pytest.raises(InvalidConfigError, match="on broker 2, with its own: group_min"):
        altered({"group_max_session_timeout_ms": "4000"}, configs=own)
    default = {-1: {"group_max_session_timeout_ms": "4000"}}
    with pytest.raises(InvalidConfigError, match="4000"):
        altered({"group_min_session_timeout_ms": "5000"}, broker_id=2, configs=default)


def test_two_bounds_may_move_together() -> None:
    moved = {"group_min_session_timeout_ms": "3600000", "group_max_session_timeout_ms": "7200000"}
    assert altered(moved) == moved
    with pytest.raises(InvalidConfigError):
        altered({"group_min_session_timeout_ms": "3600000"})


def test_layers_go_over_what_the_broker_was_started_with() -> None:
    given = config(topic_defaults={"retention.ms": 5, "segment_ms": 7}, log_level="error")
    now = dynamic.overlaid(
        given,
        {"topic_defaults.retention_ms": "9", "log_level": "debug"},
        {"log_level": "info"},
    )
    assert now.topic_defaults == {"retention_ms": "9", "segment_ms": 7}
    assert now.log_level == "info"
    assert given.log_level == "error"


def test_what_cannot_hold_is_left_out_and_named() -> None:
    default = {
        "log_level": "debug",
        "broker_id": "9",
        "nonsense": "1",
        "max_connections": "none",
        "group_min_session_timeout_ms": "9000000",
    }
    own = {"group_max_size": "3", "max_connections": "4"}
    now, of_all, of_one, faults = dynamic.tolerant(config(), default, own)
    assert (now.log_level, now.max_connections) == ("debug", 4)
    assert now.group_max_size == config().group_max_size
    assert of_all == {"log_level": "debug"}
    assert of_one == {"max_connections": "4"}
    assert len(faults) == 5
    assert any("needs a restart" in fault for fault in faults)


def test_nothing_set_changes_nothing() -> None:
    assert dynamic.tolerant(config(), {}, {}) == (config(), {}, {}, [])
