"""``oncelog up``, ``down`` and ``status`` are for a cluster on this machine."""

from __future__ import annotations

import signal
import threading
import webbrowser
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from oncelog_cli import extras, typed
from oncelog_cli.local import secured
from oncelog_cli.local.cluster import BROKERS_DEFAULT, LocalCluster
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.options import (
    DirectoryOption,
    UsageError,
    YesOption,
    confirm,
    local_directory,
    typed_values,
)
from oncelog_cli.profiles import load_profiles, save_profiles
from oncelog_cli.render import Column, Output

COLUMNS = (
    Column("NAME", "name"),
    Column("STATE", "state"),
    Column("PID", "pid", right=True),
    Column("ADDRESS", "address"),
    Column("LOG", "log", wide=True),
    Column("DATA", "data", wide=True),
    Column("HTTP", "http", wide=True),
)

FOREGROUND_CHECK_S = 0.5


BrokerCountOption = Annotated[
    int | None,
    typed.Option("--brokers", "-n", min=1, max=99, help="How many brokers. Default: 3."),
]
ZookeeperOption = Annotated[
    str | None,
    typed.Option(
        "--zookeeper",
        metavar="HOST:PORT",
        help="Use a ZooKeeper that runs already. Default: start one.",
    ),
]
FirstPortOption = Annotated[
    int,
    typed.Option("--port", "-p", min=0, max=65000, help="First broker's port; 0 takes free ones."),
]
SettingOption = Annotated[
    list[str] | None,
    typed.Option("--set", metavar="KEY=VALUE", help="A setting of every broker; repeatable."),
]
MetricsOption = Annotated[
    bool, typed.Option("--metrics/--no-metrics", help="Metrics and probes of every broker.")
]
SecureOption = Annotated[
    bool,
    typed.Option(
        "--secure", help="TLS, passwords and ACLs, and a profile with the admin's password."
    ),
]
ConsoleOption = Annotated[
    bool,
    typed.Option("--console", help="The console for a browser as well; it may change all."),
]
KafkaOption = Annotated[
    bool, typed.Option("--kafka", help="A listener of every broker for clients of Kafka as well.")
]
OpenOption = Annotated[bool, typed.Option("--open", help="Open a browser; with --console.")]
ForegroundOption = Annotated[
    bool, typed.Option("--foreground", help="Stay, and stop the cluster on Ctrl+C.")
]


def up(
    output: Output,
    brokers: BrokerCountOption = None,
    directory: DirectoryOption = None,
    zookeeper: ZookeeperOption = None,
    port: FirstPortOption = 0,
    setting: SettingOption = None,
    metrics: MetricsOption = True,
    secure: SecureOption = False,
    console: ConsoleOption = False,
    open_browser: OpenOption = False,
    kafka: KafkaOption = False,
    foreground: ForegroundOption = False,
) -> None:
    """Start ZooKeeper and brokers on this machine, and return when they serve.

    Metrics and probes are on a free port of this machine each; 'status -f wide' says where.
    Everything, data and logs, is under one directory. What a stopped cluster left there is used
    again: brokers keep their ports, settings and data.

    With --secure every listener speaks TLS, clients prove by a password who they are, and ACLs
    decide what they may do. A random password of User:admin, who may do everything, is in a file
    that nobody else may read. A profile names it, so that commands need no more options; it is
    used from now on if no other profile is.

    With --console a browser can look at the cluster, and change it; 'status' says where. Who looks
    at a secured one needs the token in a file beside the console's log; the browser that --open
    opens is signed in.

    With --kafka every broker has a listener that speaks Kafka's protocol as well, on a free port
    that it keeps.
    """
    extras.need("local", extras.BROKER, "a cluster on this machine")
    if console:
        extras.need("console", extras.CONSOLE, "the console")
    elif open_browser:
        raise UsageError("--open goes with --console")
    settings = typed_values("--set", setting or [])
    place = local_directory(directory)
    cluster = _chosen_cluster(
        place, brokers, zookeeper, port, settings, metrics=metrics, secure=secure
    )
    if kafka:
        cluster.serve_kafka()
    profile = _start(cluster, output)
    if console:
        _start_console(cluster, output, profile, open_browser=open_browser)
    _show(cluster, output, finish=not foreground)
    if foreground:
        _stay(cluster, output)


def _start(cluster: LocalCluster, output: Output) -> str | None:
    """Start a cluster; a profile knows a secured one then, and its name is returned."""
    if cluster.secure:
        load_profiles()  # if they cannot be read, that is told before anything starts
    cluster.start(progress=output.note)
    if not cluster.secure:
        return None
    profiles, name = secured.with_profile_for(load_profiles(), cluster.directory, cluster.bootstrap)
    save_profiles(profiles)
    return name


