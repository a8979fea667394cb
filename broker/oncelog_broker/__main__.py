"""One broker is run in the foreground by this program.

``python -m oncelog_broker [--config FILE] [--set KEY=VALUE]``

With ``config check`` or ``config show`` it tells what the broker's settings are. With ``--add-user
NAME`` it makes a user in the store, before the cluster's first start, and with
``--secure-zookeeper`` it leaves the store to the brokers alone, while they run. SIGTERM and SIGINT
stop it cleanly (a second one at once); SIGHUP has renewed files of TLS taken at once. Exit codes:
0 stopped as asked, 1 failed, 2 a configuration that cannot work, 3 the user to be added is there
already.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import getpass
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog_broker import store_commands
from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig, ConfigError, Loaded, load, report
from oncelog_broker.log_levels import set_levels
from oncelog_broker.logging import configure_logging, record_events
from oncelog_broker.zookeeper_settings import zookeeper_store
from oncelog_controller.store import AccessDeniedError, StoreError
from oncelog_protocol.errors import DuplicateResourceError, OncelogError
from oncelog_runtime.allocator import keep_freed_memory
from oncelog_runtime.audit_file import AuditFile
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SystemEntropy
from oncelog_runtime.files import Files, SystemFiles
from oncelog_runtime.observe import precise_time
from oncelog_runtime.secret_files import SecretFileError
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.turns import BOUND_S, LongTurn, TurnWatch

if TYPE_CHECKING:
    from oncelog_broker.observability.endpoint import Endpoint

logger = get_logger(__name__)

EXIT_FAILED = 1
EXIT_CONFIG = 2
EXIT_THERE = 3
"""What was to be made is there already."""
GC_THRESHOLDS = (20_000, 125, 100)
"""Requests make much short-lived garbage without cycles; collecting it often costs throughput. A
look at more young objects at once is a turn of its own, of 40 ms for 50,000 on a busy machine."""
T = TypeVar("T")
HELD_LONG_S = 1.0
"""A turn of so long is a warning even where the machine was slow: a disk may hang."""


def main(argv: list[str] | None = None) -> int:
    """Run a broker until it is told to stop; return the exit code."""
    options = _parse(argv)
    try:
        loaded = load(options.config, environment=os.environ, arguments=options.settings)
        if options.verb is not None:
            return _tell(loaded, options)
        if options.add_user is not None:
            return _add_user(loaded.config, options)
        if options.secure_zookeeper or options.open_zookeeper:
            return _change_zookeeper(loaded.config, secure=options.secure_zookeeper)
        return _run_broker(loaded, options)
    except ConfigError as exc:
        if not exc.source:
            where = options.config or "settings"
            exc = ConfigError(exc.key, exc.problem, exc.remedy, where, exc.others)
        if options.verb is not None and options.json:
            sys.stdout.write(json.dumps(report.mistakes_document(exc)) + "\n")
        else:
            for mistake in exc.all:
                sys.stderr.write(f"configuration error: {mistake.message}\n")
        return EXIT_CONFIG


def _run_broker(loaded: Loaded, options: argparse.Namespace) -> int:
    audit = _configure_logging(loaded.config, loaded.config.audit_log_file)
    _raise_file_limit()
    keep_freed_memory(os.environ)
    try:
        return _run(_serve(loaded, options.ready_file, audit))
    finally:
        if audit is not None:
            audit.close()


def _configure_logging(config: BrokerConfig, audit_file: str | None = None) -> AuditFile | None:
    try:
        return configure_logging(
            config.log_format,
            config.log_level,
            config.broker_id,
            levels=config.log_levels,
            repeat_max=config.log_repeat_max,
            audit_file=audit_file,
        )
    except OSError as exc:
        problem = f"{audit_file} cannot be written ({exc.strerror or exc})"
        remedy = "Name a file in a directory that this user may write to"
        raise ConfigError("audit_log_file", problem, remedy) from exc


def _add_user(config: BrokerConfig, options: argparse.Namespace) -> int:
    """Make a user in the store, which is not served by brokers yet."""
    _configure_logging(config)
    try:
        ask = getpass.getpass if sys.stdin.isatty() else None
        password = store_commands.password_from(options.password_file, sys.stdin, ask)
    except SecretFileError as exc:
        sys.stderr.write(f"error: --password-file: {exc}\n")
        return EXIT_CONFIG

    async def added() -> str:
        await store_commands.add_user(config, SystemEntropy(), options.add_user, password)
        return f"added {options.add_user}"

    return _carry_out(added())


def _change_zookeeper(config: BrokerConfig, *, secure: bool) -> int:
    """Say anew for whom the cluster's nodes in ZooKeeper are."""
    _configure_logging(config)
    change = store_commands.secure_zookeeper if secure else store_commands.open_zookeeper

    async def changed() -> str:
        walked = await change(config)
        for path in walked.strangers:
            sys.stderr.write(f"left the root as it was, for it is shared: {path} is not ours\n")
        nodes = "1 node" if walked.changed == 1 else f"{walked.changed} nodes"
        return f"changed {nodes}: all are for {'the brokers alone' if secure else 'everybody'}"

    return _carry_out(changed())


