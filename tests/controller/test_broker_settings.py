"""A controller that knows no settings of brokers lets none be altered."""

from __future__ import annotations

import pytest

from oncelog_controller.broker_settings import FixedSettings
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.messages.admin import ConfigEntry
from support.room_settings import controller_settings


def test_nothing_may_change() -> None:
    config = controller_settings(num_partitions=3)
    settings = FixedSettings(config)
    assert settings.controller_config({-1: {"num_partitions": "4"}}) is config
    with pytest.raises(InvalidConfigError):
        settings.altered(-1, {}, [ConfigEntry("log_level", "debug")])
