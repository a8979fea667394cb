"""Commands from annotated functions, on click: a parameter's type and default say what it takes.

``name: Annotated[int, Option("--name", help=...)] = 3`` is an option,
``Annotated[str, Argument()]`` an argument, and a parameter of the type :class:`Context` gets the
context. One whose type is an :class:`OptionGroup` stands for an option of each of its fields, so
that commands can share them. What has no default is required, a ``bool`` is a flag, and
``list[...]`` or ``Sequence[...]`` may be given several times. Modules that declare commands import
this one and not click.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import click
from click.exceptions import Exit as Exit

Context = click.Context
Abort = click.Abort
BadParameter = click.BadParameter
ClickError = click.ClickException
Command = click.Command
confirm = click.confirm

F = TypeVar("F", bound=Callable[..., Any])
HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


@dataclass(kw_only=True)
class Parameter:
    """Options and arguments have this in common."""

    metavar: str | None = None
    help: str | None = None
    min: float | None = None
    max: float | None = None
    parser: Callable[[str], Any] | None = None
    """It makes the value of the text; raises :class:`BadParameter`."""
    autocompletion: Callable[..., list[str]] | None = None
    """It gives words for the shell, of what is typed so far or of the context and that."""


class Argument(Parameter):
    """An argument is a parameter by place."""


class Option(Parameter):
    """An option is a parameter by name; without names it has that of the function's parameter.

    :param callback: called with the context and the value, or the value alone; gives the value.
    :param is_eager: whether it is looked at before the others.
    """

    def __init__(
        self,
        *names: str,
        callback: Callable[..., Any] | None = None,
        is_eager: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.names = names
        self.callback = callback
        self.is_eager = is_eager


class OptionGroup:
    """A dataclass that inherits this is a parameter, and its fields are options of the command."""


class CommandGroup(click.Group):
    """A group has commands, in the order in which they were declared."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)


@dataclass
class Registered:
    """A command of an application: its function may be replaced until it is made."""

    name: str | None
    callback: Callable[..., Any]
    settings: dict[str, Any] | None

    def wrap(self, decorator: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace the function by what a decorator makes of it."""
        self.callback = decorator(self.callback)

    def made(self) -> click.Command:
        """Make the command of click."""
        name = self.name or self.callback.__name__.replace("_", "-")
        return command_of(self.callback, name, self.settings)


class App:
    """A group of commands is declared with this object.

    :param help: in place of the callback's docstring.
    :param invoke_without_command: whether its callback is called when no command is named; else
        its help is shown then.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        help: str | None = None,
        cls: type[click.Group] = CommandGroup,
        invoke_without_command: bool = False,
    ) -> None:
        self.name = name
        self.help = help
        self.commands: list[Registered] = []
        self.groups: list[tuple[str, App]] = []
        self.called: Registered | None = None
        """Its own function, called before that of a command."""
        self._cls = cls
        self._invoke_without_command = invoke_without_command

    def command(
        self, name: str | None = None, context_settings: dict[str, Any] | None = None
    ) -> Callable[[F], F]:
        """Declare a command; without a name it has that of its function."""

        def declare(function: F) -> F:
            self.commands.append(Registered(name, function, context_settings))
            return function

        return declare

    def callback(self) -> Callable[[F], F]:
        """Declare the group's own function, with options of its own."""

        def declare(function: F) -> F:
            self.called = Registered(None, function, None)
            return function

        return declare

    def add_group(self, app: App, name: str) -> None:
        """Put a group into this one."""
        self.groups.append((name, app))

    def made(self, name: str | None = None) -> click.Group:
        """Make the group of click, with all that is in it."""
        called = None if self.called is None else self.called.callback
        group = self._cls(
            name=name or self.name,
            help=self.help or inspect.getdoc(called),
            params=[] if called is None else _parameters(called),
            callback=None if called is None else _caller(called),
            no_args_is_help=not self._invoke_without_command,
            invoke_without_command=self._invoke_without_command,
            context_settings=dict(HELP_OPTIONS),
        )
        for registered in self.commands:
            group.add_command(registered.made())
        for inner_name, inner in self.groups:
            group.add_command(inner.made(inner_name))
        return group


