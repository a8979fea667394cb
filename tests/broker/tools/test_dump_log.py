"""The tool prints every kind of file, whole or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.tools.dump_log import Line, dump_file, main
from oncelog_protocol.records.batch import KAFKA_MAGIC
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import Codec
from oncelog_runtime.files import SystemFiles
from support.logs import NOW_MS, TP, batch, make_log, make_log_dir, sync, topic_config
from support.transactional_logs import TxnProducer


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition's directory has one of everything."""
    files = SystemFiles()
    config = topic_config(index_interval_bytes=0)
    log = make_log(files, config, log_dir=make_log_dir(files, str(tmp_path)))
    log.append_as_leader(batch(b"plain", b"\xff", None, keys=[b"k", None, b"\xfe"]), 1)
    zipped = batch(b"zipped", codec=Codec.GZIP, timestamps=NOW_MS + 5, producer=(7, 2, 40))
    log.append_as_leader(zipped, 2)
    sync(log)
    log.close()
    path = Path(log.directory)
    (path / checkpoint.LEADER_EPOCH).write_bytes(checkpoint.encode_epochs(log.epochs.entries()))
    (path / checkpoint.LOG_START).write_bytes(
        checkpoint.encode_offsets(checkpoint.LOG_START, {TP: 1})
    )
    return path


def dump(path: Path, *, records: bool = False) -> list[Line]:
    return list(dump_file(SystemFiles(), str(path), records=records))


def segment(directory: Path, suffix: str = ".log") -> Path:
    return directory / f"{0:020d}{suffix}"


def test_batches(directory: Path) -> None:
    first, second, verdict = dump(segment(directory))
    assert (first["base_offset"], first["last_offset"], first["codec"]) == (0, 2, "none")
    assert (second["base_offset"], second["leader_epoch"], second["codec"]) == (3, 2, "gzip")
    assert second["position"] == first["size_bytes"]
    assert verdict["batches"] == 2
    assert verdict["records"] == 4
    assert verdict["damage"] is None


def test_records(directory: Path) -> None:
    lines = [x for x in dump(segment(directory), records=True) if x["kind"] == "record"]
    assert [line["offset"] for line in lines] == [0, 1, 2, 3]
    assert [line["value"] for line in lines] == ["plain", "base64:/w==", None, "zipped"]
    assert [line["key"] for line in lines] == ["k", None, "base64:/g==", None]
    assert lines[3]["timestamp"] == NOW_MS + 5


def test_kafkas_batches(tmp_path: Path) -> None:
    files = SystemFiles()
    log = make_log(files, topic_config(), log_dir=make_log_dir(files, str(tmp_path)))
    kafkas = encode_batch(
        [b"v", None],
        keys=[b"k", None],
        timestamps=NOW_MS,
        headers=[[("h", b"1")], None],
        codec=Codec.SNAPPY,
        magic=KAFKA_MAGIC,
    )
    log.append_as_leader(memoryview(kafkas), 1, magic=KAFKA_MAGIC)
    log.append_as_leader(batch(b"ours"), 1)
    log.close()
    lines = dump(segment(Path(log.directory)), records=True)
    batches = [line for line in lines if line["kind"] == "batch"]
    assert [(line["magic"], line["codec"]) for line in batches] == [(2, "snappy"), (1, "none")]
    records = [line for line in lines if line["kind"] == "record"]
    assert [line["value"] for line in records] == ["v", None, "ours"]
    assert records[0]["headers"] == [["h", "1"]]


def test_indexes(directory: Path) -> None:
    lines = dump(segment(directory, ".index"))
    entries = [line for line in lines if line["kind"] == "entry"]
    assert [entry["offset"] for entry in entries] == [0, 3]
    (summary,) = [line for line in lines if line["kind"] == "summary"]
    assert summary["next_offset"] == 4
    assert summary["max_timestamp"] == NOW_MS + 5
    times = [x for x in dump(segment(directory, ".timeindex")) if x["kind"] == "entry"]
    assert [entry["max_timestamp_before"] for entry in times] == [-1, NOW_MS]


