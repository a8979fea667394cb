"""Documents that are made from the code are up to date, and complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncelog_broker.config import BrokerConfig, ListenerConfig, load
from oncelog_broker.observability.catalogue import CATALOGUE
from oncelog_protocol.errors import ERRORS
from oncelog_protocol.registry import REQUESTS
from oncelog_protocol.topic_config import TOPIC_SETTINGS
from support.house import ROOT, generator

WIRE_DOCS = generator("wire_docs")
CLI_DOCS = generator("cli_docs")
LOG_DOCS = generator("log_docs")
CONFIG_DOCS = generator("config_docs")
METRICS_DOCS = generator("metrics_docs")
SECURITY_DOCS = generator("security_docs")
DASHBOARD = generator("dashboard")
OUTPUTS: dict[str, str] = {
    path.name: text
    for tool in (WIRE_DOCS, CLI_DOCS, LOG_DOCS, CONFIG_DOCS, METRICS_DOCS, SECURITY_DOCS)
    for path, text in tool.outputs().items()
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_generated_documents_are_up_to_date(name: str) -> None:
    current = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert current == OUTPUTS[name], "make docs"


def test_the_dashboard_is_up_to_date_and_shows_only_what_there_is() -> None:
    known = {metric.name for metrics in CATALOGUE.values() for metric in metrics}
    for path, text in DASHBOARD.outputs().items():
        assert path.read_text(encoding="utf-8") == text, "make docs"
        named = set(re.findall(r"\b(?:oncelog|process)_[a-z_]+[a-z]", text))
        assert len(named) > 50
        assert {name.removesuffix("_bucket").removesuffix("_count") for name in named} <= known


def test_every_metric_and_alert_is_described() -> None:
    for metrics in CATALOGUE.values():
        for metric in metrics:
            assert f"| `{metric.name}` | {metric.kind.value} |" in OUTPUTS["metrics.md"]
    for rule in METRICS_DOCS.alerts():
        assert rule in OUTPUTS["metrics.md"]


def test_every_api_error_and_setting_is_described() -> None:
    for cls in REQUESTS.values():
        assert f"#### {cls.__name__}\n" in OUTPUTS["wire.md"]
        assert f"#### {cls.response.__name__}\n" in OUTPUTS["wire.md"]
        assert f"| `{cls.api_key.name}` {cls.api_key}" in OUTPUTS["security-reference.md"]
    for error in ERRORS.values():
        assert f"| {error.code} | `{error.name}` |" in OUTPUTS["wire.md"]
    for name in TOPIC_SETTINGS:
        assert f"| `{name}` |" in OUTPUTS["topic-configs.md"]


def test_every_setting_of_a_broker_says_what_it_does() -> None:
    text = OUTPUTS["broker-configs.md"]
    listed = [key for keys in CONFIG_DOCS.sections().values() for key in keys]
    assert sorted(listed) == sorted(BrokerConfig.model_fields)
    for model in (BrokerConfig, ListenerConfig):
        for row in CONFIG_DOCS.rows(model, list(model.model_fields), dynamic=False):
            assert row[-1], f"{row[0]} wants a string below it that says what it does"
            assert f"| {row[0]} |" in text
    assert set(CONFIG_DOCS.IN_KAFKA) | CONFIG_DOCS.SAME_IN_KAFKA <= set(BrokerConfig.model_fields)
    assert not set(CONFIG_DOCS.IN_KAFKA) & CONFIG_DOCS.SAME_IN_KAFKA


def test_the_examples_of_settings_hold_and_say_the_same(tmp_path: Path) -> None:
    text = OUTPUTS["broker-configs.md"]
    file = tmp_path / "broker.toml"
    file.write_text(text.split("```toml\n")[1].split("```")[0])
    lines = text.split("```yaml\n")[1].split("```")[0].splitlines()
    pairs = (line.split(": ", 1) for line in lines)
    environment = {name: value.strip('"') for name, value in pairs}
    by_file, by_environment = load(str(file)).config, load(None, environment=environment).config
    assert by_file.topic_default_texts() == by_environment.topic_default_texts()
    assert by_file.model_dump(exclude={"topic_defaults"}) == by_environment.model_dump(
        exclude={"topic_defaults"}
    )


def test_every_command_and_option_is_described() -> None:
    for command in CLI_DOCS.leaves():
        assert f"## oncelog {command.path}\n" in OUTPUTS["cli.md"]
        for parameter in command.click.params:
            if parameter.param_type_name == "option":
                assert parameter.opts[0] in OUTPUTS["cli.md"], command.path


def test_links_within_the_page_lead_somewhere() -> None:
    text = OUTPUTS["wire.md"]
    titles = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
    anchors = {
        "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        for title in titles
    }
    targets = {part.split(")")[0] for part in text.split("](#")[1:]}
    assert targets <= anchors


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One ``thing``.", "One `thing`."),
        ("See :class:`~a.b.Thing`.", "See `Thing`."),
        ("Rules\n-----\n* one", "**Rules**\n\n* one"),
        ("It is::\n\n    a := b\n\nAnd on.", "It is:\n\n```\na := b\n```\n\nAnd on."),
        ("Last.\n\n::\n\n    a", "Last.\n\n```\na\n```"),
    ],
)
def test_docstrings_in_markdown(docstring: str, expected: str) -> None:
    assert WIRE_DOCS.markdown(docstring) == expected
