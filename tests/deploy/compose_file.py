"""It reads docker-compose.yml as Compose does: merged keys, then variables, then services by name.

Only what the file uses is understood, and anything else is refused: a test that skips over a key
would prove less than it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

__all__ = ["Compose", "HealthCheck", "Service", "load", "seconds"]

_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)|\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|(?P<wrong>))"
)
_DURATION = re.compile(r"(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?")

KEYS = {
    "build",
    "cap_add",
    "cap_drop",
    "command",
    "depends_on",
    "entrypoint",
    "env_file",
    "environment",
    "healthcheck",
    "image",
    "networks",
    "ports",
    "profiles",
    "read_only",
    "restart",
    "secrets",
    "security_opt",
    "stop_grace_period",
    "tmpfs",
    "user",
    "volumes",
}
"""The keys of a service that whoever runs it here carries out, or can leave to an engine."""


@dataclass(frozen=True)
class HealthCheck:
    """This command is run in the container so often."""

    command: tuple[str, ...]
    interval_s: float = 30.0
    timeout_s: float = 30.0
    start_period_s: float = 0.0
    retries: int = 3


@dataclass(frozen=True)
class Service:
    """A service has its values as they are after merging and substitution."""

    name: str
    image: str
    environment: Mapping[str, str]
    ports: tuple[tuple[str, int, int], ...]
    """Address and port on the host, port in the container."""
    volumes: tuple[tuple[str, str, bool], ...]
    """Volume or path, place in the container, read-only."""
    depends_on: Mapping[str, str]
    """Service to condition."""
    may_lack: frozenset[str]
    """Those of ``depends_on`` that are waited for only if a profile starts them."""
    healthcheck: HealthCheck | None
    """None: the image's own."""
    profiles: tuple[str, ...] = ()
    tmpfs: tuple[str, ...] = ()
    read_only: bool = False
    cap_drop: tuple[str, ...] = ()
    cap_add: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    """None: the image's own."""
    command: tuple[str, ...] = ()
    """Arguments of the entrypoint."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """File below /run/secrets to the variable that has its content."""
    user: str | None = None
    """None: the image's own."""
    no_new_privileges: bool = False
    stop_grace_s: float = 10.0
    builds: bool = False


@dataclass(frozen=True)
class Compose:
    services: Mapping[str, Service]
    document: Mapping[str, Any]
    """As parsed, variables substituted; what a schema looks at."""
    volumes: frozenset[str] = field(default=frozenset())

    def started(self, *profiles: str) -> list[Service]:
        """Return the services that start under some profiles, each after those it depends on."""
        chosen = {
            name: service
            for name, service in self.services.items()
            if not service.profiles or set(service.profiles) & set(profiles)
        }
        order: list[Service] = []
        while len(order) < len(chosen):
            done = {service.name for service in order}
            ready = [
                s
                for n, s in chosen.items()
                if n not in done and set(s.depends_on) - (s.may_lack - chosen.keys()) <= done
            ]
            assert ready, f"services wait for each other: {sorted(set(chosen) - done)}"
            order += ready
        return order


def load(path: Path, variables: Mapping[str, str] | None = None) -> Compose:
    """Read the file and substitute variables; unset ones take the defaults that it names."""
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    document = _substituted(raw, variables or {})
    services = {
        name: _service(name, content, path.parent, document.get("secrets", {}))
        for name, content in document.get("services", {}).items()
    }
    return Compose(services, document, frozenset(document.get("volumes", {})))


def seconds(duration: str) -> float:
    """Return the seconds of a duration such as ``1m30s``."""
    found = _DURATION.fullmatch(duration)
    assert found is not None, f"not a duration that is understood here: {duration!r}"
    assert duration
    return 60.0 * int(found["m"] or 0) + int(found["s"] or 0)


def _substituted(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _substituted(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_substituted(item, variables) for item in value]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        assert match["wrong"] is None, f"a form of variable that is not understood: {value!r}"
        if match["escaped"]:
            return "$"
        given = variables.get(match["name"]) or match["default"]
        assert given is not None, f"{match['name']} has neither a value nor a default"
        return given

    return _VARIABLE.sub(found, value)


def _service(
    name: str, content: Mapping[str, Any], folder: Path, secrets: Mapping[str, Any]
) -> Service:
    unknown = set(content) - KEYS
    assert not unknown, f"{name}: keys that nothing here carries out: {sorted(unknown)}"
    security = content.get("security_opt", [])
    assert set(security) <= {"no-new-privileges:true"}, security
    depends_on = content.get("depends_on", {})
    if isinstance(depends_on, list):
        depends_on = {other: {"condition": "service_started"} for other in depends_on}
    return Service(
        name=name,
        image=content["image"],
        environment={
            **_of_files(folder, content.get("env_file", [])),
            **_environment(name, content.get("environment", {})),
        },
        ports=tuple(_port(text) for text in content.get("ports", [])),
        volumes=tuple(_volume(text) for text in content.get("volumes", [])),
        depends_on={other: how["condition"] for other, how in depends_on.items()},
        may_lack=frozenset(o for o, how in depends_on.items() if not how.get("required", True)),
        healthcheck=_healthcheck(content.get("healthcheck")),
        profiles=tuple(content.get("profiles", [])),
        tmpfs=tuple(content.get("tmpfs", [])),
        read_only=content.get("read_only", False),
        cap_drop=tuple(content.get("cap_drop", [])),
        cap_add=tuple(content.get("cap_add", [])),
        entrypoint=tuple(content["entrypoint"]) if "entrypoint" in content else None,
        command=tuple(content.get("command", ())),
        secrets={each: secrets[each]["environment"] for each in content.get("secrets", [])},
        user=content.get("user"),
        no_new_privileges=bool(security),
        stop_grace_s=seconds(content.get("stop_grace_period", "10s")),
        builds="build" in content,
    )


def _environment(name: str, content: Mapping[str, Any]) -> Mapping[str, str]:
    wrong = {key: value for key, value in content.items() if not isinstance(value, str)}
    assert not wrong, f"{name}: quote what is not text, YAML has its own idea of it: {wrong}"
    return dict(content)


def _of_files(folder: Path, names: list[str]) -> Mapping[str, str]:
    """Return the variables of files: a line each, those behind a # are none."""
    found: dict[str, str] = {}
    for name in names:
        for line in (folder / name).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                key, equals, value = line.partition("=")
                assert equals, f"{name}: no variable: {line!r}"
                found[key] = value
    return found


def _port(text: str) -> tuple[str, int, int]:
    address, published, target = text.rsplit(":", 2)
    return address, int(published), int(target)


def _volume(text: str) -> tuple[str, str, bool]:
    source, target, *mode = text.split(":")
    assert mode in ([], ["ro"]), text
    return source, target, bool(mode)


def _healthcheck(content: Mapping[str, Any] | None) -> HealthCheck | None:
    if content is None:
        return None
    kind, *command = content["test"]
    assert kind == "CMD", f"only commands without a shell of their own: {content['test']}"
    return HealthCheck(
        tuple(command),
        interval_s=seconds(content["interval"]),
        timeout_s=seconds(content["timeout"]),
        start_period_s=seconds(content.get("start_period", "0s")),
        retries=content["retries"],
    )