def test_producers(directory: Path) -> None:
    line, verdict = dump(directory / f"{4:020d}.snapshot")
    assert (line["upto_offset"], line["producer_id"], line["producer_epoch"]) == (4, 7, 2)
    assert (line["batches"], line["last_sequence"], line["last_offset"]) == (1, 40, 3)
    assert verdict["damage"] is None
    damaged = directory / f"{5:020d}.snapshot"
    for data in (b"", b"x" * 30):
        damaged.write_bytes(data)
        (verdict,) = dump(damaged)
        assert "producer snapshot" in verdict["damage"]


def test_markers_and_aborted_transactions(tmp_path: Path) -> None:
    log = make_log(SystemFiles(), log_dir=make_log_dir(SystemFiles(), str(tmp_path)))
    producer = TxnProducer(7, 2)
    producer.send(log, b"a")
    producer.end(log, commit=False, coordinator_epoch=9)
    sync(log)
    log.close()
    path = Path(log.directory)
    _, _, marker, _ = dump(segment(path))
    assert marker == {
        "kind": "marker",
        "offset": 1,
        "type": "abort",
        "producer_id": 7,
        "producer_epoch": 3,
        "coordinator_epoch": 9,
        "first_offset": 0,
        "number": -1,
    }
    row, verdict = dump(segment(path, ".txnindex"))
    assert (row["producer_id"], row["first_offset"], row["marker_offset"]) == (7, 0, 1)
    assert verdict["damage"] is None
    known, _ = dump(path / f"{2:020d}.snapshot")
    assert (known["marker_offset"], known["txn_first_offset"]) == (1, -1)
    segment(path, ".txnindex").write_bytes(b"torn")
    assert dump(segment(path, ".txnindex"))[-1]["damage"]


def test_small_files(directory: Path) -> None:
    epochs = [x for x in dump(directory / checkpoint.LEADER_EPOCH) if x["kind"] == "epoch"]
    assert [(line["epoch"], line["start_offset"]) for line in epochs] == [(1, 0), (2, 3)]
    assert dump(directory / checkpoint.LOG_START)[0]["partition"] == str(TP)
    assert dump(directory / checkpoint.PARTITION_META)[0]["topic_id"] == "topic-id"


@pytest.mark.parametrize(
    "name",
    [f"{0:020d}.log", f"{0:020d}.index", f"{0:020d}.timeindex", checkpoint.LEADER_EPOCH],
)
def test_damage_is_told_and_sets_the_exit_code(
    directory: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = directory / name
    assert main([str(path), "--json", "--records"]) == 0
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(bytes(data))
    assert main([str(path), "--json", "--records"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["damage"]


def test_plain_output(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(segment(directory)), str(directory / checkpoint.LEADER_EPOCH)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("batch: position=0 base_offset=0 last_offset=2")
    assert sum(line.startswith("file:") for line in lines) == 2


def test_a_body_that_does_not_decode_is_one_line(directory: Path) -> None:
    path = segment(directory)
    data = bytearray(path.read_bytes())
    data[-20:-10] = bytes(10)
    path.write_bytes(bytes(data))
    assert dump(path, records=True)[-1]["damage"]


def test_a_file_that_is_not_there_or_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "missing.log")]) == 2
    assert "no such file" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("hello")
    assert main([str(tmp_path / "notes.txt")]) == 1


def test_a_directory_is_all_of_its_files(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(directory), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    paths = [Path(line["path"]) for line in lines if line["kind"] == "file"]
    assert paths == sorted(path for path in directory.iterdir() if path.is_file())


def test_a_deleted_segment_can_still_be_read(directory: Path) -> None:
    path = segment(directory)
    renamed = path.rename(f"{path}.deleted")
    assert dump(renamed)[-1]["batches"] == 2
