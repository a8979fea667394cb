"""Shared options are added to commands, and found in what commands are handed."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from oncelog_cli import typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.command_table import share_options
from oncelog_cli.invocation import CURRENT, Invocation
from oncelog_cli.options import Format
from oncelog_cli.render import Output
from oncelog_cli.shared_options import with_shared_options

SEEN: list[tuple[Any, ...]] = []


def plain(
    cluster: NamedCluster,
    name: str,
    number: Annotated[int, typed.Option("--number", "-n")] = 3,
) -> None:
    """Note what it was called with."""
    SEEN.append((name, number, cluster.named, CURRENT.get()))


def with_context(context: typed.Context, cluster: NamedCluster) -> None:
    """Note the context."""
    SEEN.append((context.params["bootstrap"], CURRENT.get(), cluster))


def formatted(output: Output) -> None:
    """Note its format."""
    SEEN.append((output.format, output.command))


def local(name: str) -> str:
    """Return the name, and ask no cluster."""
    return name


def call(function: Any, *arguments: str) -> Any:
    """Return what a function of the name ``go`` saw."""
    app = typed.App()
    app.command("go")(with_shared_options(function))
    app.command("other")(local)
    SEEN.clear()
    command = app.made()
    command.main(args=["go", *arguments], prog_name="oncelog", standalone_mode=False)
    return SEEN[-1]


def test_a_command_gets_the_options_and_is_not_bothered_with_them() -> None:
    name, number, bootstrap, invocation = call(
        plain, "x", "-n", "4", "--profile", "dev", "-X", "acks=1", "-X", "linger.ms=0"
    )
    assert (name, number, bootstrap) == ("x", 4, None)
    assert invocation.profile == "dev"
    assert invocation.options == {"acks": "1", "linger_ms": "0"}
    assert "number" in invocation.given
    assert "bootstrap" not in invocation.given
    assert CURRENT.get() == Invocation()  # only within


def test_a_command_that_takes_the_context_has_one() -> None:
    bootstrap, invocation, cluster = call(with_context, "-b", "a:1", "--profile", "dev")
    assert (bootstrap, cluster.servers, invocation.profile) == ("a:1", "a:1", "dev")
    assert "bootstrap" in invocation.given


def test_only_commands_that_need_something_are_changed_and_once() -> None:
    assert with_shared_options(local) is local
    changed = with_shared_options(plain)
    assert changed is not plain
    assert with_shared_options(changed) is changed
    assert changed.__doc__ == plain.__doc__


def test_groups_within_groups_are_reached() -> None:
    outer, inner = typed.App(), typed.App()
    outer.callback()(with_context)
    inner.command("plain")(plain)
    outer.add_group(inner, name="inner")
    share_options(outer)
    share_options(outer)
    assert outer.called is not None
    for function in (outer.called.callback, inner.commands[0].callback):
        assert list(function.__annotations__).count("profile") == 1


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("text", Format.TABLE),
        ("table", Format.TABLE),
        ("wide", Format.WIDE),
        ("json", Format.JSON),
        ("yaml", Format.YAML),
        ("tsv", Format.TSV),
    ],
)
def test_formats_by_name(word: str, wanted: Format) -> None:
    assert call(formatted, "--format", word) == (wanted, "go")
    assert call(formatted, f"-f{word}", "--json") == (Format.JSON, "go")


def test_without_a_word_it_is_a_table() -> None:
    assert call(formatted) == (Format.TABLE, "go")
