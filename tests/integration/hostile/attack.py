"""An attack is one input of the table of hostile inputs, done to a broker over the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from integration.hostile.target import Target

__all__ = ["Attack"]


@dataclass(frozen=True, slots=True)
class Attack:
    """It does what its row says, and fails unless the broker does what the row says too."""

    row: int
    on: Callable[[Target], Awaitable[None]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The broker has these beside those of every target."""

    def __str__(self) -> str:
        return f"{self.row}-{self.on.__name__}"
