"""``oncelog broker health`` runs against a broker's real HTTP port, and against what is none."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog_cli.commands.broker_health import (
    ANSWER_BYTES_MAX,
    http_address,
    read_answer,
    tls_context,
)
from oncelog_cli.exits import EXIT_OK, EXIT_UNHEALTHY, EXIT_USAGE, UsageError
from oncelog_cli.main import run_command
from support.certificates import Papers

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

READY = {"status": "ready", "ok": True, "broker_id": 7}
FENCED = {
    "status": "fenced",
    "ok": False,
    "broker_id": 7,
    "reasons": ["the ZooKeeper session has expired"],
    "warnings": ["log directory /a is offline: EIO"],
}


def http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Words\r\nContent-Type: application/json\r\n\r\n%s" % (status, body)


async def asked(answering: Answering, *arguments: str, tls: ssl.SSLContext | None = None) -> int:
    """Return the exit code of the command against a server on a free port."""

    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answering(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer_and_close, "127.0.0.1", 0, ssl=tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        return await asyncio.to_thread(
            run_command, ["broker", "health", "--address", f"127.0.0.1:{port}", *arguments]
        )


def saying(answer: bytes, paths: list[str] | None = None) -> Answering:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if paths is not None:
            paths.append(request.split()[1].decode())
        writer.write(answer)
        await writer.drain()

    return answering


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


async def test_ready(capsys: pytest.CaptureFixture[str]) -> None:
    answer = http(200, json.dumps(READY).encode())
    assert await asked(saying(answer), "--json") == EXIT_OK
    found = document(capsys)
    assert found["_command"] == "broker health"
    assert (found["broker_id"], found["ok"], found["status"]) == (7, True, "ready")
    assert found["reasons"] == found["warnings"] == found["errors"] == []


async def test_not_ready_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    answer = http(503, json.dumps(FENCED).encode())
    assert await asked(saying(answer)) == EXIT_UNHEALTHY
    shown = capsys.readouterr().out
    assert "fenced" in shown
    assert "the ZooKeeper session has expired" in shown
    assert "EIO" in shown


@pytest.mark.parametrize(
    ("probe", "path"), [("ready", "/readyz"), ("live", "/livez"), ("started", "/startupz")]
)
async def test_each_probe_has_its_path(probe: str, path: str) -> None:
    paths: list[str] = []
    answer = http(200, json.dumps(READY).encode())
    assert await asked(saying(answer, paths), "--probe", probe) == EXIT_OK
    assert paths == [path]


async def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens: the port stays refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        arguments = ["broker", "health", "-a", address, "--json"]
        assert await asyncio.to_thread(run_command, arguments) == EXIT_UNHEALTHY
    found = document(capsys)
    assert (found["ok"], found["status"], found["address"]) == (False, "unreachable", address)
    assert found["reasons"] == ["connection refused: nobody listens there"]


async def test_silence_and_dripping_end_with_the_deadline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.01)

    assert await asked(drip, "--timeout", "0.1", "--json") == EXIT_UNHEALTHY
    assert document(capsys)["reasons"] == ["no answer within 0.1 s"]


async def test_a_flood_is_not_collected(capsys: pytest.CaptureFixture[str]) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x" * ANSWER_BYTES_MAX)
            await writer.drain()

    assert await asked(flood, "--timeout", "30", "--json") == EXIT_UNHEALTHY
    assert document(capsys)["status"] == "unreachable"


async def test_a_port_with_tls_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answering = saying(http(200, json.dumps(READY).encode()))
    ours, other = Papers(tmp_path / "a"), Papers(tmp_path / "b")
    tls = ours.authority.server("127.0.0.1")
    assert await asked(answering, "--ca-file", ours.ca_file, tls=tls) == EXIT_OK
    assert await asked(answering, "--ca-file", other.ca_file, tls=tls) == EXIT_UNHEALTHY
    tls = ours.authority.server("broker-1.example")
    assert await asked(answering, "--ca-file", ours.ca_file, tls=tls) == EXIT_UNHEALTHY
    assert "certificate verify failed" in capsys.readouterr().out


def test_settings_that_say_tls_want_the_file_of_the_ca(tmp_path: Path) -> None:
    assert tls_context(None, {}) is None
    with pytest.raises(UsageError, match="--ca-file"):
        tls_context(None, {"ONCELOG_METRICS_TLS_CERTIFICATE_FILE": "/c.pem"})
    with pytest.raises(UsageError, match="cannot be used"):
        tls_context(tmp_path / "nothing.pem", {})


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        http(200, b"<html>hello</html>"),
        http(200, b"[1]"),
        http(200, b'{"status": "ready"}'),
        http(404, json.dumps(READY).encode()),
        http(200, b"\xff\xfe"),
    ],
)
def test_what_is_no_broker_is_not_ready(answer: bytes) -> None:
    found = read_answer(answer)
    assert found["ok"] is False
    assert found["status"] == "unreachable"


def test_words_and_status_have_to_agree() -> None:
    assert read_answer(http(200, json.dumps(READY).encode()))["ok"] is True
    assert read_answer(http(503, json.dumps(READY).encode()))["ok"] is False
    assert read_answer(http(200, json.dumps(FENCED).encode()))["ok"] is False
    assert read_answer(http(200, b'{"ok": "no"}'))["ok"] is False


@pytest.mark.parametrize(
    ("named", "environment", "address"),
    [
        (None, {"ONCELOG_METRICS_PORT": "9644"}, ("127.0.0.1", 9644)),
        (None, {"ONCELOG_METRICS_PORT": "1", "ONCELOG_METRICS_HOST": "0.0.0.0"}, ("127.0.0.1", 1)),
        (None, {"ONCELOG_METRICS_PORT": "1", "ONCELOG_METRICS_HOST": "::"}, ("::1", 1)),
        (None, {"ONCELOG_METRICS_PORT": "1", "ONCELOG_METRICS_HOST": "b1"}, ("b1", 1)),
        ("9644", {}, ("127.0.0.1", 9644)),
        ("b1:80", {"ONCELOG_METRICS_PORT": "9644"}, ("b1", 80)),
        ("[fe80::1]:80", {}, ("fe80::1", 80)),
    ],
)
def test_where_is_asked(
    named: str | None, environment: dict[str, str], address: tuple[str, int]
) -> None:
    assert http_address(named, environment) == address


@pytest.mark.parametrize(
    ("named", "environment"),
    [
        (None, {}),
        (None, {"ONCELOG_METRICS_PORT": ""}),
        (None, {"ONCELOG_METRICS_PORT": "0"}),
        (None, {"ONCELOG_METRICS_PORT": "x"}),
        ("b1", {}),
        ("b1:", {}),
        ("b1:70000", {}),
        ("b1:-1", {}),
        ("b1:٣", {}),
    ],
)
def test_no_port_to_ask(named: str | None, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        http_address(named, environment)
    assert "port" in str(caught.value).lower()


def test_a_wrong_address_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["broker", "health", "--address", "nonsense"]) == EXIT_USAGE
    assert "nonsense" in capsys.readouterr().err