def _carry_out(command: Coroutine[Any, Any, str]) -> int:
    """Run what is done to the store instead of serving, and say what it says."""
    try:
        sys.stdout.write(f"{_run(command)}\n")
    except ConfigError:
        raise
    except OncelogError as exc:
        sys.stderr.write(f"error: {exc}\n")
        return EXIT_THERE if isinstance(exc, DuplicateResourceError) else EXIT_FAILED
    return 0


def _tell(loaded: Loaded, options: argparse.Namespace) -> int:
    """Carry out ``config check`` and ``config show``, which tell what would be run with."""
    document: dict[str, Any] = {"ignored": list(loaded.ignored)}
    if options.verb == "show":
        rows = report.shown_settings(loaded)
        document["settings"] = [row.document() for row in rows]
    if options.json:
        sys.stdout.write(json.dumps(document) + "\n")
    elif options.verb == "show":
        sys.stdout.writelines(f"{line}\n" for line in report.table(rows))
    else:
        sys.stdout.write("the settings are valid\n")
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oncelog_broker", description="Run one Oncelog broker.")
    _add_sources(parser, {"config": None, "settings": []})
    parser.add_argument(
        "--ready-file", metavar="PATH", help="written as JSON when the broker serves clients"
    )
    parser.add_argument(
        "--add-user",
        metavar="NAME",
        help="make a user in the store instead of running, before the cluster's first start",
    )
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help="with --add-user: the password is in this file, which only its owner may read; - is "
        "standard input. Default: ask for it",
    )
    access = parser.add_mutually_exclusive_group()
    access.add_argument(
        "--secure-zookeeper",
        action="store_true",
        help="leave all that the cluster keeps in ZooKeeper to the brokers alone, instead of "
        "running; all brokers have zookeeper_acl=creator by then",
    )
    access.add_argument(
        "--open-zookeeper",
        action="store_true",
        help="give it back to everybody; all brokers have zookeeper_acl=open by then",
    )
    parser.set_defaults(verb=None)
    about = parser.add_subparsers(title="instead of running").add_parser(
        "config", help="check or show the settings, and run nothing"
    )
    about.add_argument("verb", choices=("check", "show"))
    about.add_argument("--json", action="store_true", help="one JSON document")
    _add_sources(about, {})
    return parser.parse_args(argv)


def _add_sources(parser: argparse.ArgumentParser, defaults: dict[str, Any]) -> None:
    """Add the options for sources of settings. ``defaults`` are said once: those of a sub-command
    would hide what stands before it."""
    unset = argparse.SUPPRESS
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=defaults.get("config", unset),
        help="settings in TOML",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="settings",
        action="extend",
        nargs=1,
        default=defaults.get("settings", unset),
        help="one setting, before file and environment; repeatable",
    )


def _run(main_coro: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on uvloop where there is one, else on the standard loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        pass
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main_coro)


def _log_settings(loaded: Loaded) -> None:
    chosen = report.chosen_settings(loaded)
    logger.info(
        "settings", settings=" ".join(f"{key}={text}" for key, text in sorted(chosen.items()))
    )
    for name in loaded.ignored:
        logger.info("variable_ignored", variable=name)


def _set_log_levels(config: BrokerConfig) -> None:
    set_levels(config.log_level, config.log_levels)


