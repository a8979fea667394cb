"""The fault atlas never lets the last good copy go, and does let others go."""

from __future__ import annotations

from oncelog_broker.log import checkpoint
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import MemoryFiles
from simulation.atlas import FaultAtlas, Rot
from support.logs import DATA, follower_batches, make_log, sync, topic_config

P = "t-0"
SEGMENT = f"{DATA}/t-0/{0:020d}.log"


def make(*ends: int, epoch: int = 1) -> tuple[dict[int, MemoryFiles], dict[int, PartitionLog]]:
    """Make brokers 1, 2, ... whose synced copies of one partition end where it is said."""
    disks = {number: MemoryFiles() for number in range(1, len(ends) + 1)}
    logs = {}
    for (number, disk), end in zip(disks.items(), ends, strict=True):
        config = topic_config(segment_bytes=1024)
        logs[number] = log = make_log(disk, config, topic_partition=TopicPartition("t", 0))
        for offset in range(end):
            log.append_as_follower(follower_batches((offset, 1, epoch)))
        sync(log)
        log.segments.active.persist_index()
    return disks, logs


def test_all_of_three_are_good_and_one_stays_so() -> None:
    disks, _ = make(30, 30, 30)
    atlas = FaultAtlas(disks)
    assert atlas.good_copies(P) == [1, 2, 3]
    chance = SeededEntropy(1)
    for broker in (1, 2):
        rot = atlas.rot(chance, broker=broker, logs_only=True)
        assert rot is not None
        assert rot.broker == broker
        assert broker not in atlas.good_copies(P)
    assert atlas.good_copies(P) == [3]
    assert atlas.rot(chance, broker=3, logs_only=True) is None
    assert not atlas.may_wipe(3)
    assert atlas.may_wipe(1)
    assert len(atlas.rotten) == 2
    disks[1] = MemoryFiles()
    assert atlas.good_copies(P) == [3]


def test_a_repaired_copy_is_good_again() -> None:
    disks, _ = make(5, 5)
    atlas = FaultAtlas(disks)
    assert atlas.may_corrupt(1, SEGMENT)
    disks[1].corrupt(SEGMENT, 100, 1)
    assert atlas.good_copies(P) == [2]
    assert not atlas.may_corrupt(2, SEGMENT)
    disks[1].corrupt(SEGMENT, 100, 1)
    assert atlas.may_corrupt(2, SEGMENT)


def test_a_copy_that_lacks_something_is_not_good() -> None:
    disks, _ = make(30, 20)
    assert FaultAtlas(disks).good_copies(P) == [1]
    assert FaultAtlas(disks, committed=lambda _: 20).good_copies(P) == [1, 2]
    assert FaultAtlas(disks, committed=lambda _: 21).good_copies(P) == [1]
    assert not FaultAtlas(disks).may_wipe(1)


def test_unsynced_bytes_are_no_copy() -> None:
    disks, logs = make(10, 10)
    for log in logs.values():
        log.append_as_follower(follower_batches((10, 1, 1)))
    sync(logs[2])
    assert FaultAtlas(disks).good_copies(P) == [2]
    assert FaultAtlas(disks, committed=lambda _: 10).good_copies(P) == [1, 2]


def test_a_copy_of_another_history_is_not_good() -> None:
    one, _ = make(10)
    other, _ = make(10, epoch=2)
    disks = {1: one[1], 2: other[1]}
    assert FaultAtlas(disks).good_copies(P) == []
    assert not FaultAtlas(disks).may_wipe(1)


def test_a_copy_that_may_not_lead_saves_nothing() -> None:
    disks, _ = make(10, 10, 10)
    atlas = FaultAtlas(disks, eligible=lambda _: [2])
    assert atlas.good_copies(P) == [2]
    assert not atlas.may_corrupt(2, SEGMENT)
    assert atlas.may_corrupt(1, SEGMENT)


def test_a_second_copy_stays_while_a_bad_one_is_counted_on() -> None:
    disks, _ = make(10, 10, 10)
    trusted = {1: True, 2: True, 3: True}
    atlas = FaultAtlas(disks, trusted=lambda _: trusted)
    assert all(atlas.may_wipe(broker) for broker in disks)
    disks[1].corrupt(SEGMENT, 100, 1)
    assert atlas.betrayed(P) == [1]
    assert [atlas.may_wipe(broker) for broker in disks] == [True, False, False]
    assert atlas.may_corrupt(1, SEGMENT)
    assert not atlas.may_corrupt(2, SEGMENT)
    del trusted[1]
    assert atlas.may_corrupt(2, SEGMENT)
    trusted[1] = False  # it is out, knows of nothing, and may come back
    assert not atlas.may_corrupt(2, SEGMENT)


