"""``oncelog broker health`` asks the HTTP port of one broker for its health.

The health check of a container runs it.

Rules: exit code 0 when the broker says yes; 10 when it says no, and when nobody answers in time:
whoever runs this wants to know about one broker, and silence is an answer. Only what looks like a
broker's answer counts as one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.exits import EXIT_UNHEALTHY, UsageError
from oncelog_cli.render import Column, Output, address_text
from oncelog_cli.runner import run

if TYPE_CHECKING:
    import ssl

HOST_VARIABLE = "ONCELOG_METRICS_HOST"
PORT_VARIABLE = "ONCELOG_METRICS_PORT"
CERTIFICATE_VARIABLE = "ONCELOG_METRICS_TLS_CERTIFICATE_FILE"
"""The broker's own settings: in its container, or under its service manager, they say where it
listens."""
ANSWER_BYTES_MAX = 64 * 1024
UNREACHABLE = "unreachable"

COLUMNS = (
    Column("BROKER", "broker_id", right=True),
    Column("ADDRESS", "address"),
    Column("STATUS", "status"),
    Column("WHY", "reasons", show="; ".join),
    Column("WARNINGS", "warnings", show="; ".join),
)


class Probe(StrEnum):
    """A probe is one of the questions that a broker's HTTP port answers."""

    READY = "ready"
    LIVE = "live"
    STARTED = "started"


PATHS = {Probe.READY: "/readyz", Probe.LIVE: "/livez", Probe.STARTED: "/startupz"}


def health(
    output: Output,
    address: Annotated[
        str | None,
        typed.Option(
            "--address",
            "-a",
            metavar="[HOST:]PORT",
            help=f"Its HTTP port. Default: ${HOST_VARIABLE} and ${PORT_VARIABLE}.",
        ),
    ] = None,
    probe: Annotated[
        Probe,
        typed.Option(
            "--probe",
            metavar="ready|live|started",
            help="Whether it serves, whether its event loop turns, whether its start is over.",
        ),
    ] = Probe.READY,
    ca_file: Annotated[
        Path | None,
        typed.Option(
            "--ca-file",
            metavar="FILE",
            help="The port speaks TLS, and these CAs, as PEM, sign its certificate.",
        ),
    ] = None,
    timeout: Annotated[
        float, typed.Option("--timeout", min=0.01, metavar="SECONDS", help="For the whole answer.")
    ] = 3.0,
) -> None:
    """Say whether one broker is ready for clients: exit code 0 if it is, 10 if not.

    Asks the HTTP port that the broker has with metrics_port set. With metrics_tls_certificate_file
    set, --ca-file is needed, and the address has to be a name that the certificate has.
    """
    host, port = http_address(address, os.environ)
    tls = tls_context(ca_file, os.environ)
    found = run(_ask(host, port, tls, PATHS[probe], timeout))
    row = {"address": address_text(host, port), **found}
    output.table(COLUMNS, [row])
    output.finish(row)
    if not found["ok"]:
        raise typed.Exit(EXIT_UNHEALTHY)


def http_address(named: str | None, environment: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port to ask; a broker that listens everywhere is asked on the loopback.

    :raises UsageError: no address is named, or the text is none.
    """
    if named is not None:
        origin, (host, _, port) = f"--address {named!r}", named.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
    else:
        origin, port = f"${PORT_VARIABLE}", environment.get(PORT_VARIABLE, "")
        host = environment.get(HOST_VARIABLE, "")
        if not port:
            raise UsageError(
                f"which broker? Give --address HOST:PORT, the broker's HTTP port, or set "
                f"{PORT_VARIABLE}; a broker has one with metrics_port set"
            )
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise UsageError(f"{origin}: {port!r} is not a port that can be asked (1 to 65535)")
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
    return everywhere.get(host, host), int(port)


def tls_context(ca_file: Path | None, environment: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return what verifies the broker; None: its port speaks no TLS.

    :raises UsageError: the file has no CAs, or the settings say that there is TLS and no file does.
    """
    import ssl

    if ca_file is None:
        if environment.get(CERTIFICATE_VARIABLE):
            raise UsageError(
                f"{CERTIFICATE_VARIABLE} says that the port speaks TLS: give --ca-file, and "
                "--address with a name that the certificate has"
            )
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--ca-file {ca_file} cannot be used: {error}") from error


async def _ask(
    host: str, port: int, tls: ssl.SSLContext | None, path: str, timeout_s: float
) -> dict[str, Any]:
    """Return what the broker says of itself, or that there is none."""
    import asyncio

    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode("ascii"))
                received = b""
                while (chunk := await reader.read(ANSWER_BYTES_MAX)) and (
                    len(received) <= ANSWER_BYTES_MAX
                ):
                    received += chunk
            finally:
                writer.close()
    except TimeoutError:
        return _nobody(f"no answer within {timeout_s:g} s")
    except ConnectionRefusedError:
        return _nobody("connection refused: nobody listens there")
    except (OSError, UnicodeError) as error:
        return _nobody(str(error) or type(error).__name__)
    return read_answer(received)


def read_answer(received: bytes) -> dict[str, Any]:
    """Parse an HTTP answer into what the broker says of itself."""
    head, _, body = received.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict) or status not in ([b"200"], [b"503"]) or "ok" not in said:
        return _nobody("what answers there is not a broker's HTTP port")
    return {
        "broker_id": said.get("broker_id"),
        # Both have to agree: other probes see the status only.
        "ok": said["ok"] is True and status == [b"200"],
        "status": str(said.get("status", "")),
        "reasons": _texts(said.get("reasons")),
        "warnings": _texts(said.get("warnings")),
    }


def _texts(given: object) -> list[str]:
    return [str(item) for item in given] if isinstance(given, list) else []


def _nobody(why: str) -> dict[str, Any]:
    return {"broker_id": None, "ok": False, "status": UNREACHABLE, "reasons": [why], "warnings": []}
