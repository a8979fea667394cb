"""What a release has put on the wire does not change: a new field comes with a new version.

``released/0.1.0.txt`` describes every version of every API, a line each. A release adds a file of
its own and leaves the others as they are. Until 0.1.0 is out its file follows the code: run this
test with ``REWRITE=1`` and look at the difference.
"""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from pathlib import Path

import pytest

from oncelog_protocol.messages.base import Request
from oncelog_protocol.registry import REQUESTS
from oncelog_protocol.schema import Int32, IntRange, MaxLength, Name, since
from support.messages import apis

RELEASED = Path(__file__).parent / "released"


def shape(cls: type, version: int) -> str:
    """Return what the array of a message holds in a version: ``[name type, ...]``."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = [f for f in dataclasses.fields(cls) if f.metadata.get("since", 0) <= version]
    return "[" + ", ".join(f"{f.name} {kind(hints[f.name], version)}" for f in fields) + "]"


def kind(hint: typing.Any, version: int) -> str:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = next(arm for arm in typing.get_args(hint) if arm is not type(None))
        return kind(inner, version) + " or nil"
    if typing.get_origin(hint) is typing.Annotated:
        bare, *notes = typing.get_args(hint)
        return kind(bare, version) + "".join(bound(note) for note in notes)
    if typing.get_origin(hint) is list:
        return "list of " + kind(typing.get_args(hint)[0], version)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return shape(hint, version)
    return str(hint.__name__).lower()


def bound(note: object) -> str:
    """Return how a field's range or greatest length is written."""
    match note:
        case IntRange(high=high):
            return str((high + 1).bit_length())
        case MaxLength(count=count):
            return f"({count})"
    raise AssertionError(f"{note!r} is not described here")


def described(requests: typing.Iterable[type[Request]]) -> list[str]:
    return [
        f"{int(api.api_key)}.{version} {part} {shape(cls, version)}"
        for api in sorted(requests, key=lambda api: api.api_key)
        for version in range(api.versions[0], api.versions[1] + 1)
        for part, cls in (("request", api), ("answer", api.response))
    ]


def test_every_version_of_a_release_is_spoken_as_it_was() -> None:
    newest = RELEASED / "0.1.0.txt"
    now = described(REQUESTS.values())
    if os.environ.get("REWRITE"):
        newest.write_text("".join(line + "\n" for line in now))
    for file in sorted(RELEASED.iterdir()):
        gone = sorted(set(file.read_text().splitlines()) - set(now))
        assert not gone, f"{file.name} says what this code does not speak any more: {gone}"
    added = sorted(set(now) - set(newest.read_text().splitlines()))
    assert not added, f"{newest.name} lacks what this code speaks; REWRITE=1 adds it: {added}"


@dataclasses.dataclass
class Old(Request):
    topic: Name
    partition: Int32 = 0


@dataclasses.dataclass
class WithField(Request):
    topic: Name
    partition: Int32 = 0
    reason: Name | None = since(1, default=None)


@dataclasses.dataclass
class WithFieldInPlace(Request):
    topic: Name
    partition: Int32 = 0
    reason: Name | None = None


@dataclasses.dataclass
class WithWiderField(Request):
    topic: Name
    partition: list[Int32] = dataclasses.field(default_factory=list)


def test_a_field_of_a_newer_version_leaves_the_older_one_as_it_was() -> None:
    assert shape(WithField, 0) == shape(Old, 0)
    assert shape(WithField, 1) != shape(Old, 0)


@pytest.mark.parametrize("changed", [WithFieldInPlace, WithWiderField])
def test_a_change_in_place_is_seen(changed: type[Request]) -> None:
    assert shape(changed, 0) != shape(Old, 0)


def test_every_api_is_described_in_each_version() -> None:
    wanted = sum(2 * (api.versions[1] - api.versions[0] + 1) for api in apis())
    assert len(described(REQUESTS.values())) == wanted
