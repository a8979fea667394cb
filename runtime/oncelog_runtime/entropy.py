"""Chance is a port: jitter, choices, ids and nonces come from streams that are handed down.

Rules: a component draws only from the stream it was given, and gives each of its parts a stream
of its own by ``fork(name)``. A fork depends on the parent's seed and on the name, never on how much
the parent has drawn: one more draw in one component does not shift another's, so a failing seed
stays failing while one looks for the reason. Forking twice by one name gives one stream twice.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

__all__ = ["Entropy", "SeededEntropy", "SystemEntropy"]

T = TypeVar("T")


class Entropy(Protocol):
    """This port is one stream of chance."""

    def fork(self, name: str) -> Entropy:
        """Return the independent stream of this name."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def randint(self, low: int, high: int) -> int:
        """Return an integer in [low, high], both ends included."""
        ...

    def choice(self, items: Sequence[T]) -> T:
        """Return one of a non-empty sequence; raise IndexError when it is empty."""
        ...

    def shuffle(self, items: list[Any]) -> None:
        """Shuffle in place."""
        ...

    def token(self, nbytes: int) -> bytes:
        """Return so many bytes that nobody can guess."""
        ...

    def uuid(self) -> str:
        """Return a version-4 UUID, as 32 hexadecimal digits with dashes."""
        ...


class _Stream:
    """Both versions share this base, which draws from a ``random.Random``."""

    __slots__ = ("_random",)

    def __init__(self, generator: random.Random) -> None:
        self._random = generator

    def random(self) -> float:
        return self._random.random()

    def randint(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def choice(self, items: Sequence[T]) -> T:
        return self._random.choice(items)

    def shuffle(self, items: list[Any]) -> None:
        self._random.shuffle(items)

    def token(self, nbytes: int) -> bytes:
        return self._random.randbytes(nbytes)

    def uuid(self) -> str:
        return str(UUID(bytes=self.token(16), version=4))


class SystemEntropy(_Stream):
    """The operating system seeds this stream; tokens and ids come straight from it."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(random.Random(secrets.randbits(256)))

    def fork(self, name: str) -> SystemEntropy:
        return SystemEntropy()

    def token(self, nbytes: int) -> bytes:
        return secrets.token_bytes(nbytes)


class SeededEntropy(_Stream):
    """Everything follows from the seed. For tests and the simulator; tokens can be guessed."""

    __slots__ = ("_seed",)

    def __init__(self, seed: int | str) -> None:
        self._seed = f"{seed}"
        digest = hashlib.sha256(self._seed.encode()).digest()
        super().__init__(random.Random(int.from_bytes(digest, "big")))

    def fork(self, name: str) -> SeededEntropy:
        return SeededEntropy(f"{self._seed}/{name}")

    def __repr__(self) -> str:
        return f"SeededEntropy({self._seed!r})"
