"""One broker's settings are modelled, read from their sources and explained here."""

from oncelog_broker.config import report
from oncelog_broker.config.errors import ConfigError
from oncelog_broker.config.model import UNSPECIFIED_HOSTS, BrokerConfig, ListenerConfig
from oncelog_broker.config.sources import ENV_PREFIX, Loaded, load, load_config

__all__ = [
    "ENV_PREFIX",
    "UNSPECIFIED_HOSTS",
    "BrokerConfig",
    "ConfigError",
    "ListenerConfig",
    "Loaded",
    "load",
    "load_config",
    "report",
]
