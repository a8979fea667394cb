"""The canon of a log that compacts says what may be away, and what must be the same."""

from __future__ import annotations

import pytest

from oncelog_broker.log.compaction import hole, without
from oncelog_protocol.records.batch import CRC_OFFSET
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_protocol.records.decode import decode_batch
from oncelog_testing.memory.files import MemoryFiles
from simulation.checkers.newest_values_kept import Kept
from simulation.compacted_canon import CompactedCanon
from simulation.log_view import LogView, Rots

PATH = "/data/0/k-0/00000000000000000000.log"


def batch(base: int, *records: str, epoch: int = 0) -> bytes:
    """Make records such as "a=1", and "a" for a tombstone; "-" is one that compaction took away."""
    if set(records) == {"-"}:
        return bytes(hole(base, base + len(records), epoch, 0))
    whole = encode_batch(
        [text.partition("=")[2].encode() if "=" in text else None for text in records],
        keys=[text.partition("=")[0].encode() for text in records],
        timestamps=1,
        base_offset=base,
        leader_epoch=epoch,
    )
    if "-" not in records:
        return bytes(whole)
    made = without(decode_batch(whole), [text != "-" for text in records])
    assert made is not None
    return bytes(made)


def view(*batches: bytes, rot_at: int = -1) -> LogView:
    """Return what lies on a disk; ``rot_at`` is a byte of the first batch that has rotted since."""
    files = MemoryFiles("/data", "/data/0")
    files.make_dirs("/data/0/k-0")
    rots: Rots = {}
    if rot_at >= 0:
        now = bytearray(batches[0])
        now[rot_at] ^= 4
        rots[PATH, 0] = bytes(now), batches[0]
        batches = (bytes(now), *batches[1:])
    files.open(PATH, create=True).append([b"".join(batches)])
    found = LogView(files, rots)
    assert found._walk(PATH, None), found.fault
    return found


ORIGINAL = (batch(0, "a=1", "b=1"), batch(2, "a=2"), batch(3, "c=1", "b"), batch(5, "c=2"))


def matched(*batches: bytes, canon_upto: int = 6) -> int:
    canon = CompactedCanon()
    canon.extend(view(*ORIGINAL), canon_upto)
    other = view(*batches)
    canon.match(other)
    return other.matched


SAME = {
    "untouched": ORIGINAL,
    "a record is gone": (batch(0, "-", "b=1"), *ORIGINAL[1:]),
    "a batch is a hole": (batch(0, "-", "-"), *ORIGINAL[1:]),
    "the tombstone is gone": (batch(0, "-", "-"), ORIGINAL[1], batch(3, "-", "-"), ORIGINAL[3]),
}


@pytest.mark.parametrize("name", SAME)
def test_what_compaction_may_do_is_the_same(name: str) -> None:
    assert matched(*SAME[name]) == 6


OTHER = {
    "the newest value is gone": ((*ORIGINAL[:1], batch(2, "-"), *ORIGINAL[2:]), 2),
    "another value": ((*ORIGINAL[:1], batch(2, "a=9"), *ORIGINAL[2:]), 2),
    "another epoch": ((batch(0, "a=1", "b=1"), batch(2, "a=2", epoch=3)), 2),
    "a shorter log": (ORIGINAL[:2], 3),
}


@pytest.mark.parametrize("name", OTHER)
def test_what_it_may_not_do_is_found(name: str) -> None:
    batches, upto = OTHER[name]
    assert matched(*batches) == upto


CLEANED = batch(0, "-", "b=1")
HOLE = batch(0, "-", "-")


@pytest.mark.parametrize("rot_at", range(CRC_OFFSET, len(CLEANED)))
def test_rot_that_strikes_before_anybody_has_looked_is_no_other_value(rot_at: int) -> None:
    canon = CompactedCanon()
    canon.extend(view(*ORIGINAL), 6)
    other = view(CLEANED, *ORIGINAL[1:], rot_at=rot_at)
    canon.match(other)
    assert other.matched == 6


@pytest.mark.parametrize("rot_at", range(CRC_OFFSET, len(HOLE)))
def test_rot_of_what_compaction_has_just_made_hides_no_loss(rot_at: int) -> None:
    canon = CompactedCanon()
    canon.extend(view(*ORIGINAL), 6)
    allowed = view(HOLE, ORIGINAL[1], batch(3, "-", "-"), ORIGINAL[3], rot_at=rot_at)
    canon.match(allowed)
    assert allowed.matched == 6
    lost = view(batch(0, "-", "-", "-"), *ORIGINAL[2:], rot_at=rot_at)
    canon.match(lost)
    assert lost.matched == 0, "the newest value of a"


@pytest.mark.parametrize("rot_at", range(CRC_OFFSET, len(ORIGINAL[0])))
def test_the_canon_takes_from_a_rotten_leader_what_was_committed(rot_at: int) -> None:
    canon = CompactedCanon()
    canon.extend(view(*ORIGINAL, rot_at=rot_at), 6)
    assert canon.superseded() == {0, 1, 3, 4}
    other = view(*SAME["a record is gone"])
    canon.match(other)
    assert other.matched == 6


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_a_record_that_was_gone_before_anybody_looked(control_type: ControlType) -> None:
    """It may differ from the canon's hole if its transaction was aborted."""
    whole = bytes(
        encode_batch(
            [b"1"],
            keys=[b"a"],
            timestamps=1,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=1,
            base_sequence=0,
            transactional=True,
        )
    )
    marker = bytes(
        encode_marker(
            control_type,
            producer_id=7,
            producer_epoch=2,
            coordinator_epoch=0,
            timestamp_ms=1,
            base_offset=1,
            leader_epoch=0,
        )
    )
    canon = CompactedCanon()
    canon.extend(view(bytes(hole(0, 1, 0, 0)), marker), 2)
    other = view(whole, marker)
    canon.match(other)
    assert other.matched == (2 if control_type is ControlType.ABORT else 0)


def test_what_is_superseded() -> None:
    canon = CompactedCanon()
    canon.extend(view(*ORIGINAL), 6)
    assert canon.superseded() == {0, 1, 3, 4}


def test_what_the_checker_is_given() -> None:
    canon = CompactedCanon()
    canon.extend(view(*ORIGINAL), 6)
    cleaned = view(batch(0, "-", "b=1"), *ORIGINAL[1:])
    found = canon.compacted({2: (cleaned, 3)}, 0)
    assert len(found.committed) == 6
    assert found.logs == {2: [Kept(1, b"b", b"1"), Kept(2, b"a", b"2")]}
