"""``oncelog cluster events`` shows what has happened at brokers lately, and what happens.

Rules: a broker that does not answer does not stop the others; it is a line on stderr, and the exit
code is then 1. While events are followed it is asked again and told of once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.events import chosen_events, described_events, event_rows, last
from oncelog_cli.offset_range import parse_time
from oncelog_cli.options import Format, OnlyBrokersOption, UsageError
from oncelog_cli.render import Column, Output, human_time
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog.admin.events import BrokerEvents, EventPosition

PAUSE_S = 1.0
"""Brokers are asked so often while events are followed."""


def _details(fields: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in fields.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


COLUMNS = (
    Column("TIME", "timestamp_ms", show=human_time),
    Column("BROKER", "broker_id", right=True),
    Column("EVENT", "name"),
    Column("LEVEL", "level", wide=True),
    Column("SEQUENCE", "sequence", right=True, wide=True),
    Column("FIELDS", "fields", show=_details),
)


def events(
    output: Output,
    cluster: NamedCluster,
    broker: OnlyBrokersOption = None,
    name: Annotated[
        list[str] | None,
        typed.Option("--event", metavar="NAME", help="Only events of this name; repeatable."),
    ] = None,
    topic: Annotated[
        str | None, typed.Option("--topic", "-t", metavar="NAME", help="Only events of this topic.")
    ] = None,
    since: Annotated[
        str | None,
        typed.Option(
            "--since", metavar="WHEN", help="Only from then on: a time, or a duration such as 1h."
        ),
    ] = None,
    until: Annotated[
        str | None, typed.Option("--until", metavar="WHEN", help="Only what was before.")
    ] = None,
    number: Annotated[
        int | None,
        typed.Option("--number", "-n", min=0, metavar="N", help="Only the last so many."),
    ] = None,
    follow: Annotated[
        bool, typed.Option("--follow", help="Go on with what happens, a line an event.")
    ] = False,
) -> None:
    """Show what has happened at brokers lately: leaders, ISRs, controllers, disks, groups.

    Each broker tells its last 4,096 events since its start, by its own clock. docs/logs.md says
    what each means.
    """
    if follow and output.format in (Format.JSON, Format.YAML):
        raise UsageError("--follow has no end, and JSON is one document: use --format tsv")
    if follow:
        if since is not None or until is not None:
            raise UsageError("--follow goes on from the last events: without --since and --until")
        run(_follow(cluster.servers, broker, name, topic, number, output))
        return
    since_ms, until_ms = _time("--since", since), _time("--until", until)
    answer = cluster.ask(
        lambda admin: described_events(
            admin,
            broker,
            names=name,
            number=number,
            topic=topic,
            since_ms=since_ms,
            until_ms=until_ms,
        )
    )
    output.show(COLUMNS, output.document_of(answer))


def _time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    found = parse_time(text, int(time.time() * 1000))
    if found is None:
        raise UsageError(f"{option} {text!r}: must be a time such as 2026-11-21T12:00:00Z, or 1h")
    return found


async def _follow(
    servers: str,
    brokers: list[int] | None,
    names: list[str] | None,
    topic: str | None,
    number: int | None,
    output: Output,
) -> None:
    """Print events until somebody ends it; a cluster that does not answer may yet come back."""
    import asyncio

    from oncelog import OncelogError

    places: dict[int, EventPosition] = {}
    silent: set[int] = set()
    async with clients.admin(servers) as admin:
        while True:
            found: list[BrokerEvents] = []
            try:
                found = await admin.describe_events(brokers or None, names=names, since=places)
            except (OncelogError, OSError) as error:
                output.note(str(error))
            for answer in found:
                if answer.error is None:
                    silent.discard(answer.broker_id)
                elif answer.broker_id not in silent:
                    silent.add(answer.broker_id)
                    output.note(f"broker {answer.broker_id}: {answer.error}")
                if answer.missed:
                    output.note(f"broker {answer.broker_id} has forgotten {answer.missed} events")
            places |= {each.broker_id: each.position for each in found if each.position is not None}
            for row in last(chosen_events(event_rows(found), topic=topic), number):
                _print_row(row, output)
            number = None
            await asyncio.sleep(PAUSE_S)


def _print_row(row: Mapping[str, Any], output: Output) -> None:
    if output.format is Format.TSV:
        output.table(COLUMNS, [row])
        return
    shown = [column for column in COLUMNS if output.format is Format.WIDE or not column.wide]
    cells = [
        str(row[column.key]) if column.show is None else column.show(row[column.key])
        for column in shown
    ]
    print("  ".join(cells), flush=True)
