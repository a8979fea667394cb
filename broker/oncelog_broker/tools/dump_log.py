"""Print what the files of a log hold: segments, indexes, checkpoints, meta files.

``python -m oncelog_broker.tools.dump_log FILE... [--records] [--json]``

Owns a reader that shares formats with the log and changes nothing; it may look at files of a
running broker. Rules: every file gets a line that says whether it holds; damage is reported and
makes the exit code 1, arguments that make no sense 2; ``--json`` prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from oncelog_broker.log import checkpoint, offset_index, time_index
from oncelog_broker.log.aborted_transactions import decode_rows
from oncelog_broker.log.batch_facts import codec_name, read_marker
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.index_file import (
    INDEX_SUFFIX,
    OFFSET_INDEX_MAGIC,
    TIME_INDEX_MAGIC,
    TIME_INDEX_SUFFIX,
    decode_blocks,
)
from oncelog_broker.log.index_reading import offset_entries, time_entries
from oncelog_broker.log.producer_snapshots import SNAPSHOT_SUFFIX, decode
from oncelog_broker.log.producer_state import ProducerState
from oncelog_broker.log.scan import SCAN_CHUNK_BYTES, Scan
from oncelog_broker.log.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError
from oncelog_protocol.records.compression import CodecUnavailableError
from oncelog_protocol.records.decode import decode_batch
from oncelog_runtime.files import File, Files, SystemFiles

Line = dict[str, Any]
"""It is one line of output; "kind" says what it is about."""

_OFFSET_CHECKPOINTS = (checkpoint.RECOVERY_POINT, checkpoint.HIGH_WATERMARK, checkpoint.LOG_START)


def dump_file(files: Files, path: str, *, records: bool = False) -> Iterator[Line]:
    """Yield what one file holds, then a line of kind "file" with its verdict."""
    name = os.path.basename(path).removesuffix(DELETED_SUFFIX)
    if name.endswith(LOG_SUFFIX):
        yield from _dump_segment(files, path, records)
    elif name.endswith(INDEX_SUFFIX):
        yield from _dump_offset_index(path, files.read_bytes(path), _base_offset(name))
    elif name.endswith(TIME_INDEX_SUFFIX):
        yield from _dump_time_index(path, files.read_bytes(path))
    elif name.endswith(TXN_INDEX_SUFFIX):
        yield from _dump_txn_index(path, files.read_bytes(path))
    else:
        yield from _dump_small(path, name, files.read_bytes(path))


def _base_offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _verdict(path: str, damage: str, **facts: object) -> Line:
    return {"kind": "file", "path": path, **facts, "damage": damage or None}


def _dump_segment(files: Files, path: str, records: bool) -> Iterator[Line]:
    file = files.open(path)
    count = batches = 0
    damage = ""
    try:
        scan = Scan(file, 0, file.size(), verify=True, chunk_bytes=SCAN_CHUNK_BYTES)
        try:
            for position, header in scan:
                batches += 1
                count += header.record_count
                yield _batch_line(position, header)
                if header.is_control:
                    yield _marker_line(file, position, header)
                elif records:
                    yield from _record_lines(file, position, header)
        except CorruptBatchError as error:
            damage = f"byte {scan.position}: {error}"
        yield _verdict(path, damage, size_bytes=file.size(), batches=batches, records=count)
    finally:
        file.close()


def _batch_line(position: int, header: BatchHeader) -> Line:
    return {
        "kind": "batch",
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "size_bytes": header.size_bytes,
        "leader_epoch": header.leader_epoch,
        "magic": header.magic,
        "codec": codec_name(header),
        "timestamp_type": header.timestamp_type.name.lower(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": f"{header.crc:08x}",
    }


def _record_lines(file: File, position: int, header: BatchHeader) -> Iterator[Line]:
    try:
        columns = decode_batch(file.read_at(position, header.size_bytes), verify=False)
    except (CorruptBatchError, CodecUnavailableError) as error:
        yield {"kind": "undecodable", "base_offset": header.base_offset, "reason": str(error)}
        return
    keys = columns.keys or [None] * len(columns)
    headers = columns.headers or [()] * len(columns)
    for offset, stamp_ms, key, value, pairs in zip(
        columns.offsets(), columns.timestamp_list(), keys, columns.values, headers, strict=True
    ):
        yield {
            "kind": "record",
            "offset": offset,
            "timestamp": stamp_ms,
            "key": _text(key),
            "value": _text(value),
            "headers": [[name, _text(content)] for name, content in pairs],
        }


def _text(data: bytes | None) -> str | None:
    """Return UTF-8 as it is, anything else as base64 with a prefix that says so."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode("ascii")


