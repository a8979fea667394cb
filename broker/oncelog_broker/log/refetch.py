"""A mark on disk says that a log is being fetched again because it was damaged.

Owns ``refetch.json`` in a partition's directory. It says how far the damaged log reached: until all
of that may be there again the replica must not lead, whatever ISR still names it. Rules:

- it is durable before the first byte of the damaged log is dropped: a crash on the way back must
  not leave a short log that passes for a whole one;
- it goes when what makes the replica whole is synced, not before: a power cut might keep the
  removal and not the records. Should the removal be undone, the next start finds that the log is
  whole, or waits for a leader that says so;
- a mark that cannot be read counts as one that reaches without end.
"""

from __future__ import annotations

from oncelog_broker.log.checkpoint import CheckpointError, decode_document, encode_document
from oncelog_runtime.files import Files

REFETCH_MARK = "refetch.json"
NOT_REFETCHING = -1
ALL_OFFSETS = 2**63 - 1


def write_mark(files: Files, directory: str, end_offset: int) -> None:
    """Note, durably, that the log in ``directory`` reached up to ``end_offset``. Raises OSError."""
    document = encode_document({"version": 1, "end_offset": end_offset})
    files.write_atomic_now(f"{directory}/{REFETCH_MARK}", document)


def read_mark(files: Files, directory: str) -> int:
    """Return how far the damaged log reached; ``NOT_REFETCHING`` when there is no mark. Raises
    OSError."""
    path = f"{directory}/{REFETCH_MARK}"
    if not files.exists(path):
        return NOT_REFETCHING
    try:
        return int(decode_document(REFETCH_MARK, files.read_bytes(path))["end_offset"])
    except (CheckpointError, KeyError, TypeError, ValueError):
        return ALL_OFFSETS


def remove_mark(files: Files, directory: str) -> None:
    """Take the mark away; the caller has the directory synced. Raises OSError."""
    path = f"{directory}/{REFETCH_MARK}"
    if files.exists(path):
        files.remove(path)
