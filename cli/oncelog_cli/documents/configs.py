"""Settings of topics and of running brokers are described and altered here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Failures, Row, fields_of
from oncelog_cli.documents.names import topics_named

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import ConfigOutcome


async def described_configs(
    admin: Admin,
    topics: Sequence[str] = (),
    brokers: Sequence[int | None] = (),
    *,
    regex: bool = False,
    keys: Sequence[str] | None = None,
    every: bool = False,
) -> Answer:
    """Return the document of ``configs describe``: a row a setting.

    Topics and brokers that cannot be described, and keys that they do not have, are failures.

    :param brokers: ids; None is what is set for all of them while they run.
    :param keys: only these settings, wherever they come from.
    :param every: defaults as well, not only what somebody has set.
    :raises CommandError: no topic is meant.
    """
    failures = Failures()
    names = await topics_named(admin, topics, regex=regex) if topics else []
    described = await admin.describe_configs(topics=names, brokers=brokers, keys=keys)
    rows: list[Row] = []
    for outcome in failures.sound(described, lambda outcome: outcome.name):
        label = resource_label(outcome.kind, outcome.name)
        for wanted in keys or ():
            if wanted not in outcome.settings:
                failures.fail(label, f"there is no setting {wanted!r} of {label}")
        rows += _rows(outcome, every=every or keys is not None)
    return Answer({"configs": rows}, failures)


def _rows(outcome: ConfigOutcome, *, every: bool) -> list[Row]:
    return [
        {
            "resource": resource_label(outcome.kind, outcome.name),
            **fields_of(outcome, "kind name"),
            **fields_of(setting, "key value source read_only documentation"),
        }
        for setting in sorted(outcome.settings.values(), key=lambda setting: setting.key)
        if every or setting.source != "default"
    ]


def resource_label(kind: str, name: str) -> str:
    """Return how people call what has settings; a broker without a name stands for all."""
    if kind == "broker":
        return f"broker {name}" if name else "all brokers"
    return f"{kind} {name}"


async def altered_configs(
    admin: Admin,
    entries: Mapping[str, str | None],
    topics: Sequence[str] = (),
    brokers: Sequence[int | None] = (),
    *,
    regex: bool = False,
    dry_run: bool = False,
) -> Answer:
    """Alter settings, and return the document of ``configs alter``: a row a topic or broker.

    :param entries: settings; None takes one back to what holds without.
    :param brokers: ids; None is all of them.
    :raises CommandError: no topic is meant.
    """
    changed: list[ConfigOutcome] = []
    if topics:
        names = await topics_named(admin, topics, regex=regex)
        of_topics = dict.fromkeys(names, entries)
        changed += await admin.alter_configs(of_topics, validate_only=dry_run)
    if brokers:
        of_brokers = dict.fromkeys(brokers, entries)
        changed += await admin.alter_broker_configs(of_brokers, validate_only=dry_run)
    failures = Failures()
    rows = []
    for each in changed:
        row = failures.outcome(fields_of(each, "kind name"), "altered", each.name, each.error)
        rows.append({**row, "altered": row["altered"] and not dry_run})
    return Answer({"dry_run": dry_run, "configs": rows}, failures)
