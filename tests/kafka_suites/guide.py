"""What ``docs/kafka.md`` shows is run as it stands there.

Commands print what it shows, and programs are saved under the name that it gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docs.blocks import Block, blocks_of
from docs.transcripts import commands_of
from kafka_suites.kit import Kit
from support.house import ROOT

PAGE = "docs/kafka.md"
SERVERS = "localhost:9192"
"""Here the page finds the brokers."""
DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Shown:
    """It is a command with what it prints."""

    command: str
    output: str


def shown(suite: str) -> list[Shown]:
    """Return the commands of the page's console blocks that a suite runs.

    :param suite: the name of its file, without the folder.
    """
    return [
        Shown(command, "\n".join(output))
        for block in _blocks(suite)
        if block.language == "console"
        for command, output in commands_of(block.text)
    ]


def program(suite: str) -> tuple[str, str]:
    """Return the page's one Python program that a suite runs: the name of its file, and its text.

    :param suite: the name of its file, without the folder.
    """
    ((name, text),) = (
        (block.get("file"), block.text) for block in _blocks(suite) if block.language == "python"
    )
    return name, text


def _blocks(suite: str) -> list[Block]:
    here = f"tests/kafka_suites/{suite}"
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    return [block for block in blocks_of(PAGE, text) if block.get("elsewhere") == here]


def difference(kit: Kit, suite: str, environment: Mapping[str, str]) -> str:
    """Run them one after the other; return what the first wrong one printed, "" if all are right.

    :param environment: in which the shell finds the programs.
    """
    commands = shown(suite)
    if not commands:
        return f"{PAGE} shows no command"
    for number, each in enumerate(commands, start=1):
        command = each.command.replace(SERVERS, kit.bootstrap)
        name = f"guide-{number:02d}"
        ended = kit.run(name, ["bash", "-c", command], DEADLINE_S, environment=environment)
        if ended.code != 0 or ended.output.rstrip("\n") != each.output:
            return f"{each.command}: {ended.tail}"
    return ""
