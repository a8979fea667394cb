"""Commands make the SDK's clients here, with the options of ``-X``, environment and profile.

A client option is taken from ``-X``, else from ``ONCELOG_OPTIONS`` (``a=1 b=2``), else from the
profile; ``--profile`` on the command line goes before the environment. An option that a command has
a word of its own for (``--acks``) is taken from that word when it was typed. Names that no client
knows are refused; one that this client does not know is for others, and left out. Options of
security come the same ways, by our names or by Kafka's, and from the profile's table ``security``.
"""

from __future__ import annotations

import difflib
import inspect
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncelog_cli.exits import UsageError
from oncelog_cli.invocation import CURRENT, parse_client_options
from oncelog_cli.profiles import chosen_profile

if TYPE_CHECKING:
    from oncelog import Admin, Consumer, Producer, Security

CLIENT_ID = "oncelog-cli"

OWN_WORDS = {
    "acks": ("acks", "--acks"),
    "auto_offset_reset": ("offset", "--offset"),
    "compression_type": ("compression", "--compression"),
    "isolation_level": ("isolation", "--isolation-level"),
    "transaction_timeout_ms": ("transaction_timeout", "--transaction-timeout"),
}
"""Client option to the parameter and the option of the commands that set it."""
ONLY_OWN_WORDS = {"group_id": "--group", "transactional_id": "--transactional-id"}
"""These change what a command does, not only how: they must stand on its command line."""

_PORTS = ("topics", "bootstrap_servers", "clock", "entropy", "history", "security")
"""Parameters of clients that are no options for a command line."""
_TEXTS = ("group_instance_id",)
"""Options that are text, which their default does not show."""


def admin(servers: str) -> Admin:
    """Make an admin client; ``async with`` starts it."""
    from oncelog import Admin

    return Admin(servers, **_secured(servers, settings_for(Admin, client_id=CLIENT_ID)))


def consumer(servers: str, *topics: str, **own: Any) -> Consumer:
    """Make a consumer; ``own`` has the options that the command sets."""
    from oncelog import Consumer

    settings = _secured(servers, settings_for(Consumer, client_id=CLIENT_ID, **own))
    return Consumer(*topics, bootstrap_servers=servers, **settings)


def producer(servers: str, **own: Any) -> Producer:
    """Make a producer; ``own`` has the options that the command sets."""
    from oncelog import Producer

    settings = settings_for(Producer, client_id=CLIENT_ID, **own)
    return Producer(servers, **_secured(servers, settings))


def _secured(servers: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without what a URL says itself, unless it was typed: the client refuses to be
    told twice."""
    if "://" in servers and not _security_of(CURRENT.get().options):
        settings.pop("security", None)
    return settings


def settings_for(client: Callable[..., Any], **own: Any) -> dict[str, Any]:
    """Return a client's arguments: the command's own, and those of the command line.

    :raises UsageError: an option that no client knows, or one that is said twice.
    """
    invocation = CURRENT.get()
    settings = dict(own)
    taken = _options_of(client)
    for name, value in client_options().items():
        if name not in taken:
            continue
        parameter, option = OWN_WORDS.get(name, ("", ""))
        if name in own and parameter in invocation.given:
            if name in invocation.options:
                raise UsageError(f"{option} and -X {name} say the same thing: give one of them")
            continue
        settings[name] = value
    security = client_security()
    if security is not None:
        settings["security"] = security
    return settings


def client_options() -> dict[str, Any]:
    """Return every client option of the command line, with its value, checked by name.

    :raises UsageError: an option that no client knows, or that has a word of its own.
    """
    merged: dict[str, Any] = {}
    for layer in _layers():
        if layer:
            from oncelog.security_settings import parted

            merged.update(parted(layer)[1])
    merged.pop("bootstrap_servers", None)
    return typed_options(merged)


def _layers() -> list[Mapping[str, Any]]:
    """Return options as they were given, the less important first."""
    invocation = CURRENT.get()
    from_environment = parse_client_options(os.environ.get("ONCELOG_OPTIONS", "").split())
    found = chosen_profile(invocation.profile)
    from_profile = {} if found is None else {**found[1].options, **found[1].security}
    layers: list[Mapping[str, Any]] = [from_profile, from_environment]
    if invocation.profile is not None:
        layers.reverse()
    return [*layers, invocation.options]


def client_security() -> Security | None:
    """Return how the command line, the environment and the profile secure connections.

    :raises ConfigurationError: options that do not fit together, or are refused.
    """
    layers = [_security_of(layer) for layer in _layers()]
    if not any(layers):
        return None  # without a look at the SDK
    from oncelog.security_settings import combined

    return combined(layers)


def _security_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of security among others; a path may begin with a tilde."""
    if not options:
        return {}
    from oncelog.security_settings import parted

    return {
        name: str(Path(value).expanduser()) if name.endswith("_file") else value
        for name, value in parted(options)[0].items()
    }


def typed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return client options with values as the clients want them.

    :raises UsageError: a name that no client knows, or that has a word of its own.
    """
    if not options:
        return {}  # without a look at the SDK
    from oncelog.security_settings import SECURITY_NAMES

    known = known_options()
    for name in options:
        if name in ONLY_OWN_WORDS:
            raise UsageError(f"client option {name!r}: use {ONLY_OWN_WORDS[name]}")
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *SECURITY_NAMES], 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"client option {name!r} is not known; {hint}")
    return {name: _typed(known[name], value) for name, value in options.items()}


def known_options() -> dict[str, inspect.Parameter]:
    """Return every option of any client, by name, in alphabetical order."""
    from oncelog import Admin, Consumer, Producer

    known: dict[str, inspect.Parameter] = {}
    for client in (Admin, Consumer, Producer):
        known.update(_options_of(client))
    return {name: known[name] for name in sorted(known) if name not in ONLY_OWN_WORDS}


def _options_of(client: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options that a client's signature names.

    :raises TypeError: it takes any option, so that its signature names none.
    """
    parameters = inspect.signature(client).parameters
    if any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values()):
        raise TypeError(f"{client} takes **options: give the class whose options they are")
    return {
        name: item
        for name, item in parameters.items()
        if name not in _PORTS and item.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _typed(parameter: inspect.Parameter, value: Any) -> Any:
    """Return a value as its parameter wants it.

    A wrong one is left to the client, which refuses it by name.
    """
    if not isinstance(value, str):
        return value
    default = parameter.default
    if isinstance(default, tuple):
        return tuple(item.strip() for item in value.split(","))
    if isinstance(default, str) or parameter.name in _TEXTS:
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
