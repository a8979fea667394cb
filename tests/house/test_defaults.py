"""The measure of second defaults is tried on code of which one knows where they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tools.house_measures import defaults

DECLARED = {
    defaults.BROKER: """
class BrokerConfig(BaseModel):
    plain_ms: int = 5
    bounded_ms: Dynamic[int] = Field(default=5, ge=1)
    required_ms: int = Field(ge=1)
    absent_ms: int | None = None
""",
    defaults.TOPIC: "_ROWS = (_row('retention_ms', 'long', '5'),)\n",
    defaults.CLIENT: "class SomeOptions:\n    linger_ms: float = defaults.LINGER_MS\n",
    defaults.HANDED[0]: "def made(config): return RoomConfig(pause_ms=config.plain_ms)\n",
    defaults.HANDED[1]: "",
}

SECOND = {
    "a field": ("broker/room.py", "class Room:\n    plain_ms: int = 5\n"),
    "one with another value": ("broker/room.py", "class Room:\n    plain_ms: int = 6\n"),
    "one made of constants": ("broker/room.py", "class Room:\n    plain_ms: int = 5 * 1000\n"),
    "one that a library declares": (
        "controller/room.py",
        "class Room:\n    bounded_ms: int = field(default=5)\n",
    ),
    "a parameter": ("broker/room.py", "def made(plain_ms=5): ...\n"),
    "one by name": ("broker/room.py", "async def made(*, plain_ms=5): ...\n"),
    "one of a topic": ("broker/room.py", "def made(retention_ms='5'): ...\n"),
    "one under another name": ("broker/room.py", "class RoomConfig:\n    pause_ms: int = 5\n"),
    "an argument of a client": ("client/made.py", "def made(linger_ms=5): ...\n"),
    "an option of click": ("cli/made.py", "option('--linger-ms', default=5)(print)\n"),
    "an option of argparse": ("bench/made.py", "parser.add_argument('--linger-ms', default=5)\n"),
}

FIRST = {
    "a constant that has a name": ("broker/room.py", "class Room:\n    plain_ms: int = PLAIN_MS\n"),
    "nothing": ("broker/room.py", "class Room:\n    plain_ms: int\n"),
    "that nothing is given": ("broker/room.py", "def made(plain_ms=None): ...\n"),
    "a setting without default": ("broker/room.py", "def made(required_ms=5, absent_ms=5): ...\n"),
    "another name": ("broker/room.py", "class Other:\n    pause_ms: int = 5\n"),
    "a value that is given": ("broker/room.py", "made(plain_ms=5)\n"),
    "what is no client's": ("broker/room.py", "def made(linger_ms=5): ...\n"),
    "what is no broker's": ("client/made.py", "def made(plain_ms=5): ...\n"),
    "an option without default": ("cli/made.py", "option('--linger-ms', type=int)(print)\n"),
}


def found(root: Path, path: str, text: str) -> list[defaults.Default]:
    for name, content in {**DECLARED, path: text}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return defaults.measure(root)


@pytest.mark.parametrize("case", SECOND)
def test_a_second_default_is_found(tmp_path: Path, case: str) -> None:
    path, text = SECOND[case]
    assert [each.path for each in found(tmp_path, path, text)] == [path]


@pytest.mark.parametrize("case", FIRST)
def test_what_is_none_is_not(tmp_path: Path, case: str) -> None:
    assert found(tmp_path, *FIRST[case]) == []


@pytest.mark.parametrize("text", ["-1", "2 * KIB", "('a', 'b')", "Field(default=1, ge=0)"])
def test_literals(text: str) -> None:
    assert defaults.is_literal(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize("text", ["None", "SIZE", "limits.SIZE", "()", "Field(ge=0)", "list()"])
def test_what_is_not_literal(text: str) -> None:
    assert not defaults.is_literal(ast.parse(text, mode="eval").body)
