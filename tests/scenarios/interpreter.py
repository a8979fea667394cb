"""It runs a scenario from top to bottom, and compares what it prints with what it says.

    check(Transcript.parse(name, text))         raises ScenarioError
    new_text = rewrite(Transcript.parse(...))   the same with the outputs of today

A command that fails (a wait that is in vain, a broken invariant) fails the scenario in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from scenarios import (
    commands_brokers,
    commands_clients,
    commands_disks,
    commands_faults,
    commands_groups,
    commands_moves,
    commands_txns,
    commands_views,
)
from scenarios.grammar import Call, CommandError, parse_call
from scenarios.transcript import Command, ScenarioError, Step, Transcript
from scenarios.world import SEED, World
from simulation.invariants import InvariantViolation
from simulation.loop import SimulationError

__all__ = ["check", "rewrite"]

VOCABULARIES = (
    commands_brokers,
    commands_clients,
    commands_disks,
    commands_faults,
    commands_groups,
    commands_moves,
    commands_txns,
    commands_views,
)
"""Importing them declares their commands."""

Took = Callable[[Step, str], None]
LINES_SHOWN = 25
"""The product's warnings that follow a failure."""


def check(transcript: Transcript, *, without: str = "", seed: str = SEED) -> None:
    """Run it; every output must be what the scenario says.

    :param without: run with a rule of the product switched off: a name of ``ablations``.
    :param seed: what is drawn follows from it; a scenario says the same for any seed.
    :raises ScenarioError: at the first step that differs or fails.
    """

    def compare(step: Step, output: str) -> None:
        if output != step.expected:
            raise transcript.mismatch(step, output)

    _run(transcript, World(without, seed), compare)


def rewrite(transcript: Transcript) -> str:
    """Run it; the text with the outputs that there were. :raises ScenarioError: a command fails."""
    outputs: list[str] = []
    _run(transcript, World(), lambda step, output: outputs.append(output))
    return transcript.rewritten(outputs)


def _run(transcript: Transcript, world: World, took: Took) -> None:
    calls = _calls(transcript)
    loop = world.loop
    with world.coverage.listening(lambda: loop.now_s, lambda: loop.current.name):
        try:
            loop.run(_play(transcript, calls, world, took))
        except ScenarioError as error:
            raise _with_warnings(error, transcript, world) from error.__cause__
        finally:
            world.bury()


def _calls(transcript: Transcript) -> dict[Command, Call]:
    """All commands, understood before the first one runs."""
    calls = {}
    for step in transcript.steps:
        for command in step.commands:
            with _blamed(transcript, command, []):
                calls[command] = parse_call(command.text)
    return calls


async def _play(
    transcript: Transcript, calls: dict[Command, Call], world: World, took: Took
) -> None:
    for step in transcript.steps:
        outputs: list[str | None] = []
        for command in step.commands:
            call = calls[command]
            with _blamed(transcript, command, outputs):
                course = call.handler(world, *call.values, **call.options)
                outputs.append(await world.safely(course))
        took(step, "\n".join(output for output in outputs if output) or "ok")
    last = transcript.steps[-1].commands[-1]
    with _blamed(transcript, last, []):
        problems = await world.safely(world.finish())
        if problems:
            raise CommandError("after the last step:\n" + "\n".join(problems))


@contextmanager
def _blamed(
    transcript: Transcript, command: Command, outputs: Sequence[str | None]
) -> Iterator[None]:
    """Say which line of the scenario an error is about, and what its step has printed so far."""
    try:
        yield
    except (CommandError, InvariantViolation, SimulationError) as error:
        printed = "".join(f"\n  {output}" for output in outputs if output)
        text = f"{command.text}: {error}" + (f"\nprinted before it:{printed}" if printed else "")
        raise ScenarioError(transcript.name, command.line, text) from error


def _with_warnings(error: ScenarioError, transcript: Transcript, world: World) -> ScenarioError:
    lines = [
        f"  {line.time_s:8.3f} {line.host}: {line.text} {line.exception}".rstrip()
        for line in world.coverage.lines[-LINES_SHOWN:]
    ]
    if not lines:
        return error
    text = "\n".join([error.text, "the last warnings of the product:", *lines])
    return ScenarioError(transcript.name, error.line, text)
