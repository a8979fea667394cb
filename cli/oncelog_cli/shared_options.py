"""Options that many commands share are declared once, here, and commands get what they mean.

A command's function names what it needs by the types of its parameters: with a
:class:`NamedCluster` the command has ``--bootstrap``, ``--profile`` and ``-X``, with an
:class:`Output` it has ``--format`` and ``--json``. They come after the options of its own.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.invocation import ClientOptions, ProfileOption, invocation_of, invoked
from oncelog_cli.options import BootstrapOption, Format, FormatOption, JsonOption
from oncelog_cli.render import Output

SHARED = {"profile": ProfileOption, "client_options": ClientOptions}


def with_shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command's function the options behind its ``NamedCluster`` and its ``Output``."""
    hints = typing.get_type_hints(function, include_extras=True)
    names = {
        kind: name for name, kind in hints.items() if kind in (NamedCluster, Output, typed.Context)
    }
    if not names.keys() & {NamedCluster, Output}:
        return function

    @functools.wraps(function)
    def command(**arguments: Any) -> Any:
        context = arguments[names[typed.Context]] if own_context else arguments.pop("_context")
        if Output in names:
            path = context.command_path.partition(" ")[2]  # as typed: some have two names
            chosen, as_json = arguments.pop("output_format"), arguments.pop("as_json")
            arguments[names[Output]] = Output(path, Format.JSON if as_json else chosen)
        shared = {}
        if NamedCluster in names:
            arguments[names[NamedCluster]] = NamedCluster(arguments.pop("bootstrap"))
            shared = {name: arguments.pop(name) for name in SHARED}
        with invoked(invocation_of(shared, _given(context))):
            return function(**arguments)

    added: dict[str, tuple[Any, Any]] = {}
    if NamedCluster in names:
        added["bootstrap"] = BootstrapOption, None
    if Output in names:
        added |= {"output_format": (FormatOption, Format.TABLE), "as_json": (JsonOption, False)}
    if NamedCluster in names:
        added |= {name: (hint, None) for name, hint in SHARED.items()}
    own_context = typed.Context in names
    if not own_context:
        added["_context"] = typed.Context, inspect.Parameter.empty
    keyword = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            item.replace(kind=keyword)
            for item in inspect.signature(function).parameters.values()
            if hints[item.name] not in (NamedCluster, Output)
        ]
        + [
            inspect.Parameter(name, keyword, default=default)
            for name, (_, default) in added.items()
        ]
    )
    own = {name: hint for name, hint in hints.items() if hint not in (NamedCluster, Output)}
    command.__annotations__ = {**own, **{name: hint for name, (hint, _) in added.items()}}
    return command


def _given(context: typed.Context) -> Iterator[str]:
    """Yield names of the parameters that stand on the command line."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            yield name
