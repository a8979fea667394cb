"""An annotated function becomes a command: its parameters take values, and help describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from oncelog_cli import typed
from oncelog_cli.typed import App, Argument, Option, command_of


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


def upper(text: str) -> str:
    if text == "bad":
        raise typed.BadParameter("not that")
    return text.upper()


def doubled(value: int) -> int:
    return 2 * value


SEEN: dict[str, Any] = {}


def many(
    names: Annotated[list[str], Argument(metavar="NAME...", help="Who.")],
    number: Annotated[int, Option("--number", "-n", min=1, max=9, callback=doubled)] = 3,
    rate: Annotated[float | None, Option(metavar="N", help="How fast.")] = None,
    color: Annotated[Color, Option("--color", help="Which.")] = Color.RED,
    where: Annotated[Path | None, Option("--where")] = None,
    again: Annotated[list[int] | None, Option("--again")] = None,
    word: Annotated[str, Option("--word", parser=upper)] = "a",
    quiet: Annotated[bool, Option("--quiet", "-q")] = False,
) -> None:
    """Do much.

    And say so.
    """
    SEEN.update(locals())


def run(command: click.Command, *words: str) -> Any:
    SEEN.clear()
    return CliRunner().invoke(command, list(words), prog_name="x")


def test_values_have_the_types_of_the_parameters() -> None:
    command = command_of(many, "many")
    words = [
        *["a", "b", "-n", "4", "--rate", "0.5", "--color", "blue", "--where", "/x"],
        "--word",
        "up",
        "-q",
    ]
    words += ["--again", "1", "--again", "2"]
    done = run(command, *words)
    assert done.exit_code == 0, done.output
    assert {
        "names": ["a", "b"],
        "number": 8,
        "rate": 0.5,
        "color": Color.BLUE,
        "where": Path("/x"),
        "again": [1, 2],
        "word": "UP",
        "quiet": True,
    } == SEEN


def test_what_is_not_given_has_the_default() -> None:
    done = run(command_of(many, "many"), "a")
    assert done.exit_code == 0, done.output
    assert SEEN["color"] is Color.RED
    assert {k: v for k, v in SEEN.items() if k not in ("names", "color")} == {
        "number": 6,
        "rate": None,
        "where": None,
        "again": None,
        "word": "A",
        "quiet": False,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'NAME...'"),
        (["a", "-n", "10"], "10 is not in the range 1<=x<=9"),
        (["a", "--color", "green"], "'green' is not one of 'red', 'blue'"),
        (["a", "--word", "bad"], "not that"),
        (["a", "--rate", "fast"], "'fast' is not a valid float"),
    ],
)
def test_wrong_values_are_refused(words: list[str], said: str) -> None:
    done = run(command_of(many, "many"), *words)
    assert done.exit_code == 2
    assert said in done.output
    assert not SEEN


def test_an_option_without_a_default_is_required() -> None:
    def called(place: Annotated[Path, typed.Option("--place")]) -> None:
        SEEN["place"] = place

    done = run(command_of(called, "called"))
    assert done.exit_code == 2
    assert "Missing option '--place'" in done.output
    assert run(command_of(called, "called"), "--place", "here").exit_code == 0
    assert {"place": Path("here")} == SEEN


@dataclass(frozen=True)
class Size(typed.OptionGroup):
    width: Annotated[int, Option("--width", help="How wide.")] = 1
    names: Annotated[Sequence[str], Option("--name")] = ()


def test_options_of_a_group_stand_where_it_stands_and_arrive_together() -> None:
    def called(
        first: Annotated[bool, Option("--first")] = False,
        *,
        size: Size,
        last: Annotated[bool, Option("--last")] = False,
    ) -> None:
        SEEN.update(locals())

    command = command_of(called, "called")
    assert [each.name for each in command.params] == ["first", "width", "names", "last"]
    assert run(command, "--width", "2", "--name", "a", "--name", "b", "--last").exit_code == 0
    assert {"first": False, "size": Size(2, ["a", "b"]), "last": True} == SEEN
    assert run(command).exit_code == 0
    assert SEEN["size"] == Size()
    assert "How wide." in run(command, "-h").output


def test_help_says_what_the_declaration_says() -> None:
    shown = run(command_of(many, "many"), "-h").output
    assert shown.startswith("Usage: x [OPTIONS] NAME...\n\n  Do much.\n\n  And say so.\n")
    assert "Arguments:\n  NAME...  Who.\n" in shown
    assert "--color [red|blue]" in shown
    assert "[default: red]" in shown
    assert "[default: 3; 1<=x<=9]" in shown
    assert "list[" not in shown


def test_groups_keep_the_order_and_pass_the_context() -> None:
    app, inner = App(help="All."), App(help="More.")

    @app.command("second")
    def second(context: typed.Context) -> None:
        SEEN["path"] = context.command_path

    @app.command()
    def a_first(name: str) -> None:
        SEEN["name"] = name

    inner.command()(many)
    app.add_group(inner, "inner")
    group = app.made("outer")
    assert (group.name, group.help) == ("outer", "All.")
    assert list(group.commands) == ["second", "a-first", "inner"]
    assert [name for name in ("second", "a-first", "inner") if name in run(group, "-h").output]
    assert run(group, "second").exit_code == 0
    assert SEEN["path"] == "x second"
    assert run(group, "a-first", "n").exit_code == 0
    assert SEEN["name"] == "n"
    assert run(group, "inner", "many", "z").exit_code == 0
    assert SEEN["names"] == ["z"]


def test_a_groups_own_function_is_called_first() -> None:
    app = App(invoke_without_command=True)

    @app.callback()
    def whole(
        context: typed.Context, loud: Annotated[bool, Option("--loud", help="Loud.")] = False
    ) -> None:
        """Run the whole."""
        SEEN.update(loud=loud, inner=context.invoked_subcommand)

    app.command()(many)
    group = app.made("whole")
    assert group.help == "Run the whole."
    assert run(group, "--loud").exit_code == 0
    assert SEEN == {"loud": True, "inner": None}
    assert run(group, "many", "a").exit_code == 0
    assert (SEEN["loud"], SEEN["inner"], SEEN["names"]) == (False, "many", ["a"])


def by_text(incomplete: str) -> list[str]:
    return [incomplete + "!"]


def by_context(context: typed.Context, incomplete: str) -> list[str]:
    return [f"{context.info_name}:{incomplete}"]


def completed(
    one: Annotated[str, Argument(autocompletion=by_text)],
    two: Annotated[str, Option("--two", autocompletion=by_context)] = "",
) -> None: ...


def test_the_shell_gets_words_of_either_kind_of_function() -> None:
    command = command_of(completed, "go")
    context = click.Context(command, info_name="go")
    offered = {
        item.name: [word.value for word in item.shell_complete(context, "a")]
        for item in command.params
    }
    assert offered == {"one": ["a!"], "two": ["go:a"]}