def test_who_is_counted_on_and_has_nothing_has_a_bad_copy() -> None:
    disks, _ = make(10, 10, 4)
    disks[4] = MemoryFiles()
    trusted = {1: True, 2: True, 3: False, 4: False}
    atlas = FaultAtlas(disks, committed=lambda _: 10, trusted=lambda _: trusted)
    assert atlas.betrayed(P) == []
    trusted[3] = True
    assert atlas.betrayed(P) == [3]
    trusted[4] = True
    assert atlas.betrayed(P) == [3, 4]


def test_what_is_in_the_page_cache_is_not_lost() -> None:
    disks, logs = make(10, 10)
    for log in logs.values():
        log.append_as_follower(follower_batches((10, 1, 1)))
    sync(logs[2])
    trusted = {1: True, 2: True}
    atlas = FaultAtlas(disks, committed=lambda _: 11, trusted=lambda _: trusted)
    assert atlas.good_copies(P) == [2]
    assert atlas.betrayed(P) == []
    disks[1].crash()
    assert atlas.betrayed(P) == [1]


def test_offsets_and_epochs_are_outside_the_checksum_but_compared() -> None:
    disks, _ = make(5, 5, 5)
    for offset in (7, 15):
        disks[1].corrupt(SEGMENT, offset, 1)
        assert FaultAtlas(disks).good_copies(P) != [1, 2, 3]
        disks[1].corrupt(SEGMENT, offset, 1)


def test_caches_and_checkpoints_may_rot_but_not_the_identity() -> None:
    disks, _ = make(30, 30)
    for disk in disks.values():
        for name in (checkpoint.RECOVERY_POINT, checkpoint.META):
            disk.write_atomic_now(f"{DATA}/{name}", b"content")
    atlas = FaultAtlas(disks)
    assert atlas.may_corrupt(1, f"{DATA}/{checkpoint.RECOVERY_POINT}")
    assert not atlas.may_corrupt(1, f"{DATA}/{checkpoint.META}")
    chance = SeededEntropy(7)
    paths = set()
    for _ in range(60):
        rot = atlas.rot(chance)
        if rot is not None:
            paths.add(rot.path)
            disks[rot.broker].corrupt(rot.path, rot.offset, rot.mask)
            assert str(rot).startswith(f"broker {rot.broker}: bits 0x")
    assert {path.rpartition(".")[2] for path in paths} >= {"log", "index", "timeindex"}
    assert f"{DATA}/{checkpoint.META}" not in paths


def test_what_only_one_broker_has_stays() -> None:
    disks, _ = make(10, 10)
    log = make_log(disks[1], topic_partition=TopicPartition("mine", 3))
    log.append_as_follower(follower_batches((0, 1, 1)))
    sync(log)
    atlas = FaultAtlas(disks)
    assert not atlas.may_wipe(1)
    assert atlas.may_wipe(2)


def test_nothing_rots_where_nothing_is() -> None:
    assert FaultAtlas({1: MemoryFiles(), 2: MemoryFiles()}).rot(SeededEntropy(1)) is None


def test_a_log_rots_only_where_it_is_allowed_to() -> None:
    disks, logs = make(30, 30, 30)
    atlas = FaultAtlas(disks)
    chance = SeededEntropy(7)
    assert atlas.rot(chance, broker=1, logs_only=True, synced_only=True) is None, "no checkpoint"
    partition = TopicPartition("t", 0)
    for name, end in ((checkpoint.RECOVERY_POINT, 20), (checkpoint.HIGH_WATERMARK, 7)):
        disks[1].write_atomic_now(
            f"{DATA}/{name}", checkpoint.encode_offsets(name, {partition: end})
        )
    for _ in range(30):
        rot = atlas.rot(chance, broker=1, logs_only=True, synced_only=True)
        assert rot is not None
        assert offset_of(disks[1], rot) < 7
        disks[1].corrupt(rot.path, rot.offset, rot.mask)
    assert logs[1].log_end_offset == 30


def offset_of(disk: MemoryFiles, rot: Rot) -> int:
    """Return the base offset of the batch in which a bit has flipped."""
    return int.from_bytes(disk.read_bytes(rot.path)[rot.batch.start :][:8], "big")


def test_checkpoints_do_not_rot_beside_a_rotten_log() -> None:
    disks, _ = make(10, 10)
    name = f"{DATA}/{checkpoint.RECOVERY_POINT}"
    disks[1].write_atomic_now(name, checkpoint.encode_offsets(checkpoint.RECOVERY_POINT, {}))
    atlas = FaultAtlas(disks)
    assert atlas.may_corrupt(1, name)
    disks[1].corrupt(SEGMENT, 100, 1)
    assert not atlas.may_corrupt(1, name)


def test_what_is_not_mended_is_named() -> None:
    disks, _ = make(10, 10, 4)
    atlas = FaultAtlas(disks)
    assert atlas.unsound() == []
    disks[2].corrupt(SEGMENT, 100, 1)
    assert atlas.unsound() == [(2, P)]
