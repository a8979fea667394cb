"""What ``docs/kafka.md`` shows is run as it stands there.

Commands print what it shows, and programs are saved under the name that it gives them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from docs.blocks import Block, blocks_of
from docs.transcripts import commands_of
from kafka_suites.kit import Kit, Running
from kafka_suites.verdict import NotAsExpectedError
from support.house import ROOT

PAGE = "docs/kafka.md"
SERVERS = "localhost:9192"
"""Here the page finds the brokers."""
DEADLINE_S = 60.0
STOP_S = 30.0


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


@contextmanager
def service(
    kit: Kit,
    suite: str,
    name: str,
    programs: Path,
    *,
    changed: Callable[[str], str] = str,
) -> Iterator[Running]:
    """Start the page's program, in a folder of its own, by the page's one command; in the end it is
    told to stop.

    :param name: of the folder.
    :param programs: the directory in which the command is found.
    :param changed: what becomes of the program's text.
    :raises NotAsExpectedError: it did not end in an orderly way.
    """
    file, text = program(suite)
    folder = kit.folder / name
    folder.mkdir()
    text = text.replace(SERVERS, kit.bootstrap.partition(",")[0])
    (folder / file).write_text(changed(text), encoding="utf-8")
    (command,) = (each.command for each in shown(suite))
    paths = {"PATH": f"{programs}:{os.environ['PATH']}"}
    words = ["bash", "-c", f"exec {command}"]
    with kit.running(name, words, environment=paths, cwd=folder) as running:
        yield running
        ended = running.stop(STOP_S)
        if ended.code != 0:
            raise NotAsExpectedError(f"it ended with {ended.code}: {ended.tail}")


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
