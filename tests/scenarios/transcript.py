"""A scenario has a form: sentences, commands, and what they must print.

::

    # Why this step is taken, in a sentence or two.
    kill 1
    wait leader t-0 is 2
    ----
    ok

A step is any number of lines that begin with "#", one or more commands, a line of four dashes, and
the output of all its commands up to the next empty line. Rules: nothing else is allowed between
steps, so that nothing is left out by a slip; ``rewritten`` changes outputs and not a byte more.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

RULE = "----"


class ScenarioError(Exception):
    """It says where, and why, a scenario cannot be read, run or believed."""

    def __init__(self, name: str, line: int, text: str) -> None:
        super().__init__(f"{name}:{line}: {text}")
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Command:
    """Each command has a line, counted from 1."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """It is what one pair of commands and output says."""

    head: tuple[str, ...]
    """Every line from the end of the step before to the dashes, as it stands in the file."""
    commands: tuple[Command, ...]
    expected: str
    """Lines joined by newlines, none at the end."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """It is one scenario. ``tail`` is what follows the last step: comments and empty lines."""

    name: str
    steps: tuple[Step, ...]
    tail: tuple[str, ...] = ()

    @classmethod
    def parse(cls, name: str, text: str) -> Transcript:
        """Read a scenario. :raises ScenarioError: it has not the form."""
        lines = text.splitlines()
        steps: list[Step] = []
        head: list[str] = []
        commands: list[Command] = []
        at = 0
        while at < len(lines):
            line = lines[at]
            at += 1
            if line != RULE:
                head.append(line)
                if line.strip() and not line.startswith("#"):
                    commands.append(Command(at, line.strip()))
                elif commands:
                    raise ScenarioError(name, at, f"a command must be followed by {RULE}")
                continue
            if not commands:
                raise ScenarioError(name, at, f"{RULE} without a command above it")
            expected: list[str] = []
            while at < len(lines) and lines[at].strip():
                expected.append(lines[at])
                at += 1
            steps.append(Step(tuple(head), tuple(commands), "\n".join(expected)))
            head, commands = [], []
        if commands:
            raise ScenarioError(name, commands[-1].line, f"{RULE} is missing behind the command")
        if not steps:
            raise ScenarioError(name, 1, "there is no step in it")
        return cls(name, tuple(steps), tuple(head))

    def rewritten(self, outputs: Sequence[str]) -> str:
        """Return the text with other outputs, one for each step."""
        lines: list[str] = []
        for step, output in zip(self.steps, outputs, strict=True):
            lines += [*step.head, RULE, *output.splitlines()]
        return "\n".join([*lines, *self.tail]) + "\n"

    def mismatch(self, step: Step, output: str) -> ScenarioError:
        """Return the error that shows where an output is not what the scenario says."""
        shown = difflib.unified_diff(
            step.expected.splitlines(), output.splitlines(), "expected", "got", lineterm=""
        )
        typed = "\n".join(f"  {command.text}" for command in step.commands)
        text = f"the output differs\n{typed}\n" + "\n".join(f"  {line}" for line in shown)
        return ScenarioError(self.name, step.commands[0].line, text)
