"""Draw any legal message of any class, and bytes that once were legal."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from oncelog_protocol.messages.base import Request
from oncelog_protocol.registry import REQUESTS
from oncelog_protocol.schema import IntRange, MaxLength, Span
from oncelog_protocol.types import Buffer

__all__ = [
    "Receiver",
    "a_third",
    "all_message_classes",
    "apis",
    "buffer_bytes",
    "feed",
    "message_classes",
    "messages",
    "mutated",
]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ITEMS_MAX = 3

a_third = settings(max_examples=settings().max_examples // 3)
"""The examples of a test that runs for every message: they are much alike, and there are many."""


def message_classes() -> list[type]:
    """Return every request and response class, in order of API key."""
    return [cls for key in sorted(REQUESTS) for cls in (REQUESTS[key], REQUESTS[key].response)]


def all_message_classes() -> list[type]:
    """Return every message class, those inside others too, each once."""
    found: list[type] = []
    queue: list[Any] = list(message_classes())
    while queue:
        item = queue.pop(0)
        if dataclasses.is_dataclass(item) and isinstance(item, type):
            if item in found:
                continue
            found.append(item)
            queue += typing.get_type_hints(item, include_extras=True).values()
        queue += typing.get_args(item)
    return found


def apis() -> list[type[Request]]:
    """Return every request class, in order of API key."""
    return [REQUESTS[key] for key in sorted(REQUESTS)]


def messages(cls: type, version: int = 0) -> st.SearchStrategy[Any]:
    """Draw any ``cls`` whose fields hold what their types allow; fields of later versions are left
    at their defaults. Spans are (0, 0): they mean something only beside a payload."""
    if cls is Span:
        return st.just(Span(0, 0))
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {
        field.name: values(hints[field.name], version)
        for field in dataclasses.fields(cls)
        if field.metadata.get("since", 0) <= version
    }
    return st.builds(cls, **fields)


def values(hint: Any, version: int) -> st.SearchStrategy[Any]:
    """Draw any value of one field's type."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = next(a for a in typing.get_args(hint) if a is not type(None))
        return st.none() | values(inner, version)
    notes: Sequence[Any] = ()
    if typing.get_origin(hint) is typing.Annotated:
        hint, *notes = typing.get_args(hint)
    if typing.get_origin(hint) is list:
        return st.lists(values(typing.get_args(hint)[0], version), max_size=ITEMS_MAX)
    if dataclasses.is_dataclass(hint):
        return messages(typing.cast(type, hint), version)
    if hint is int:
        bounds = next((n for n in notes if isinstance(n, IntRange)), IntRange(-(2**63), 2**63 - 1))
        return st.integers(bounds.low, bounds.high)
    if hint is bool:
        return st.booleans()
    if hint is float:
        return st.floats(allow_nan=False)
    length = next((n.count for n in notes if isinstance(n, MaxLength)), 20)
    if hint is bytes:
        return st.binary(max_size=min(length, 20))
    assert hint is str, hint
    return TEXT


@st.composite
def mutated(draw: st.DrawFn, original: bytes) -> bytes:
    """``original`` with a few bytes set, cut out, doubled or put in."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        kind = draw(st.sampled_from(["set", "cut", "double", "insert", "truncate"]))
        if kind == "set" and data:
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[at : at + draw(st.integers(1, 8))]
        elif kind == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 8))]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif kind == "truncate":
            del data[at:]
    return bytes(data)


class Receiver(typing.Protocol):
    """It takes bytes as asyncio.BufferedProtocol does: a frame reader or a connection."""

    def get_buffer(self, sizehint: int = -1) -> memoryview: ...

    def received(self, nbytes: int) -> list[Any]: ...


def feed(receiver: Receiver, data: Buffer, piece: int = 2**30) -> list[Any]:
    """Write ``data`` into ``receiver``, at most ``piece`` bytes at a time; all that came out."""
    out: list[Any] = []
    view, pos = memoryview(data), 0
    while pos < len(view):
        buffer = receiver.get_buffer(65536)
        assert len(buffer) > 0
        count = min(len(buffer), len(view) - pos, piece)
        buffer[:count] = view[pos : pos + count]
        pos += count
        out += receiver.received(count)
    return out


def buffer_bytes(buffers: Sequence[Buffer]) -> bytes:
    """Return the buffers of one frame as the peer receives them."""
    return b"".join(buffers)
