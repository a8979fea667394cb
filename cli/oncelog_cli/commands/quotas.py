"""``oncelog quotas`` says how much users, client ids and addresses may have of each broker.

Rules: what is listed is what the cluster has, and what counts for somebody is found by the code of
brokers. Nothing is deleted without a yes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.acl_options import principal_of
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.options import DryRunOption, UsageError, YesOption, confirm
from oncelog_cli.quota_options import (
    CHANGE_COLUMNS,
    COLUMNS,
    EntityWords,
    QuotaWords,
    amount_text,
    row_of,
)
from oncelog_cli.render import Output, counted

if TYPE_CHECKING:
    from oncelog import QuotaEntity

app = typed.App(help="How much users, client ids and addresses may have of each broker.")


@app.command("set")
def set_quotas(
    output: Output,
    cluster: NamedCluster,
    whose: EntityWords,
    amounts: QuotaWords,
    dry_run: DryRunOption = False,
) -> None:
    """Set quotas of a user, a client id, both together, or an address; others of it stay.

    A user and a client id have --produce, --consume, --requests and --mutations, an address
    --connection-rate and --connections. 0 stops what it counts.
    """
    did = "would set" if dry_run else "set"
    _alter(output, cluster, whose.entity(), amounts.values(), did, dry_run)


@app.command("list")
def list_quotas(
    output: Output,
    cluster: NamedCluster,
    whose: EntityWords,
    effective: Annotated[
        str | None,
        typed.Option(
            "--effective",
            metavar="PRINCIPAL",
            help="Those that count for User:NAME, with --client-id for that client id of it.",
        ),
    ] = None,
) -> None:
    """Show quotas: all of them, those of somebody, or with --effective those that count."""
    from oncelog import QuotaFilter

    if effective is not None:
        if whose != EntityWords(client_id=whose.client_id):
            raise UsageError("--effective takes no other name than --client-id")
        found = _effective(cluster, principal_of(effective), whose.client_id or "")
        if found:
            output.note("super users and brokers have no quotas")
    else:
        wanted = None if whose == EntityWords() else QuotaFilter(*whose.entity())
        described = cluster.ask(lambda admin: admin.describe_quotas(wanted))
        found = [
            (entity, key, value)
            for entity, values in described.items()
            for key, value in sorted(values.items())
        ]
    rows = [row_of(*each) for each in found]
    told = [{**row, "value": amount_text(row["key"], row["value"])} for row in rows]
    output.table(COLUMNS, told if output.is_for_people else rows)
    output.finish({"quotas": rows})


@app.command()
def delete(
    output: Output,
    cluster: NamedCluster,
    whose: EntityWords,
    key: Annotated[
        list[str] | None,
        typed.Option(
            "--key",
            metavar="NAME",
            help="Only this quota, such as producer_byte_rate; repeatable. Default: all of them.",
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete quotas of a user, a client id, both together, or an address."""
    from oncelog import QuotaFilter

    entity = whose.entity()
    unknown = sorted(set(key or ()) - set(entity.keys))
    if unknown:
        raise UsageError(f"--key {unknown[0]}: one of {', '.join(entity.keys)} is possible")
    wanted = QuotaFilter(*entity, strict=True)
    known = cluster.ask(lambda admin: admin.describe_quotas(wanted)).get(entity, {})
    doomed = [each for each in sorted(known) if not key or each in key]
    if not doomed:
        output.note("there is no such quota")
        output.finish({"dry_run": dry_run, "quotas": []}, CHANGE_COLUMNS)
        return
    if not dry_run:
        confirm(f"Delete {counted(len(doomed), 'quota')} of {entity.sentence()}?", yes)
    did = "would delete" if dry_run else "deleted"
    _alter(output, cluster, entity, dict.fromkeys(doomed), did, dry_run)


def _effective(
    cluster: NamedCluster, principal: str, client_id: str
) -> list[tuple[QuotaEntity, str, float]]:
    from oncelog.admin.quotas import effective_quotas

    described = cluster.ask(lambda admin: admin.describe_quotas())
    found = effective_quotas(described, principal, client_id)
    return [(entity, key, value) for key, (value, entity) in found.items()]


def _alter(
    output: Output,
    cluster: NamedCluster,
    entity: QuotaEntity,
    values: Mapping[str, float | None],
    did: str,
    dry_run: bool,
) -> None:
    from oncelog.admin.quotas import QuotaAlteration

    wished = [QuotaAlteration(entity, values)]
    outcomes = cluster.ask(lambda admin: admin.alter_quotas(wished, validate_only=dry_run))
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        value = values[outcome.key]
        row = {**row_of(entity, outcome.key, value), "altered": False}
        if outcome.error is None:
            amount = "" if value is None else f" to {amount_text(outcome.key, value)}"
            output.line(f"{did} {outcome.key} of {entity.sentence()}{amount}")
            row["altered"] = not dry_run
        else:
            output.fail(outcome.key, outcome.error)
            row["error"] = outcome.error.name
        rows.append(row)
    output.finish({"dry_run": dry_run, "quotas": rows}, CHANGE_COLUMNS)
