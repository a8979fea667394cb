"""An invocation is what a command line says to all commands alike: profile and client options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any

from oncelog_cli import typed
from oncelog_cli.exits import UsageError
from oncelog_cli.profiles import complete_profiles


@dataclass(frozen=True, slots=True)
class Invocation:
    """All commands share this part of a command line."""

    profile: str | None = None
    """``--profile``, before the environment and the profiles' file are asked."""
    options: Mapping[str, str] = field(default_factory=dict)
    """``-X``: names of client options in snake case, values as they were typed."""
    given: frozenset[str] = frozenset()
    """Parameters of the command that stand on its command line: they are no defaults."""


CURRENT: ContextVar[Invocation] = ContextVar("CURRENT", default=Invocation())  # noqa: B039


@contextmanager
def invoked(invocation: Invocation) -> Iterator[None]:
    """Within, this is what the command line says."""
    token = CURRENT.set(invocation)
    try:
        yield
    finally:
        CURRENT.reset(token)


ProfileOption = Annotated[
    str | None,
    typed.Option(
        "--profile",
        metavar="NAME",
        help="Settings to use. Default: $ONCELOG_PROFILE, else what 'profile use' chose.",
        autocompletion=complete_profiles,
    ),
]
ClientOptions = Annotated[
    list[str] | None,
    typed.Option(
        "-X",
        metavar="KEY=VALUE",
        help="An option of the client, such as request_timeout_ms=5000; repeatable.",
    ),
]


def parse_client_options(items: Iterable[str]) -> dict[str, str]:
    """Parse ``["request.timeout.ms=5000"]`` into names in snake case and values.

    Kafka's dots are allowed in names.

    :raises UsageError: an item without '=', or a name that is given twice.
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        plain = name.strip().replace(".", "_")
        if not equals or not plain:
            raise UsageError(f"-X {item!r}: expected KEY=VALUE")
        if plain in found:
            raise UsageError(f"-X {plain!r} is given twice")
        found[plain] = value
    return found


def invocation_of(parameters: Mapping[str, Any], given: Iterable[str] = ()) -> Invocation:
    """Return the shared part of parsed parameters.

    :raises UsageError: ``-X`` is not KEY=VALUE.
    """
    return Invocation(
        parameters.get("profile"),
        parse_client_options(parameters.get("client_options") or ()),
        frozenset(given),
    )
