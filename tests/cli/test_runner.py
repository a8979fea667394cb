"""These tests check which errors a shell sees."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from oncelog.errors import ConfigurationError, NoBrokersAvailableError
from oncelog_cli import typed
from oncelog_cli.exits import CommandError
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.main import run_command
from oncelog_cli.options import Format, UsageError
from oncelog_cli.render import Output
from oncelog_cli.runner import exit_code_of, run
from support.cluster import Cluster
from support.shell import COMMAND, environment, start


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no"), 2),
        (ConfigurationError("no"), 2),
        (CommandError("no"), 1),
        (NoBrokersAvailableError([("a:1", "no")]), 1),
        (LocalClusterError("no"), 1),
        (ConnectionResetError("no"), 1),
        (BrokenPipeError("no: of a socket, not of standard output"), 1),
        (FileNotFoundError(2, "no such file", "x"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_expected_errors_are_one_line(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(error) == code
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert "no" in shown
    assert len(shown.splitlines()) == 1


def test_a_defect_keeps_its_traceback() -> None:
    assert exit_code_of(KeyError("x")) is None


def test_no_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(typed.Abort()) == 1
    assert capsys.readouterr().err == "error: aborted\n"


def test_a_command_gives_back_what_it_found() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert run(work()) == 7


def test_ctrl_c_has_its_document(capsys: pytest.CaptureFixture[str]) -> None:
    async def work() -> None:
        raise KeyboardInterrupt

    Output("x", Format.JSON)
    with pytest.raises(typed.Exit) as leaving:
        run(work())
    assert leaving.value.exit_code == 130
    assert json.loads(capsys.readouterr().out)["errors"][0]["message"] == "interrupted"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "t"],
        ["cluster"],
        ["log-dirs"],
        ["consume", "t", "--until-end"],
    ],
)
def test_nobody_answers(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([*arguments, "--bootstrap", "127.0.0.1:1"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "127.0.0.1:1" in captured.err
    assert len(captured.err.splitlines()) == 1


async def test_ctrl_c_ends_a_tail_without_a_traceback(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        await cluster.create_topic("t")
        async with (
            start("consume", "t", "--from-beginning", bootstrap=cluster.bootstrap) as process,
            start("produce", "t", "--file", "-", bootstrap=cluster.bootstrap) as produced,
            asyncio.timeout(60),
        ):
            await produced.communicate(b"hello\n")
            assert process.stdout is not None
            assert await process.stdout.readline() == b"hello\n"
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
        assert process.returncode == 130
        assert err == b""


async def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%099d\n" % number for number in range(20_000)))
    async with Cluster(tmp_path / "cluster") as cluster:
        await cluster.create_topic("t")
        named = ("--bootstrap", cluster.bootstrap)
        filled = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("produce", "t", "--file", str(lines), *named),
            env=environment(),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert await filled.wait() == 0
        read_end, write_end = os.pipe()
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *("consume", "t", "--until-end", *named),
            env=environment(),
            stdout=write_end,
            stderr=asyncio.subprocess.PIPE,
        )
        os.close(write_end)
        first = await asyncio.to_thread(os.read, read_end, 100)
        os.close(read_end)
        async with asyncio.timeout(20):
            _, err = await process.communicate()
        assert first == b"%099d\n" % 0
        assert process.returncode == 0
        assert err == b""
