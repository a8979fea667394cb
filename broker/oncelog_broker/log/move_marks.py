"""Two small files say which copy of a log counts that was moved from one directory to another.

Owns ``moved.json`` and ``swap.json``, each in a partition's directory. Rules:

- ``moved.json`` names the directory that the log goes to. It is durable before the copy there takes
  the log's name, so the old copy never passes for the log once the new one may have taken writes;
- ``swap.json`` is in the copy, durable before the copy takes the log's name. It says what the
  checkpoints of its directory do not say yet: up to where the copy was synced, and where the log
  begins. It goes when they say it. A checkpoint that names the log is newer, and is believed;
- a mark that cannot be read is there all the same, and says as little as it can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from oncelog_broker.log.checkpoint import CheckpointError, decode_document, encode_document
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import Files

MOVED_MARK = "moved.json"
SWAP_MARK = "swap.json"
FUTURE_SUFFIX = "-future"
NOWHERE = ""
"""An unreadable mark names this directory, which is none."""
_FUTURE_NAME = re.compile(r".+\.[0-9a-f]{32}-future")
_NAME_CHARS_MAX = 255
_VERSION = 1


class SwapMark(NamedTuple):
    """A copy that is about to be the log says this of itself."""

    topic_id: str
    end_offset: int
    """Offsets below it are synced in the copy."""
    log_start_offset: int
    high_watermark: int
    clean_rows: list[tuple[int, int]]
    """They are the rows of the cleaner's checkpoint."""


def future_name(topic_partition: TopicPartition, unique: str) -> str:
    """Return the name of the directory of a copy in the making; ``unique`` is 32 hex digits."""
    suffix = f".{unique}{FUTURE_SUFFIX}"
    return str(topic_partition)[: _NAME_CHARS_MAX - len(suffix)] + suffix


def is_future(name: str) -> bool:
    """Return whether a directory of this name is a copy in the making."""
    return _FUTURE_NAME.fullmatch(name) is not None


def write_moved(files: Files, directory: str, directory_id: str) -> None:
    """Note, durably, that the log in ``directory`` goes to another one. Raises OSError."""
    document = encode_document({"version": _VERSION, "directory_id": directory_id})
    files.write_atomic_now(f"{directory}/{MOVED_MARK}", document)


def read_moved(files: Files, directory: str) -> str | None:
    """Return the id of the directory that a log goes to; None when it stays. Raises OSError."""
    path = f"{directory}/{MOVED_MARK}"
    if not files.exists(path):
        return None
    try:
        return str(decode_document(MOVED_MARK, files.read_bytes(path))["directory_id"])
    except (CheckpointError, KeyError):
        return NOWHERE


def remove_moved(files: Files, directory: str) -> None:
    """Note, durably, that the log in ``directory`` stays. Raises OSError."""
    path = f"{directory}/{MOVED_MARK}"
    if files.exists(path):
        files.remove(path)
    files.sync_dir(directory)


def write_swap(files: Files, directory: str, mark: SwapMark) -> None:
    """Write, durably, what the copy in ``directory`` says of itself. Raises OSError."""
    files.write_atomic_now(
        f"{directory}/{SWAP_MARK}", encode_document({"version": _VERSION, **mark._asdict()})
    )


def is_swapped(files: Files, directory: str) -> bool:
    """Return whether the log in ``directory`` came there by a move of which checkpoints may know
    nothing."""
    return files.exists(f"{directory}/{SWAP_MARK}")


def read_swap(files: Files, directory: str) -> SwapMark | None:
    """Return what the log in ``directory`` says of itself; None when that cannot be read, or
    nothing is said. Raises OSError."""
    if not is_swapped(files, directory):
        return None
    try:
        said = decode_document(SWAP_MARK, files.read_bytes(f"{directory}/{SWAP_MARK}"))
        return SwapMark(
            str(said["topic_id"]),
            int(said["end_offset"]),
            int(said["log_start_offset"]),
            int(said["high_watermark"]),
            _rows(said["clean_rows"]),
        )
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None


def remove_swap(files: Files, directory: str) -> None:
    """Remove the mark, as the checkpoints of the directory name the log. Raises OSError."""
    path = f"{directory}/{SWAP_MARK}"
    if files.exists(path):
        files.remove(path)
        files.sync_dir(directory)


def _rows(rows: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [(int(offset), int(time_ms)) for offset, time_ms in rows]
