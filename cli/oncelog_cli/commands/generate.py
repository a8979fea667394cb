"""``oncelog generate`` prints files for Prometheus and Grafana on standard output.

They are those of ``deploy/`` in the repository; an installation carries them in the package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.exits import CommandError
from oncelog_cli.options import UsageError

if TYPE_CHECKING:
    from oncelog import Admin

DASHBOARD = "grafana/dashboards/oncelog.json"
ALERTS = "prometheus/alerts.yml"
PROMETHEUS = "prometheus/prometheus.yml"

_TARGETS = re.compile(r"targets: *\[[^\]]*\]")

app = typed.App(help="Print files for Prometheus and Grafana.")


def read_deployed(name: str) -> str:
    """Return one of the files of ``deploy/``: from the package, else from the checkout.

    :raises CommandError: this installation has none.
    """
    here = Path(__file__).resolve()
    for root in (here.parents[1] / "deploy", here.parents[3] / "deploy"):
        path = root / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise CommandError(f"this installation lacks deploy/{name}")


@app.command("grafana-dashboard")
def grafana_dashboard() -> None:
    """Print the dashboard as JSON; Grafana imports it, or finds it in a provisioned folder."""
    print(read_deployed(DASHBOARD), end="")


@app.command("alert-rules")
def alert_rules() -> None:
    """Print the alert rules for Prometheus."""
    print(read_deployed(ALERTS), end="")


@app.command("prometheus-config")
def prometheus_config(
    cluster: NamedCluster,
    target: Annotated[
        list[str] | None,
        typed.Option(
            "--target",
            "-t",
            metavar="HOST:PORT",
            help="A broker's metrics port; repeatable. Default: the brokers are asked.",
        ),
    ] = None,
) -> None:
    """Print a configuration of Prometheus that scrapes these brokers, or those of the cluster."""
    targets = list(dict.fromkeys(target or ()))
    for each in targets:
        host, colon, port = each.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(f"--target {each!r}: expected HOST:PORT")
    if not targets:
        targets = cluster.ask(_ask)
    text = read_deployed(PROMETHEUS)
    listed = "targets: [" + ", ".join(f'"{each}"' for each in targets) + "]"
    print(_TARGETS.sub(listed, text, count=1), end="")


async def _ask(admin: Admin) -> list[str]:
    found, without = await metrics_addresses(admin)
    if not found:
        raise CommandError(
            "no broker has a fixed metrics_port: set it, or name addresses with --target"
        )
    if without:
        names = ", ".join(map(str, without))
        raise CommandError(f"brokers {names} have no fixed metrics_port: name all with --target")
    return [f"{host}:{port}" for host, port in found.values()]


async def metrics_addresses(admin: Admin) -> tuple[dict[int, tuple[str, int]], Sequence[int]]:
    """Return where brokers answer to Prometheus, by id, and the brokers that do not.

    It goes by the brokers' settings. A broker that listens on every interface is named as its
    clients name it.
    """
    cluster = await admin.describe_cluster()
    found: dict[int, tuple[str, int]] = {}
    without = []
    keys = ["metrics_host", "metrics_port"]
    for broker in cluster.brokers:
        (outcome,) = await admin.describe_configs(brokers=[broker.broker_id], keys=keys)
        values = {key: setting.value for key, setting in outcome.settings.items()}
        port = values.get("metrics_port") or "0"
        host = values.get("metrics_host") or ""
        if not port.isdecimal() or int(port) == 0:
            without.append(broker.broker_id)
            continue
        if host in ("", "0.0.0.0", "::"):
            host = next(iter(sorted(broker.listeners.items())))[1][0]
        found[broker.broker_id] = (host, int(port))
    return found, without