def _dump_offset_index(path: str, data: bytes, base_offset: int) -> Iterator[Line]:
    blocks, whole = decode_blocks(OFFSET_INDEX_MAGIC, data, offset_index.ENTRY_BYTES)
    entries = 0
    for block in blocks:
        for offset, position in offset_entries(block, base_offset):
            yield {"kind": "entry", "offset": offset, "position": position}
        entries += block.entries
    if blocks:
        yield {"kind": "summary", **blocks[-1].summary._asdict()}
    yield _verdict(path, "" if whole else "a block does not hold", entries=entries)


def _dump_time_index(path: str, data: bytes) -> Iterator[Line]:
    blocks, whole = decode_blocks(TIME_INDEX_MAGIC, data, time_index.ENTRY_BYTES)
    entries = 0
    for block in blocks:
        for number, stamp_ms in time_entries(block):
            yield {"kind": "entry", "index_entry": number, "max_timestamp_before": stamp_ms}
        entries += block.entries
    yield _verdict(path, "" if whole else "a block does not hold", entries=entries)


def _dump_txn_index(path: str, data: bytes) -> Iterator[Line]:
    rows, whole = decode_rows(data)
    for row in rows:
        yield {"kind": "aborted", **row._asdict()}
    yield _verdict(path, "" if whole else "a block does not hold", entries=len(rows))


def _marker_line(file: File, position: int, header: BatchHeader) -> Line:
    try:
        marker = read_marker(file, position, header)
    except CorruptBatchError as error:
        return {"kind": "undecodable", "base_offset": header.base_offset, "reason": str(error)}
    return {
        "kind": "marker",
        "offset": marker.offset,
        "type": marker.control_type.name.lower(),
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "coordinator_epoch": marker.coordinator_epoch,
        "first_offset": marker.first_offset,
        "number": marker.number,
    }


def _dump_small(path: str, name: str, data: bytes) -> Iterator[Line]:
    damage = ""
    try:
        if name in _OFFSET_CHECKPOINTS:
            for tp, offset in checkpoint.decode_offsets(name, data).items():
                yield {"kind": "offset", "partition": str(tp), "offset": offset}
        elif name == checkpoint.LEADER_EPOCH:
            for epoch, start in checkpoint.decode_epochs(data):
                yield {"kind": "epoch", "epoch": epoch, "start_offset": start}
        elif name.endswith(SNAPSHOT_SUFFIX):
            yield from _producer_lines(data)
        elif name.endswith(".json"):
            yield {"kind": "document", **checkpoint.decode_document(name, data)}
        else:
            damage = "not a file of a log"
    except CheckpointError as error:
        damage = str(error)
    yield _verdict(path, damage, size_bytes=len(data))


def _producer_lines(data: bytes) -> Iterator[Line]:
    offset, _, encoded, _ = decode(data)
    state = ProducerState()
    state.restore(encoded)
    for producer_id, entry in sorted(state.producers.items()):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "kind": "producer",
            "upto_offset": offset,
            "producer_id": producer_id,
            "producer_epoch": entry.epoch,
            "batches": len(entry.batches),
            "last_sequence": entry.last_sequence,
            "last_offset": last.last_offset if last is not None else None,
            "seen_ms": entry.seen_ms,
            "txn_first_offset": entry.txn_first_offset,
            "marker_offset": entry.marker_offset,
            "marker_number": entry.marker_number,
            "coordinator_epoch": entry.coordinator_epoch,
        }


def _plain(line: Line) -> str:
    facts = " ".join(
        f"{name}={value}" for name, value in line.items() if name != "kind" and value is not None
    )
    return f"{line['kind']}: {facts}"


def _files_in(files: Files, directory: str) -> list[str]:
    """Return the files of a partition's directory, in order of their names."""
    paths = [os.path.join(directory, name) for name in sorted(files.list_dir(directory))]
    return [path for path in paths if os.path.isfile(path)]


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m oncelog_broker.tools.dump_log",
        description="Print what files of a log directory hold, and whether they hold.",
    )
    parser.add_argument(
        "file",
        nargs="+",
        help="a partition's directory, a .log, .index, .timeindex, .txnindex or .snapshot file,"
        " or a checkpoint",
    )
    parser.add_argument("--records", action="store_true", help="print the records of segments too")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    options = parser.parse_args(arguments)
    files = SystemFiles()
    damaged = False
    paths: list[str] = []
    for path in options.file:
        if os.path.isdir(path):
            paths += _files_in(files, path)
        elif os.path.isfile(path):
            paths.append(path)
        else:
            print(f"{path}: no such file or directory", file=sys.stderr)
            return 2
    for path in paths:
        for line in dump_file(files, path, records=options.records):
            damaged = damaged or bool(line.get("damage"))
            print(json.dumps(line) if options.json else _plain(line))
    return 1 if damaged else 0


if __name__ == "__main__":
    sys.exit(main())
