"""Rooms and modules have log levels of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError, load_config
from oncelog_broker.log_levels import LOGGERS, logger_name, set_levels
from support.house import ROOT


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    level = logging.getLogger().level
    yield
    set_levels("debug", {})
    logging.getLogger().setLevel(level)


def enabled(name: str) -> str:
    return logging.getLevelName(logging.getLogger(name).getEffectiveLevel())


def test_a_room_has_its_own_level_and_gives_it_back() -> None:
    set_levels("warning", {"replication": "debug", "oncelog_broker.log.cleaner": "error"})
    assert enabled("oncelog_broker.replication.partition") == "DEBUG"
    assert enabled("oncelog_broker.log.cleaner") == "ERROR"
    assert enabled("oncelog_broker.log.segment") == "WARNING"
    set_levels("info", {"log": "debug"})
    assert enabled("oncelog_broker.replication.partition") == "INFO"
    assert enabled("oncelog_broker.log.cleaner") == "DEBUG"


def test_zookeepers_client_is_quiet_unless_asked() -> None:
    set_levels("info", {})
    assert enabled("kazoo.client") == "WARNING"
    set_levels("info", {"zookeeper": "info"})
    assert enabled("kazoo.client") == "INFO"
    set_levels("debug", {})
    assert enabled("kazoo.client") == "DEBUG"


def test_the_http_server_is_silent_unless_asked() -> None:
    set_levels("info", {})
    assert enabled("uvicorn.error") == "ERROR"
    set_levels("info", {"http": "info"})
    assert enabled("uvicorn.error") == "INFO"
    set_levels("debug", {})
    assert enabled("uvicorn.error") == "DEBUG"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("replicaton", "did you mean replication"), ("elsewhere", "known are"), ("os.path", "known")],
)
def test_what_is_never_logged_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        logger_name(name)
    with pytest.raises(ValueError, match=hint):
        BrokerConfig(broker_id=1, log_dirs=["/d"], log_levels={name: "debug"})


def test_every_room_that_is_named_exists() -> None:
    for name in set(LOGGERS.values()) - {"oncelog.audit"}:
        room, *inner = name.split(".")
        if room.startswith("oncelog"):
            folder = room.removeprefix("oncelog_")
            assert ROOT.joinpath(folder, room, *inner).is_dir()


def test_the_environment_names_rooms_and_modules() -> None:
    environment = {
        "ONCELOG_BROKER_ID": "1",
        "ONCELOG_LOG_DIRS": '["/d"]',
        "ONCELOG_LOG_LEVELS__REPLICATION": "debug",
        "ONCELOG_LOG_LEVELS__ONCELOG_BROKER__LOG__CLEANER": "error",
    }
    config = load_config(None, environment=environment)
    assert config.log_levels == {"replication": "debug", "oncelog_broker.log.cleaner": "error"}
    with pytest.raises(ConfigError, match="did you mean replication"):
        load_config(None, environment={**environment, "ONCELOG_LOG_LEVELS__REPLICATOIN": "info"})
