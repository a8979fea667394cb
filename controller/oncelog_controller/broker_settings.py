"""This port says which settings of brokers may change while they run, as the controller sees them.

What settings there are, and what they may be, is the brokers' business; the controller keeps them,
spreads them, and is itself told by them. Texts by key, by broker id; -1 stands for all brokers that
have no setting of their own (KIP-226).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from oncelog_controller.config import ControllerConfig
from oncelog_protocol.errors import InvalidConfigError
from oncelog_protocol.messages.admin import ConfigEntry

Texts = Mapping[str, str]


class BrokerSettings(Protocol):
    """It says what may be set, and what follows for the controller."""

    def altered(
        self, broker_id: int, configs: Mapping[int, Texts], entries: Sequence[ConfigEntry]
    ) -> dict[str, str]:
        """Return what would be set for ``broker_id`` with ``entries`` over what ``configs`` say; a
        value None takes a setting back.

        :raises InvalidConfigError: no such setting, one that needs a restart, or a value that it
            may not have, by itself or beside the others.
        """
        ...

    def controller_config(self, configs: Mapping[int, Texts]) -> ControllerConfig:
        """Return the controller's own settings; what cannot hold is left out, and logged."""
        ...


class FixedSettings:
    """It serves a controller without brokers that could be told anything: nothing may change."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config

    def altered(
        self, broker_id: int, configs: Mapping[int, Texts], entries: Sequence[ConfigEntry]
    ) -> dict[str, str]:
        """:raises InvalidConfigError: always."""
        raise InvalidConfigError("no setting of brokers can be altered here")

    def controller_config(self, configs: Mapping[int, Texts]) -> ControllerConfig:
        """Return the settings as they were given."""
        return self._config
