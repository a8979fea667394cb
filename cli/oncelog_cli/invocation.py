"""All commands take some options alike: the profile, client options, and what was given.

``--profile`` and ``-X`` are options of every command that takes ``--bootstrap``: the framework adds
them (:func:`with_shared_options`), so that commands neither declare nor pass them on.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any

from oncelog_cli import typed
from oncelog_cli.exits import UsageError
from oncelog_cli.profiles import complete_profiles

ADDED = "_oncelog_shared_options"
"""The mark of a function that has them already."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """All commands share this part of a command line."""

    profile: str | None = None
    """``--profile``, before the environment and the profiles' file are asked."""
    options: Mapping[str, str] = field(default_factory=dict)
    """``-X``: names of client options in snake case, values as they were typed."""
    given: frozenset[str] = frozenset()
    """Parameters of the command that stand on its command line: they are no defaults."""
    path: str = ""
    """The command as it was typed, after ``oncelog``: one function may be known by two names."""


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
SHARED = ("profile", "client_options")
"""Names of the parameters that are added."""


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


def invocation_of(
    parameters: Mapping[str, Any], given: Iterable[str] = (), path: str = ""
) -> Invocation:
    """Return the shared part of parsed parameters.

    :raises UsageError: ``-X`` is not KEY=VALUE.
    """
    return Invocation(
        parameters.get("profile"),
        parse_client_options(parameters.get("client_options") or ()),
        frozenset(given),
        path,
    )


def with_shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--profile`` and ``-X`` to a command's function, if it speaks to a cluster at all."""
    signature = inspect.signature(function)
    if hasattr(function, ADDED) or "bootstrap" not in signature.parameters:
        return function
    hints = typing.get_type_hints(function, include_extras=True)
    context_name = next((name for name, hint in hints.items() if hint is typed.Context), None)

    @functools.wraps(function)
    def command(**arguments: Any) -> Any:
        context = arguments.pop("_context") if context_name is None else arguments[context_name]
        shared = {name: arguments.pop(name) for name in SHARED}
        path = context.command_path.partition(" ")[2]
        with invoked(invocation_of(shared, _given(context), path)):
            return function(**arguments)

    added: dict[str, Any] = {"profile": ProfileOption, "client_options": ClientOptions}
    if context_name is None:
        added["_context"] = typed.Context
    keyword = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            *(
                item.replace(annotation=hints[name], kind=keyword)
                for name, item in signature.parameters.items()
            ),
            *(
                inspect.Parameter(
                    name,
                    keyword,
                    default=inspect.Parameter.empty if name == "_context" else None,
                    annotation=hint,
                )
                for name, hint in added.items()
            ),
        ]
    )
    command.__annotations__ = {**hints, **added}
    setattr(command, ADDED, True)
    return command


def _given(context: typed.Context) -> Iterator[str]:
    """Yield names of the parameters that stand on the command line."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name
