"""The disks of some directories do not answer: the others go on, and the broker can stop."""

from __future__ import annotations

import threading

import pytest

from broker.log.test_log_manager import DIRS, append, started
from oncelog_broker.log import checkpoint
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from support.logs import batch
from support.waiting import eventually


class Hung(MemoryFiles):
    """A disk below ``/disk1`` does not answer any more, once it is told so."""

    def __init__(self) -> None:
        super().__init__(*DIRS)
        self.answers = threading.Event()
        self.answers.set()
        self.stuck: list[str] = []

    def _wait(self, path: str) -> None:
        if path.startswith("/disk1") and not self.answers.is_set():
            self.stuck.append(threading.current_thread().name)
            self.answers.wait(30)

    def remove(self, path: str) -> None:
        self._wait(path)
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self._wait(path)
        super().sync_dir(path)


def logs_in(logs: LogManager, log_dir: LogDir) -> list[PartitionLog]:
    return [log for log in logs.all() if log.log_dir is log_dir]


async def test_a_directory_that_hangs_holds_up_no_other() -> None:
    files = Hung()
    logs = await started(files, dirs=DIRS[:2], checkpoint_interval_ms=1)
    partitions = [TopicPartition("t", number) for number in range(4)]
    for tp in partitions:
        logs.create(tp, "id", logs.default_config)
    hung, sound = logs.dirs
    files.answers.clear()
    for number in range(100):
        hung.remove_later([f"/disk1/{number}"], 0)
    for log in logs_in(logs, hung):
        log.append_as_leader(batch(b"hangs"), 0)
    await eventually(lambda: len(set(files.stuck)) > 1)
    on_sound = logs_in(logs, sound)[0]
    await append(on_sound, b"goes on")
    assert on_sound.synced_offset == 1
    sound.checkpoint_due()
    assert await sound.write_checkpoints()
    assert all(name.startswith("/disk1") for name in files.stuck)
    files.answers.set()
    await logs.stop()


async def test_a_directory_that_hangs_is_given_up_and_the_others_go_on_and_stop() -> None:
    files = Hung()
    offline: list[LogDir] = []
    logs = await started(
        files, dirs=DIRS[:2], offline=offline, checkpoint_interval_ms=1, log_dir_sync_timeout_ms=200
    )
    for number in range(4):
        logs.create(TopicPartition("t", number), "id", logs.default_config)
    hung, sound = logs.dirs
    await hung.flusher.drain()
    files.answers.clear()
    stuck = logs_in(logs, hung)[0]
    stuck.append_as_leader(batch(b"hangs"), 0)
    hung.checkpoint_due()
    await eventually(lambda: offline == [hung])
    assert "no sync ended within 0.2 s" in hung.failure
    with pytest.raises(StorageError):
        stuck.append_as_leader(batch(b"refused"), 0)
    on_sound = logs_in(logs, sound)[0]
    await append(on_sound, b"goes on")
    await logs.stop(clean=True, broker_epoch=3)
    assert files.exists(f"/disk2/{checkpoint.CLEAN_SHUTDOWN}")
    files.answers.set()


async def test_a_directory_that_hangs_holds_up_a_stop_for_a_while_only() -> None:
    files = Hung()
    logs = await started(
        files, dirs=DIRS[:2], checkpoint_interval_ms=1, log_dir_sync_timeout_ms=200
    )
    hung = logs.dirs[0]
    files.answers.clear()
    hung.checkpoint_due()
    await eventually(lambda: bool(files.stuck))
    await logs.stop(clean=True, broker_epoch=3)
    assert not hung.online
    assert files.exists(f"/disk2/{checkpoint.CLEAN_SHUTDOWN}")
    files.answers.set()
