"""``python -m oncelog_broker --config FILE [--ready-file PATH]``: one broker in the foreground.

SIGTERM and SIGINT stop it cleanly (a second one at once). Exit codes: 0 stopped as asked, 1 failed,
2 a configuration that cannot work.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig, ConfigError, load_config
from oncelog_broker.logging import configure_logging
from oncelog_controller.store import MetadataStore, StoreError
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_protocol.errors import OncelogError
from oncelog_runtime.clock import SystemWallClock
from oncelog_runtime.entropy import SystemEntropy
from oncelog_runtime.files import Files, SystemFiles

logger = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_CONFIG = 2
GC_THRESHOLDS = (50_000, 50, 100)
"""Requests make much short-lived garbage without cycles; collecting it often costs throughput."""


def main(argv: list[str] | None = None) -> int:
    """Run a broker until it is told to stop; returns the exit code."""
    options = _parse(argv)
    try:
        config = load_config(options.config)
        if not config.zookeeper_connect:
            raise ConfigError(
                "zookeeper_connect",
                "is required",
                'Add zookeeper_connect = "host:2181[/chroot]" to the file',
                options.config,
            )
        configure_logging(config.log_format, config.log_level, config.broker_id)
        _raise_file_limit()
        return _run(_serve(config, options.ready_file))
    except ConfigError as exc:
        if not exc.source:
            exc = ConfigError(exc.key, exc.problem, exc.remedy, options.config)
        sys.stderr.write(f"configuration error: {exc}\n")
        return EXIT_CONFIG


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="oncelog_broker", description="Run one Oncelog broker.")
    parser.add_argument("--config", required=True, metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--ready-file", metavar="PATH", help="written as JSON when the broker serves clients"
    )
    return parser.parse_args(argv)


def _run(main_coro: Coroutine[Any, Any, int]) -> int:
    """uvloop where there is one, else the standard loop."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        pass
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main_coro)


def make_store(config: BrokerConfig) -> MetadataStore:
    """ZooKeeper at ``zookeeper_connect``, whose chroot follows the first slash."""
    return ZooKeeperStore.from_connect_string(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connect_timeout_ms=config.zookeeper_connection_timeout_ms,
    )


async def _serve(config: BrokerConfig, ready_file: str | None) -> int:
    files = SystemFiles()
    if ready_file is not None and files.exists(ready_file):
        files.remove(ready_file)
    broker = Broker(
        config,
        files=files,
        clock=SystemWallClock(),
        entropy=SystemEntropy(),
        metadata_store=make_store(config),
    )
    stop = _stop_signal()
    try:
        if not await _start(broker, stop):
            return 0
    except StoreError as exc:
        logger.error("no contact with ZooKeeper at %s: %s", config.zookeeper_connect, exc)
        return EXIT_FAILED
    except ConfigError:
        raise
    except (OncelogError, OSError) as exc:
        logger.error("the broker cannot start: %s", exc)
        return EXIT_FAILED
    if ready_file is not None:
        _write_ready_file(files, ready_file, broker)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    failed = await _until_stopped(broker, stop)
    await broker.stop(clean=not failed)
    if ready_file is not None and files.exists(ready_file):
        files.remove(ready_file)
    return EXIT_FAILED if failed else 0


def _stop_signal() -> asyncio.Future[None]:
    """Done with the first signal; the second one ends the process."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal(number: int) -> None:
        if stop.done():
            os._exit(EXIT_FAILED)
        logger.info("%s: stopping", signal.Signals(number).name)
        stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop


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
    """Wait for a signal or a failure; true when it was a failure."""
    ended = asyncio.Event()
    stop.add_done_callback(lambda _: ended.set())
    broker.failed.add_done_callback(lambda _: ended.set())
    await ended.wait()
    return broker.failed.done()


def _write_ready_file(files: Files, path: str, broker: Broker) -> None:
    document = {
        "broker_id": broker.broker_id,
        "pid": os.getpid(),
        "listeners": {name: list(address) for name, address in broker.addresses.items()},
    }
    files.write_atomic_now(path, json.dumps(document).encode())


def _raise_file_limit() -> None:
    """Segments, indexes and connections all take descriptors: use what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as exc:
            logger.warning("the limit of open files stays at %d: %s", soft, exc)


if __name__ == "__main__":
    sys.exit(main())
