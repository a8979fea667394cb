"""A plain HTTP client sends tests' requests, each over a connection of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Got", "get", "metrics", "send"]


@dataclass(frozen=True)
class Got:
    """It is an answer."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def document(self) -> Any:
        return json.loads(self.body)


def parse(raw: bytes) -> Got:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    pairs = [line.partition(": ") for line in lines]
    return Got(int(first.split()[1]), body, {name.lower(): value for name, _, value in pairs})


async def send(
    address: tuple[str, int],
    data: bytes,
    timeout_s: float = 10.0,
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """Return all that comes back until the server closes the connection."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*address, ssl=tls)
        try:
            writer.write(data)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def get(
    address: tuple[str, int],
    path: str,
    method: str = "GET",
    *,
    header: str = "Connection: close",
    host: str = "test",
    tls: ssl.SSLContext | None = None,
) -> Got:
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close"
    request = f"{head}\r\n{header}\r\n\r\n"
    return parse(await send(address, request.encode("latin-1"), tls=tls))


async def metrics(address: tuple[str, int]) -> dict[str, dict[tuple[str, ...], float]]:
    """Return every sample by metric and values of labels, sorted by label, ``broker`` left out; the
    parser of Prometheus' own client reads it, which refuses what is not in its format."""
    from prometheus_client.parser import text_string_to_metric_families

    got = await get(address, "/metrics")
    assert got.status == 200, got.text
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(got.text):
        for sample in family.samples:
            labels = {k: v for k, v in sample.labels.items() if k != "broker"}
            values = tuple(labels[name] for name in sorted(labels))
            assert values not in found.setdefault(sample.name, {}), (sample.name, values)
            found[sample.name][values] = sample.value
    return found
