"""A report shows values of settings, their origins, and masks."""

from __future__ import annotations

import pytest
from pydantic.fields import FieldInfo

from oncelog_broker.config import load, report
from oncelog_broker.config.errors import ConfigError
from oncelog_broker.config.marks import SECRET
from oncelog_broker.config.model import BrokerConfig

ENVIRONMENT = {
    "ONCELOG_BROKER_ID": "1",
    "ONCELOG_LOG_DIRS": "/d",
    "ONCELOG_ZOOKEEPER_CONNECT": "z:1",
    "ONCELOG_LISTENERS__EXTERNAL__PORT": "9092",
    "ONCELOG_TOPIC_DEFAULTS__RETENTION_MS": "5",
}


def rows() -> dict[str, report.Shown]:
    return {row.key: row for row in report.shown_settings(load(None, environment=ENVIRONMENT))}


def test_every_setting_is_shown_with_its_origin() -> None:
    shown = rows()
    assert set(BrokerConfig.model_fields) - {"listeners", "topic_defaults"} <= set(shown)
    assert shown["broker_id"].value == "1"
    assert shown["broker_id"].origin == "environment ONCELOG_BROKER_ID"
    assert shown["log_dirs"].value == '["/d"]'
    assert shown["listeners.external.port"].value == "9092"
    assert shown["listeners.external.port"].origin.endswith("EXTERNAL__PORT")
    assert shown["listeners.internal.port"].origin == "default"
    assert shown["topic_defaults.retention_ms"].value == "5"
    assert shown["num_partitions"].document() == {
        "key": "num_partitions",
        "value": "1",
        "origin": "default",
        "default": "1",
        "dynamic": False,
    }


def test_what_was_chosen() -> None:
    assert report.chosen_settings(load(None, environment=ENVIRONMENT)) == {
        "broker_id": "1",
        "log_dirs": '["/d"]',
        "zookeeper_connect": "z:1",
        "listeners.external.port": "9092",
        "topic_defaults.retention_ms": "5",
    }


@pytest.mark.cve("2019-12399")
def test_secrets_are_masked_wherever_settings_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(None, environment={**ENVIRONMENT, "ONCELOG_RACK": "hush"})
    assert "hush" in str(report.shown_settings(loaded))
    monkeypatch.setattr(BrokerConfig.model_fields["rack"], "metadata", [SECRET])
    shown = {row.key: row for row in report.shown_settings(loaded)}
    assert shown["rack"].value == report.MASK
    assert "hush" not in str(report.shown_settings(loaded))
    assert report.chosen_settings(loaded)["rack"] == report.MASK
    assert "hush" not in "".join(report.table(list(shown.values())))


def test_a_secret_that_is_not_set_shows_as_such() -> None:
    secret = FieldInfo(annotation=str)
    secret.metadata = [SECRET]
    assert report.masked(secret, None) is None
    assert report.masked(secret, "") == ""
    assert report.masked(secret, "x") == report.MASK


def test_the_table_has_a_line_for_each() -> None:
    lines = report.table(list(rows().values()))
    assert lines[0].split() == ["KEY", "VALUE", "ORIGIN"]
    assert lines[1].split() == ["broker_id", "1", "environment", "ONCELOG_BROKER_ID"]


def test_mistakes_as_a_document() -> None:
    error = ConfigError("a", "is wrong", "Mend it", "f", [ConfigError("b", "is too", "Do")])
    assert report.mistakes_document(error)["errors"][1] == {
        "key": "b",
        "origin": "",
        "problem": "is too",
        "remedy": "Do",
        "message": "b: is too. Do",
    }
