"""``oncelog console`` and ``bench`` are programs of other rooms, run as processes.

The command line never imports them: it becomes them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from oncelog_cli import extras, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.invocation import CURRENT
from oncelog_cli.local.console import CONSOLE_OPTIONS, HOST, PORT, console_command
from oncelog_cli.runner import become, own_environment


def console(
    cluster: NamedCluster,
    host: Annotated[
        str | None, typed.Option(metavar="ADDRESS", help=f"Listen there. Default: {HOST}.")
    ] = None,
    port: Annotated[
        int | None,
        typed.Option(min=0, max=65535, help=f"And there; 0 takes a free one. Default: {PORT}."),
    ] = None,
    allow_changes: Annotated[
        bool, typed.Option("--allow-changes", help="The cluster may be changed there.")
    ] = False,
    open_browser: Annotated[
        bool, typed.Option("--open", help="Open a browser, which is signed in.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typed.Option("--token-file", metavar="FILE", help="Who signs in shows the token in it."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typed.Option(
            "--allowed-host", metavar="NAME", help="Browsers may call it by this name; repeatable."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typed.Option("--tls-cert", metavar="FILE", help="Certificates, as PEM.")
    ] = None,
    tls_key: Annotated[
        Path | None, typed.Option("--tls-key", metavar="FILE", help="Their key, as PEM.")
    ] = None,
    history: Annotated[
        str | None, typed.Option(metavar="DURATION", help="Charts go back so far. Default: 6h.")
    ] = None,
) -> None:
    """Show the cluster in a browser; Ctrl+C ends it.

    Nothing can be changed there without --allow-changes. Only browsers on this machine reach it,
    unless --host says otherwise; then it wants a token, and the name by which browsers call it.
    """
    extras.need("console", extras.CONSOLE, "the console")
    given = {
        "--host": host,
        "--port": port,
        "--token-file": token_file,
        "--tls-cert": tls_cert,
        "--tls-key": tls_key,
        "--history": history,
        "--bootstrap": cluster.named,
        "--profile": CURRENT.get().profile,
    }
    arguments = [f"{name}={value}" for name, value in given.items() if value is not None]
    arguments += [f"--allowed-host={name}" for name in allowed_host or ()]
    arguments += ["--allow-changes"] * allow_changes + ["--open"] * open_browser
    # Not as arguments: a password among them would stand in the list of processes all day.
    options = "\n".join(f"{name}={value}" for name, value in CURRENT.get().options.items())
    become(console_command(arguments), {**own_environment(), CONSOLE_OPTIONS: options})


def bench(context: typed.Context) -> None:
    """Measure the speed on this machine; every argument goes to ``python -m oncelog_bench``."""
    extras.need("local", extras.BROKER, "bench")
    become([sys.executable, "-m", "oncelog_bench", *context.args], own_environment())
