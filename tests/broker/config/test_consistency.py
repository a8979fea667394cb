"""What must hold for settings as a whole: every problem at once."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from oncelog_broker.config import BrokerConfig
from oncelog_broker.config.consistency import text_fault
from oncelog_broker.config.errors import InconsistentError


def keys(**settings: object) -> list[str]:
    """Of the problems of a broker with these settings."""
    with pytest.raises(ValidationError) as caught:
        BrokerConfig.model_validate({"broker_id": 1, "log_dirs": ["/d"], **settings})
    (error,) = caught.value.errors()
    cause = error["ctx"]["error"]
    assert isinstance(cause, InconsistentError)
    return [problem.key for problem in cause.problems]


def test_every_problem_is_found() -> None:
    twice = [{"name": "a", "port": 1}, {"name": "a", "port": 1}]
    assert keys(listeners=twice, group_max_session_timeout_ms=1, topic_defaults={"x": 1}) == [
        "listeners",
        "listeners",
        "inter_broker_listener",
        "group_min_session_timeout_ms",
        "topic_defaults",
    ]


def test_numbers_have_a_bound() -> None:
    assert keys(replica_lag_time_max_ms=2**63) == ["replica_lag_time_max_ms"]


def test_texts_are_looked_at_wherever_they_are() -> None:
    listeners = [{"name": "internal", "host": "${HOST}"}]
    found = keys(rack="a\tb", listeners=listeners, topic_defaults={"flush": "x\n"})
    assert found == ["rack", "listeners.0.host", "topic_defaults.flush", "topic_defaults"]


@pytest.mark.parametrize("text", ["", "a b", "é", "$HOME", "{}"])
def test_ordinary_texts_are_fine(text: str) -> None:
    assert text_fault(text) is None


@pytest.mark.parametrize("text", ["${X}", "a${", "\n", "\x00", "\u2028"])
def test_others_are_not(text: str) -> None:
    assert text_fault(text) is not None
