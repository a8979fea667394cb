"""``oncelog support-bundle`` makes one zip file for somebody who was not there.

Versions, the cluster and its health, topics, settings, log directories, groups, transactions, the
brokers' metrics, and logs and files of a local cluster. What cannot be had is noted in the bundle:
it is made when something is broken, so that alone is no failure. That nobody answers at all is one,
and the bundle is made all the same.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
import time
import urllib.request
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.bundle import BYTES_MAX, Bundle, masked_value
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.commands.generate import metrics_addresses
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.documents.cluster import snapshot
from oncelog_cli.exits import CommandError
from oncelog_cli.health import HealthLimits, check_all
from oncelog_cli.options import DirectoryOption, UsageError, local_directory
from oncelog_cli.render import Column, Output
from oncelog_cli.runner import run

if TYPE_CHECKING:
    from oncelog import Admin
    from oncelog.admin.results import ConfigOutcome

PART_S = 15.0
"""No question is waited for longer: somebody waits for the bundle."""
METRICS_BYTES_MAX = 4 * 1024 * 1024
PACKAGES = ("oncelog", "msgpack", "crc32c", "kazoo", "uvloop", "pydantic", "structlog", "pyspark")

COLUMNS = (
    Column("PART", "name"),
    Column("BYTES", "size_bytes", right=True),
    Column("NOTE", "note", show=lambda value: value or ""),
)


def support_bundle(
    output: Output,
    cluster: NamedCluster,
    file: Annotated[
        Path | None,
        typed.Option(
            "--output", "-o", metavar="PATH", help="Default: oncelog-bundle-<time>.zip, here."
        ),
    ] = None,
    size: Annotated[
        int,
        typed.Option(
            "--max-bytes", min=10_000, metavar="N", help="Of all parts, before compression."
        ),
    ] = BYTES_MAX,
    logs: Annotated[
        bool, typed.Option("--logs/--no-logs", help="Logs and files of the local cluster.")
    ] = True,
    directory: DirectoryOption = None,
) -> None:
    """Gather what is known of the cluster into one zip file, without records and secrets."""
    moment = datetime.now(UTC)
    path = file or Path(f"oncelog-bundle-{moment:%Y%m%dT%H%M%SZ}.zip")
    if path.exists():
        raise UsageError(f"{path} exists: name another file with --output")
    place = local_directory(directory)
    servers = None
    try:
        servers = cluster.servers
    except UsageError as error:
        if not (place / "cluster.json").exists():
            raise
        output.note(str(error))
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
        bundle = Bundle(archive, size)
        bundle.add_json("versions.json", versions())
        if servers is not None:
            failure = run(_ask(servers, bundle))
            if failure is not None:
                output.fail("", failure)  # the bundle is made all the same
        if logs:
            _add_local(place, bundle)
        bundle.finish({"made": moment.isoformat(timespec="seconds"), "bootstrap": servers})
    rows = [
        {
            **fields_of(part, "name size_bytes"),
            "note": part.error or ("only its end" if part.cut else ""),
        }
        for part in bundle.parts
    ]
    output.table(COLUMNS, rows)
    output.note(f"{path}: {path.stat().st_size:,} bytes")
    output.finish({"file": str(path), "file_bytes": path.stat().st_size, "parts": rows})


def versions() -> dict[str, Any]:
    """Return the versions of this command's side, not of the brokers'."""
    found: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "packages": found,
        "time_ms": int(time.time() * 1000),
    }


async def _ask(servers: str, bundle: Bundle) -> BaseException | None:
    """Ask the brokers for all that they can tell; return why nobody could be asked, or None."""
    from oncelog import OncelogError

    try:
        async with clients.admin(servers) as admin:
            for name, question in QUESTIONS.items():
                await _add(bundle, name, question, admin)
            await _add_metrics(bundle, admin)
    except (OncelogError, OSError) as error:
        bundle.fail("cluster", str(error))
        return error
    return None


async def _add(
    bundle: Bundle, name: str, question: Callable[[Admin], Awaitable[Any]], admin: Admin
) -> None:
    import asyncio

    from oncelog import OncelogError

    try:
        async with asyncio.timeout(PART_S):
            bundle.add_json(name, plain(await question(admin)))
    except TimeoutError:
        bundle.fail(name, f"no answer within {PART_S:g} s")
    except (OncelogError, OSError, CommandError) as error:
        bundle.fail(name, str(error))


async def _health(admin: Admin) -> Any:
    checks = check_all(await snapshot(admin), HealthLimits())
    return [
        {"check": check.name, "status": str(check.status), "detail": check.detail}
        for check in checks
    ]


async def _topics(admin: Admin) -> Any:
    return list(await admin.describe_topics())


async def _topic_configs(admin: Admin) -> Any:
    names = await admin.list_topics(include_internal=True)
    return [
        _settings("topic", outcome, without=("default",))
        for outcome in await admin.describe_configs(topics=names)
    ]


async def _broker_configs(admin: Admin) -> Any:
    ids = [broker.broker_id for broker in (await admin.describe_cluster()).brokers]
    found = await admin.describe_configs(brokers=[*ids, None])
    return [_settings("broker", outcome) for outcome in found]


def _settings(kind: str, outcome: ConfigOutcome, without: Sequence[str] = ()) -> dict[str, Any]:
    settings = {
        setting.key: [masked_value(setting.key, setting.value), setting.source]
        for setting in outcome.settings.values()
        if setting.source not in without
    }
    return {kind: outcome.name, "error": outcome.error, "settings": settings}


async def _groups(admin: Admin) -> Any:
    listed = await admin.list_groups()
    described = await admin.describe_groups([group.group_id for group in listed])
    return {"groups": list(described), "unanswered": listed.unanswered}


async def _transactions(admin: Admin) -> Any:
    listed = await admin.list_transactions()
    described = await admin.describe_transactions([item.transactional_id for item in listed])
    return {"transactions": list(described), "unanswered": listed.unanswered}


async def _hanging(admin: Admin) -> Any:
    found = await admin.find_hanging_transactions()
    return {"hanging": list(found), "undecided": list(found.undecided), "errors": found.errors}


QUESTIONS: Mapping[str, Callable[[Admin], Awaitable[Any]]] = {
    "cluster.json": lambda admin: admin.describe_cluster(),
    "health.json": _health,
    "topics.json": _topics,
    "topic-configs.json": _topic_configs,
    "broker-configs.json": _broker_configs,
    "log-dirs.json": lambda admin: admin.describe_log_dirs(),
    "groups.json": _groups,
    "transactions.json": _transactions,
    "hanging-transactions.json": _hanging,
    "api-versions.json": lambda admin: admin.describe_api_versions(),
}


def plain(value: Any) -> Any:
    """Convert results of the SDK to JSON: dataclasses become objects, errors their text."""
    if isinstance(value, BaseException):
        return {"error": getattr(value, "name", type(value).__name__), "message": str(value)}
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value


async def _add_metrics(bundle: Bundle, admin: Admin) -> None:
    """Add what brokers tell Prometheus, and whether they are ready."""
    import asyncio

    from oncelog import OncelogError

    try:
        addresses, without = await metrics_addresses(admin)
    except (OncelogError, OSError) as error:
        bundle.fail("metrics", str(error))
        return
    for broker_id in without:
        bundle.fail(f"metrics/broker-{broker_id}.prom", "the broker has no fixed metrics_port")
    for broker_id, (host, port) in addresses.items():
        for page, name in (("metrics", "prom"), ("readyz", "readyz.txt")):
            url = f"http://{host}:{port}/{page}"
            part = f"metrics/broker-{broker_id}.{name}"
            try:
                bundle.add(part, await asyncio.to_thread(_fetch, url))
            except (OSError, ValueError) as error:
                bundle.fail(part, f"{url}: {error}")


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=PART_S) as answer:
            data: bytes = answer.read(METRICS_BYTES_MAX)
    except urllib.error.HTTPError as refusal:
        with refusal:
            if refusal.code != HTTPStatus.SERVICE_UNAVAILABLE:  # whose body says why
                raise
            return refusal.read(METRICS_BYTES_MAX)
    return data


def _add_local(place: Path, bundle: Bundle) -> None:
    """Add logs and files of the cluster that lies on this machine, if there is one."""
    if not (place / "cluster.json").exists():
        return
    bundle.add_settings("local/cluster.json", place / "cluster.json")
    for directory in sorted(place.iterdir()):
        if directory.is_dir():
            for path in sorted(directory.glob("*.toml")):
                bundle.add_settings(f"local/{directory.name}/{path.name}", path)
            for path in sorted(directory.glob("*.log")):
                bundle.add_log(f"local/{directory.name}/{path.name}", path)