async def _serve(loaded: Loaded, ready_file: str | None, audit: AuditFile | None) -> int:
    config = loaded.config
    files = SystemFiles()
    if ready_file is not None and files.exists(ready_file):
        files.remove(ready_file)
    broker = Broker(
        config,
        files=files,
        clock=SystemWallClock(),
        entropy=SystemEntropy(),
        metadata_store=zookeeper_store(config),
    )
    forget = record_events(broker.events)
    turns = TurnWatch(log_held)
    endpoint = None if config.metrics_port is None else _endpoint(broker, turns, audit)
    turns.start()
    try:
        return await _live(loaded, broker, endpoint, ready_file)
    finally:
        turns.stop()
        forget()
        if endpoint is not None:
            await endpoint.close()


def log_held(held: LongTurn) -> None:
    """Log a warning where the work was long; a machine that was slow is worth a line."""
    serious = held.cpu_s >= BOUND_S or held.seconds >= HELD_LONG_S
    logger.log(
        logging.WARNING if serious else logging.INFO,
        "loop_held",
        held_ms=round(held.seconds * 1000),
        cpu_ms=round(held.cpu_s * 1000),
        ran=held.ran or "nobody saw what",
    )


def _endpoint(broker: Broker, turns: TurnWatch, audit: AuditFile | None) -> Endpoint:
    # An HTTP server and a metrics library, for those only who want them.
    from oncelog_broker.observability.endpoint import Endpoint

    return Endpoint(broker, precise_time, turns, audit)


async def _live(
    loaded: Loaded, broker: Broker, endpoint: Endpoint | None, ready_file: str | None
) -> int:
    """Run from the first signal handler to the broker's end; return its exit code."""
    config, files = loaded.config, broker.files
    stop = _stop_signal()
    _log_settings(loaded)
    broker.live.on_change.append(lambda: _set_log_levels(broker.live.current))
    try:
        if endpoint is not None:
            await endpoint.start()  # first, so that the start can be watched
        if not await _start(broker, stop):
            return 0
    except AccessDeniedError as exc:
        logger.error("zookeeper_access_denied", address=config.zookeeper_connect, error=exc)
        return EXIT_FAILED
    except StoreError as exc:
        logger.error("zookeeper_unreachable", address=config.zookeeper_connect, error=exc)
        return EXIT_FAILED
    except ConfigError:
        raise
    except (OncelogError, OSError) as exc:
        logger.error("start_failed", error=exc)
        return EXIT_FAILED
    _heed_hangup(broker)
    if ready_file is not None:
        _write_ready_file(files, ready_file, broker, endpoint)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    failed = await _until_stopped(broker, stop)
    await broker.stop(clean=not failed)
    if ready_file is not None and files.exists(ready_file):
        files.remove(ready_file)
    return EXIT_FAILED if failed else 0


def _stop_signal() -> asyncio.Future[None]:
    """Return a future that is done with the first signal; the second one ends the process."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal(number: int) -> None:
        if stop.done():
            os._exit(EXIT_FAILED)
        logger.info("stop_requested", signal=signal.Signals(number).name)
        stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop


def _heed_hangup(broker: Broker) -> None:
    """Have SIGHUP look at the files of TLS; without any it ends the process, as ever."""
    if any(listener.tls_certificate_file for listener in broker.config.listeners):
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, broker.tls_watch.look_soon)


async def _start(broker: Broker, stop: asyncio.Future[None]) -> bool:
    """Start, unless told to stop meanwhile."""
    starting = asyncio.ensure_future(broker.start())
    stop.add_done_callback(lambda _: starting.cancel())
    try:
        await starting
    except asyncio.CancelledError:
        if not stop.done():
            raise
        return False
    return True


async def _until_stopped(broker: Broker, stop: asyncio.Future[None]) -> bool:
    """Wait for a signal or a failure; return true when it was a failure."""
    ended = asyncio.Event()
    stop.add_done_callback(lambda _: ended.set())
    broker.failed.add_done_callback(lambda _: ended.set())
    await ended.wait()
    return broker.failed.done()


def _write_ready_file(files: Files, path: str, broker: Broker, endpoint: Endpoint | None) -> None:
    document: dict[str, Any] = {
        "broker_id": broker.broker_id,
        "pid": os.getpid(),
        "listeners": {name: list(address) for name, address in broker.addresses.items()},
    }
    if endpoint is not None:
        document["http"] = list(endpoint.address)
    files.write_atomic_now(path, json.dumps(document).encode())


def _raise_file_limit() -> None:
    """Use as many descriptors as the system allows: segments, indexes and connections all take
    some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as exc:
            logger.warning("file_limit_not_raised", limit=soft, error=exc)


if __name__ == "__main__":
    sys.exit(main())
