"""A key map holds the newest offset of each key in a stretch of a log, in bounded memory. Pure.

Rules:

- keys are held whole, not as digests: two keys that look alike would cost one of them its value;
- a batch goes in whole or not at all: the map covers an unbroken stretch of the log, and where the
  map was full the next pass goes on;
- the first batch always goes in, however large: a pass gets somewhere.

Whole columns go through C: no loop in Python runs over the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ENTRY_BYTES = 176
"""An entry takes so much memory besides the bytes of its key: two places in the table, as while it
grows, the key's object and the offset's."""


class KeyMap:
    """It maps keys to their newest offsets."""

    __slots__ = ("_bytes_max", "_newest", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._newest: dict[bytes, int] = {}
        self.size_bytes = 0
        """It takes about so much memory."""

    @property
    def newest(self) -> Mapping[bytes, int]:
        """Return the newest offset by key."""
        return self._newest

    def add(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> bool:
        """Take in the records of one batch, which follow all that are there. Return False if there
        was no room, and nothing was taken. A record without key is passed over."""
        given = set(keys)
        if None in given:
            offsets = [o for o, key in zip(offsets, keys, strict=True) if key is not None]
            keys = [key for key in keys if key is not None]
            given.discard(None)
        new = given.difference(self._newest)
        size = self.size_bytes + ENTRY_BYTES * len(new) + sum([len(key) for key in new if key])
        if size > self._bytes_max and self._newest:
            return False
        self.size_bytes = size
        self._newest.update(zip(keys, offsets, strict=True))  # type: ignore[arg-type]
        return True

    def __len__(self) -> int:
        return len(self._newest)
