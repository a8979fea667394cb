"""These tests read lines from files, pipes and devices."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from oncelog_cli import line_source
from oncelog_cli.line_source import LineSource, LineTooLongError


async def lines_of(source: LineSource) -> list[bytes]:
    return [line async for chunk in source.chunks() for line in chunk]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\n\nb\xff", [b"a\r", b"", b"b\xff"]),
    ],
)
async def test_lines_of_a_file(data: bytes, lines: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(data)
    with path.open("rb") as file:
        source = LineSource(file.fileno())
        assert source.size_bytes == len(data)
        assert await lines_of(source) == lines
        assert source.read_bytes == len(data)


async def test_a_line_that_spans_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_source, "READ_BYTES", 7)
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 50 + b"\n" + b"y" * 3 + b"\nz")
    with path.open("rb") as file:
        assert await lines_of(LineSource(file.fileno())) == [b"x" * 50, b"yyy", b"z"]


async def test_a_line_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_source, "READ_BYTES", 10)
    monkeypatch.setattr(line_source, "LINE_BYTES_MAX", 30)
    path = tmp_path / "lines"
    path.write_bytes(b"ok\n" + b"x" * 100)
    with path.open("rb") as file:
        source = LineSource(file.fileno()).chunks()
        assert await anext(source) == [b"ok"]
        with pytest.raises(LineTooLongError):
            await anext(source)


async def test_what_a_pipe_holds_comes_at_once() -> None:
    read_end, write_end = os.pipe()
    try:
        source = LineSource(read_end)
        assert source.size_bytes is None
        chunks = source.chunks()
        os.write(write_end, b"one\ntw")
        assert await anext(chunks) == [b"one"]
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        os.write(write_end, b"o\n")
        assert await waiting == [b"two"]
        os.close(write_end)
        write_end = -1
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


async def test_a_wait_can_be_cancelled() -> None:
    read_end, write_end = os.pipe()
    try:
        chunks = LineSource(read_end).chunks()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(chunks)
        # The loop has let go of the descriptor: it can be watched again.
        asyncio.get_running_loop().add_reader(read_end, int)
        asyncio.get_running_loop().remove_reader(read_end)
    finally:
        os.close(read_end)
        os.close(write_end)


async def test_nothing_comes_from_the_null_device() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        assert await lines_of(LineSource(descriptor)) == []
    finally:
        os.close(descriptor)
