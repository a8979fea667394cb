"""One console is run in the foreground by this program; ``oncelog console`` starts it.

``python -m oncelog_console [--bootstrap HOST:PORT] [--profile NAME] [-X KEY=VALUE] [--port N] ...``

It prints one line with its address. SIGTERM and SIGINT stop it. Exit codes: 0 stopped as asked, 1
failed, 2 options that cannot work.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from oncelog.errors import ConfigurationError
from oncelog_cli import clients as cli_clients
from oncelog_cli.exits import EXIT_FAILED, EXIT_USAGE, UsageError
from oncelog_cli.group_offsets import duration_ms
from oncelog_cli.invocation import Invocation, invoked, parse_client_options
from oncelog_cli.local.console import CONSOLE_OPTIONS, HOST, PORT
from oncelog_cli.options import bootstrap_servers
from oncelog_cli.profiles import chosen_profile
from oncelog_console.app import ConsoleApp
from oncelog_console.clients import ClusterClients
from oncelog_console.console import Console
from oncelog_console.logs import configure_logging
from oncelog_console.security import LOOPBACK_NAMES
from oncelog_console.settings import HISTORY_MS, ConsoleSettings
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.types import address_text
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SystemEntropy
from oncelog_runtime.http_port import HttpPort
from oncelog_runtime.tls_contexts import ServerTls, TlsFiles

COLOURS = ("grey", "red", "green", "blue", "orange")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a console until it is told to stop; return the exit code."""
    options = _parse(argv)
    configure_logging(sys.stderr)
    try:
        items = [*options.client_options, *os.environ.get(CONSOLE_OPTIONS, "").splitlines()]
        invocation = Invocation(options.profile, parse_client_options(items))
        with invoked(invocation):
            clients = _clients(options.bootstrap)
            settings = settings_of(options)
        tls = _tls(options)
        return asyncio.run(_serve(clients, settings, tls, open_browser=options.open))
    except (UsageError, ConfigurationError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OncelogError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_FAILED


def settings_of(options: argparse.Namespace) -> ConsoleSettings:
    """Return the settings that options and profile give.

    :raises UsageError: options that do not fit together.
    """
    token = None
    if options.token_file is not None:
        token = Path(options.token_file).read_text(encoding="utf-8").strip()
        if not token:
            raise UsageError(f"--token-file {options.token_file} is empty")
    if options.host not in LOOPBACK_NAMES and (token is None or not options.allowed_host):
        raise UsageError(
            f"--host {options.host} is reached by others: give --token-file, and --allowed-host"
            " with the name by which browsers call it"
        )
    if bool(options.tls_cert) != bool(options.tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    try:
        history_ms = duration_ms(options.history)
    except ValueError as error:
        raise UsageError(f"--history: {error}") from None
    profile = chosen_profile(options.profile)
    label = profile[1].console if profile is not None else {}
    colour = str(label.get("colour", ""))
    if colour and colour not in COLOURS:
        raise UsageError(f"profile: console.colour {colour!r}: there are {', '.join(COLOURS)}")
    return ConsoleSettings(
        host=options.host,
        port=options.port,
        allow_changes=options.allow_changes,
        token=token,
        allowed_hosts=tuple(options.allowed_host),
        history_ms=history_ms,
        label=str(label.get("label", "")),
        colour=colour,
        profile=options.profile or "",
    )


async def _serve(
    clients: ClusterClients, settings: ConsoleSettings, tls: ServerTls | None, *, open_browser: bool
) -> int:
    async with Console(clients, settings, SystemWallClock(), SystemEntropy()) as console:
        http = HttpPort(
            ConsoleApp(console, lambda: http.address[1], tls=tls is not None), tls, headers=()
        )
        try:
            await http.start(settings.host, settings.port)
        except OSError as error:
            raise UsageError(
                f"{settings.host}:{settings.port} cannot be listened on: {error.strerror}. Remedy:"
                " another --port; 0 takes a free one"
            ) from None
        scheme = "http" if tls is None else "https"
        address = f"{scheme}://{address_text(*http.address)}"
        print(f"console listening on {address}", flush=True)
        if open_browser:
            code = "" if console.sessions.open else f"/sign-in/{console.sessions.one_time_code()}"
            webbrowser.open(address + code)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        try:
            await stopped.wait()
        finally:
            await http.close()
    return 0


def _clients(bootstrap: str | None) -> ClusterClients:
    servers = bootstrap_servers(bootstrap)
    options = {k: v for k, v in cli_clients.client_options().items() if k != "client_id"}
    security = None if "://" in servers else cli_clients.client_security()
    return ClusterClients(servers, security, options)


def _tls(options: argparse.Namespace) -> ServerTls | None:
    if not options.tls_cert:
        return None
    files = TlsFiles(min_version="1.2", certificate_file=options.tls_cert, key_file=options.tls_key)
    return ServerTls(files, "none", SystemWallClock())


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="oncelog console", description="Show a cluster in a browser."
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="brokers of the cluster")
    parser.add_argument("--profile", metavar="NAME", help="settings to use")
    parser.add_argument(
        "-X", dest="client_options", action="append", default=[], metavar="KEY=VALUE",
        help="an option of the clients; repeatable",
    )  # fmt: skip
    parser.add_argument("--host", default=HOST, help="listen on this address")
    parser.add_argument("--port", type=int, default=PORT, help="and port; 0 takes a free one")
    parser.add_argument("--allow-changes", action="store_true", help="the cluster may be changed")
    parser.add_argument("--open", action="store_true", help="open a browser")
    parser.add_argument("--token-file", metavar="F", help="who signs in shows the token in it")
    parser.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME",
        help="browsers may call the console by this name; repeatable",
    )  # fmt: skip
    parser.add_argument("--tls-cert", metavar="F", help="certificate, as PEM")
    parser.add_argument("--tls-key", metavar="F", help="its key, as PEM")
    parser.add_argument(
        "--history", default=f"{HISTORY_MS // 3_600_000}h", metavar="DURATION",
        help="figures of so long are kept for charts",
    )  # fmt: skip
    return parser.parse_args(argv)


if __name__ == "__main__":
    logging.captureWarnings(True)
    sys.exit(main())