def _start_console(
    cluster: LocalCluster, output: Output, profile: str | None, *, open_browser: bool
) -> None:
    begun = cluster.start_console(profile, open_browser=open_browser, progress=output.note)
    if open_browser and not begun:
        webbrowser.open(cluster.console.url)  # one that runs already signs nobody in


def _chosen_cluster(
    place: Path,
    brokers: int | None,
    zookeeper: str | None,
    port: int,
    settings: dict[str, Any],
    *,
    metrics: bool,
    secure: bool,
) -> LocalCluster:
    """Return the cluster in ``place``, changed as far as it can be, or a new one.

    :raises UsageError: what is asked for is not what lies there.
    """
    if not (place / "cluster.json").exists():
        return LocalCluster(
            place,
            brokers=brokers or BROKERS_DEFAULT,
            zookeeper=zookeeper,
            base_port=port,
            settings=settings,
            metrics=metrics,
            secure=secure,
        )
    cluster = LocalCluster.load(place)
    cluster.expose_metrics(metrics)
    remedy = "Remedy: 'oncelog down --delete' first, or another --dir"
    if zookeeper is not None and zookeeper != cluster.external_zookeeper:
        raise UsageError(f"the cluster in {place} uses another ZooKeeper. {remedy}")
    if port and port != next(iter(cluster.brokers.values())).port:
        raise UsageError(f"the cluster in {place} has ports already. {remedy}")
    if secure and not cluster.secure:
        raise UsageError(f"the cluster in {place} is not secured. {remedy}")
    cluster.grow(brokers or len(cluster.brokers))
    cluster.settings.update(settings)
    return cluster


def down(
    output: Output,
    directory: DirectoryOption = None,
    delete: Annotated[
        bool, typed.Option("--delete", help="Remove its data and logs as well.")
    ] = False,
    timeout: Annotated[
        float, typed.Option(min=0, metavar="SECONDS", help="Then brokers are killed.")
    ] = 30.0,
    yes: YesOption = False,
) -> None:
    """Stop the console, the brokers cleanly, then ZooKeeper."""
    cluster = LocalCluster.load(local_directory(directory))
    if delete:
        confirm(f"Remove all data in {cluster.directory}?", yes)
    clean = cluster.stop(deadline_s=timeout, progress=output.note)
    if not clean:
        output.fail("", "not every broker stopped in time; those were killed")
    status = _status(cluster)
    if delete:
        cluster.delete()
        if status["profile"] is not None:
            save_profiles(load_profiles().without(status["profile"]))
    output.finish({**status, "clean": clean, "deleted": delete})


def status(
    output: Output,
    directory: DirectoryOption = None,
) -> None:
    """Show the processes of the cluster on this machine."""
    _show(LocalCluster.load(local_directory(directory)), output, finish=True)


def _status(cluster: LocalCluster) -> dict[str, Any]:
    """Return what runs where, and the profile that its start has written."""
    of_it = secured.profile_of(load_profiles(), cluster.directory) if cluster.secure else None
    return {**cluster.status(), "profile": of_it}


def _show(cluster: LocalCluster, output: Output, *, finish: bool) -> None:
    status = _status(cluster)
    output.table(COLUMNS, status["processes"])
    output.line()
    output.line(f"bootstrap  {status['bootstrap']}")
    if status["kafka_bootstrap"] is not None:
        output.line(f"kafka      {status['kafka_bootstrap']}")
    if cluster.console.is_alive():
        output.line(f"console    {cluster.console.url}")
        if cluster.secure:
            output.line(f"token      {cluster.console.token_path}")
    output.line(f"directory  {status['directory']}")
    if status["profile"] is not None:
        output.line(f"profile    {status['profile']}")
    if finish or output.is_json:
        output.finish(status)


def _stay(cluster: LocalCluster, output: Output) -> None:
    """Wait until a signal comes; a process that dies meanwhile is reported."""
    leave = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        leave.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    output.note("running; Ctrl+C stops the cluster")
    dead: set[str] = set()
    while not leave.wait(FOREGROUND_CHECK_S):
        for row in cluster.status()["processes"]:
            if row["state"] == "stopped" and row["name"] not in dead:
                dead.add(row["name"])
                output.note(f"{row['name']} has ended; its log: {row['log']}")
    if not cluster.stop(progress=output.note):
        raise LocalClusterError("not every broker stopped in time; those were killed")
