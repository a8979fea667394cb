"""An attack is one input of the table of hostile inputs, done to a broker over the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from integration.hostile.target import Target

__all__ = ["Attack"]


@dataclass(frozen=True, slots=True)
class Attack:
    """It does what its row says, and fails unless the broker does what the row says too."""

    row: int
    on: Callable[[Target], Awaitable[None]]

    def __str__(self) -> str:
        return f"{self.row}-{self.on.__name__}"