class _Command(click.Command):
    """Its help says what is said of arguments as well."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (item.make_metavar(ctx), item.help)
            for item in self.get_params(ctx)
            if isinstance(item, _Argument) and item.help
        ]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    def __init__(self, *names: Any, help: str | None, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.help = help


def command_of(
    function: Callable[..., Any], name: str, settings: dict[str, Any] | None = None
) -> click.Command:
    """Make the command that calls a function."""
    return _Command(
        name=name,
        help=inspect.getdoc(function),
        params=_parameters(function),
        callback=_caller(function),
        context_settings={**HELP_OPTIONS, **(settings or {})},
    )


def _signature(function: Callable[..., Any]) -> list[tuple[inspect.Parameter, Any]]:
    hints = typing.get_type_hints(function, include_extras=True)
    found = inspect.signature(function).parameters.values()
    return [(item, hints.get(item.name, str)) for item in found]


def _caller(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of click's parameters, which are tuples where ours are lists."""
    signature = _signature(function)
    context = next((item.name for item, hint in signature if hint is Context), None)
    defaults = {item.name: item.default for item, _ in signature}

    def value(name: str, given: Any) -> Any:
        if not isinstance(given, tuple):
            return given
        return list(given) if given else defaults[name]

    groups = {item.name: hint for item, hint in signature if _is_group(hint)}
    callers = {name: _caller(group) for name, group in groups.items()}
    fields = {name: inspect.signature(group).parameters for name, group in groups.items()}

    def call(**given: Any) -> Any:
        made = {
            name: caller(**{field: given.pop(field) for field in fields[name]})
            for name, caller in callers.items()
        }
        values = {name: value(name, each) for name, each in given.items()}
        if context is not None:
            values[context] = click.get_current_context()
        return function(**values, **made)

    return call


def _is_group(hint: Any) -> bool:
    return inspect.isclass(hint) and issubclass(hint, OptionGroup)


def _parameters(function: Callable[..., Any]) -> list[click.Parameter]:
    found: list[click.Parameter] = []
    for item, hint in _signature(function):
        if _is_group(hint):
            found += _parameters(hint)
        elif hint is not Context:
            found.append(_parameter(item, hint))
    return found


def _parameter(item: inspect.Parameter, hint: Any) -> click.Parameter:
    kind, said = hint, None
    if typing.get_origin(hint) is typing.Annotated:
        kind, *extras = typing.get_args(hint)
        said = next((extra for extra in extras if isinstance(extra, Parameter)), None)
    required = item.default is inspect.Parameter.empty
    said = said or (Argument() if required else Option())
    kind, many = _plain(kind)
    settings: dict[str, Any] = {
        "type": _click_type(kind, said),
        "required": required,
        "metavar": said.metavar,
        "shell_complete": _called_back(said.autocompletion),
    }
    if not required:
        settings["default"] = _as_typed(item.default)  # None too is a value, if it is given
    if isinstance(said, Option):
        names = said.names or (f"--{item.name.replace('_', '-')}",)
        if kind is bool:
            settings |= {"is_flag": True, "type": None, "default": bool(settings.get("default"))}
        return click.Option(
            [item.name, *names],
            multiple=many,
            help=said.help,
            show_default=True,
            is_eager=said.is_eager,
            callback=_called_back(said.callback),
            **settings,
        )
    return _Argument([item.name], nargs=-1 if many else 1, help=said.help, **settings)


def _as_typed(default: Any) -> Any:
    """Return a default as a person would write it: help shows it so."""
    return default.value if isinstance(default, Enum) else default


def _plain(kind: Any) -> tuple[Any, bool]:
    """Return a type without ``None`` and ``list``, and whether it was one of several values."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    if typing.get_origin(kind) in (list, Sequence):
        return typing.get_args(kind)[0], True
    return kind, False


def _click_type(kind: Any, said: Parameter) -> Any:
    if said.parser is not None:
        return said.parser
    if kind in (int, float) and (said.min is not None or said.max is not None):
        bounded: Any = click.IntRange if kind is int else click.FloatRange
        return bounded(min=said.min, max=said.max)
    if kind is Path:
        return click.Path(path_type=Path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _Words(kind)
    return kind


class _Words(click.Choice[Any]):
    """A parameter takes the values of an enumeration."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__([each.value for each in kind])
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, self._kind):
            return value
        return self._kind(super().convert(value, param, ctx))


def _called_back(
    function: Callable[..., Any] | None,
) -> Callable[[click.Context, click.Parameter, Any], Any] | None:
    """Make a function of click's of one that takes context and value, or the value alone."""
    if function is None:
        return None
    takes_context = len(inspect.signature(function).parameters) > 1
    return lambda context, parameter, value: (
        function(context, value) if takes_context else function(value)
    )
