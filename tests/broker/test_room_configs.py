"""Each room is told its own settings, and has the same defaults as without."""

from __future__ import annotations

import pytest

from oncelog_broker import room_configs
from oncelog_broker.config import BrokerConfig
from oncelog_protocol.messages.metadata import ListenerAddress


def config(**settings: object) -> BrokerConfig:
    return BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings})


def test_settings_reach_their_room() -> None:
    given = config(
        group_max_size=7,
        transaction_max_timeout_ms=8,
        transactional_id_expiration_ms=9,
        max_in_flight_requests=10,
        replica_fetch_wait_max_ms=11,
        producer_id_expiration_ms=12,
        log_cleaner_cpu_percent=13,
    )
    assert room_configs.group_config(given).group_max_size == 7
    transactions = room_configs.transaction_config(given)
    assert transactions.transaction_max_timeout_ms == 8
    assert transactions.transactional_id_expiration_ms == 9
    assert room_configs.connection_limits(given).in_flight_max == 10
    assert room_configs.replica_config(given).replica_fetch_wait_max_ms == 11
    assert room_configs.log_config(given).producer_id_expiration_ms == 12
    assert room_configs.log_config(given).cleaner.cpu_percent == 13


def test_what_is_advertised_is_where_it_listens_unless_it_is_told_otherwise() -> None:
    listeners = [
        {"name": "internal", "host": "10.0.0.1", "port": 0},
        {"name": "external", "host": "::", "advertised_host": "b1", "advertised_port": 19092},
    ]
    addresses = {"internal": ("10.0.0.1", 4001), "external": ("::", 4002)}
    found = room_configs.advertised_listeners(config(listeners=listeners), addresses)
    internal = ListenerAddress("internal", "10.0.0.1", 4001)
    assert found == [internal, ListenerAddress("external", "b1", 19092)]


@pytest.mark.parametrize(
    ("host", "port", "told"),
    [
        ("127.0.0.1", 9644, "127.0.0.1:9644"),
        ("b1.example", 9644, "b1.example:9644"),
        ("::1", 9644, "[::1]:9644"),
        ("0.0.0.0", 9644, "inside:9644"),
        ("::", 9644, "inside:9644"),
        ("127.0.0.1", None, ""),
    ],
)
def test_where_metrics_are(host: str, port: int | None, told: str) -> None:
    listeners = [
        {"name": "external", "host": "0.0.0.0", "advertised_host": "outside"},
        {"name": "internal", "host": "0.0.0.0", "advertised_host": "inside"},
    ]
    given = config(metrics_host=host, metrics_port=0, listeners=listeners)
    assert room_configs.advertised_http(given, port) == told
