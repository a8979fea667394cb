"""The small files of a log directory are encoded and decoded here. Pure.

Owns their encodings; who writes them uses ``Files.write_atomic`` (temporary file, sync, rename,
sync of the directory: rule [D4]). Rules:

- a table is text, one row a line, under a header line with kind, version, row count and checksum;
- a document is JSON with its own checksum;
- a reader accepts exactly what a writer wrote or raises :class:`CheckpointError`. Empty files and
  files of NULs occur in the field after power loss. The caller treats a bad file as absent.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog_protocol.errors import OncelogError
from oncelog_protocol.types import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
"""Below this offset everything of a log is synced."""
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
"""Only logs that do not start at 0 are listed. Some are listed though their first segment starts
there: the removal of the segments before it is not synced, and files that come back with a power
cut must not be read again."""
CLEANER = "cleaner-offset-checkpoint"
"""It says up to where logs are compacted, and since when, with several rows a log; see
``clean_state``."""
LEADER_EPOCH = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN = "clean-shutdown.json"
CONTINUITY = "continuity.json"
CONTINUITY_LEFT = "continuity-left.json"
"""It says since when nothing was lost; see ``continuity``."""
META = "meta.json"
SESSION = "session.json"
"""It is in the first directory only, and holds the broker's session with the metadata store."""
PARTITION_META = "partition.json"

_MAGIC = "oncelog"
_VERSION = 1
_OFFSET_MAX = 2**63 - 1


class CheckpointError(OncelogError):
    """A checkpoint, meta or index file does not hold what its writer wrote."""


def encode_table(kind: str, rows: Iterable[Sequence[object]]) -> bytes:
    """Encode rows of words without spaces."""
    lines = [" ".join(map(str, row)) + "\n" for row in rows]
    body = "".join(lines).encode("ascii")
    head = f"{_MAGIC} {kind} {_VERSION} {len(lines)} {zlib.crc32(body):08x}\n"
    return head.encode("ascii") + body


def decode_table(kind: str, data: bytes, columns: int) -> list[list[str]]:
    """Decode what :func:`encode_table` made. Raises CheckpointError."""
    head, newline, body = data.partition(b"\n")
    lines = body.split(b"\n")
    expected = f"{_MAGIC} {kind} {_VERSION} {len(lines) - 1} {zlib.crc32(body):08x}"
    if not newline or lines[-1] or head != expected.encode("ascii"):
        raise CheckpointError(f"{kind}: header {bytes(head[:80])!r}, expected {expected!r}")
    try:
        rows = [line.decode("ascii").split(" ") for line in lines[:-1]]
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{kind}: not ASCII") from error
    if any(len(row) != columns for row in rows):
        raise CheckpointError(f"{kind}: a row without {columns} columns")
    return rows


def encode_offsets(kind: str, offsets: Mapping[TopicPartition, int]) -> bytes:
    """Encode one offset a partition, sorted by partition."""
    return encode_table(kind, [(tp.topic, tp.partition, offsets[tp]) for tp in sorted(offsets)])


def decode_offsets(kind: str, data: bytes) -> dict[TopicPartition, int]:
    """Decode what :func:`encode_offsets` made. Raises CheckpointError."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in decode_table(kind, data, 3):
        offsets[TopicPartition(topic, _number(kind, partition))] = _number(kind, offset)
    return offsets


def encode_clean(rows: Mapping[TopicPartition, Sequence[tuple[int, int]]]) -> bytes:
    """Encode (offset, time in ms) pairs, any number a partition, sorted by partition."""
    return encode_table(
        CLEANER,
        [(tp.topic, tp.partition, offset, ms) for tp in sorted(rows) for offset, ms in rows[tp]],
    )


def decode_clean(data: bytes) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Decode what :func:`encode_clean` made. Raises CheckpointError."""
    rows: dict[TopicPartition, list[tuple[int, int]]] = {}
    for topic, partition, offset, ms in decode_table(CLEANER, data, 4):
        row = _number(CLEANER, offset), _number(CLEANER, ms)
        rows.setdefault(TopicPartition(topic, _number(CLEANER, partition)), []).append(row)
    return rows


def encode_epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    """Encode (epoch, start offset) pairs."""
    return encode_table(LEADER_EPOCH, entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """Decode what :func:`encode_epochs` made. Raises CheckpointError."""
    rows = decode_table(LEADER_EPOCH, data, 2)
    return [(_number(LEADER_EPOCH, a), _number(LEADER_EPOCH, b)) for a, b in rows]


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Encode a small JSON object for people and programs, with its checksum as "crc32"."""
    body = dict(document)
    body["crc32"] = _document_checksum(document)
    return (json.dumps(body, indent=2, sort_keys=True) + "\n").encode("utf-8")


def decode_document(name: str, data: bytes) -> dict[str, Any]:
    """Decode what :func:`encode_document` made, without its checksum. Raises CheckpointError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: not JSON") from error
    if not isinstance(document, dict):
        raise CheckpointError(f"{name}: not a JSON object")
    if document.pop("crc32", None) != _document_checksum(document):
        raise CheckpointError(f"{name}: the checksum does not hold")
    return document


def _document_checksum(document: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(document, sort_keys=True).encode('utf-8')):08x}"


def _number(kind: str, text: str) -> int:
    # int() also takes signs, underscores and foreign digits; the writer makes none of them.
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or int(text) > _OFFSET_MAX:
        raise CheckpointError(f"{kind}: {text[:40]!r} is not an offset")
    return int(text)
