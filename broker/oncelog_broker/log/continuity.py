"""A broker finds out since which of its lives nothing that counted has been lost.

Owns ``continuity.json``, one in each log directory, and what the broker may say of its data when it
registers (the controller elects by it, KIP-966). Lives are told apart by broker epoch, which the
registration gives. Rules:

- kept is what a clean stop left (its file names the last epoch, [D10]); what any stop left while
  every offset that counted was synced (``flush=commit``); and what a killed process left to a
  machine that is still the same run (boot id): its page cache lives;
- lost is the unsynced tail when an offset had counted unsynced and the machine may have gone down;
  and all when the directories are new, or not those that the file names. One directory loses for
  the whole broker, but for the partitions that the others list (``claims``);
- before a registration the file says that there may be one whose epoch is not known yet. After it,
  and before the broker does anything under its epoch, the file has the epoch;
- before an offset counts that is not synced, the directory says so, durably;
- a directory that was put back from a backup remembers an older epoch than the cluster does:
  ``until`` gives it away. Two copies of one epoch cannot be told apart;
- a directory that a life could not use, or that failed before a later registration of it, took
  nothing since, and its file remembers the epoch of the last registration under which it could. The
  others note which epoch that was: when it comes back so, nothing of it is missing;
- a directory that failed when offsets had counted unsynced may lack them in the next life, whatever
  the boot id says: the volume may have been mounted again, and its dirty pages be gone. It is
  *lossy*: the files of the others say so before anything else is done about it, then its own if
  that can still be written, and the store. So is one in which a log ends below its checkpointed
  high watermark: no kill does that;
- so may one that a later life could not use: its boot id is that of a volume that was in trouble;
- every failure is noted so, also where nothing that counted may be missing: what is found above the
  recovery points is then as after a power cut, and holes in it are no corruption.

A file that cannot be written goes on claiming less. On a full disk the file of the life before
stays, under a name that says that a life came after it, of an epoch that nobody noted.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import replace

from oncelog_broker.log.checkpoint import CONTINUITY
from oncelog_broker.log.claims import KeptData, Loss, VouchedPartitions, vouched
from oncelog_broker.log.continuity_record import ContinuityRecord
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.safeguards import SAFE, LogSafeguards
from oncelog_protocol.types import NO_EPOCH
from oncelog_runtime.files import Files
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


class Continuity:
    """The broker asks here what it may claim; files say so to its next life."""

    def __init__(
        self, files: Files, dirs: Sequence[LogDir], safeguards: LogSafeguards = SAFE
    ) -> None:
        self._files = files
        self._dirs = dirs
        self._safeguards = safeguards
        self.broker_epoch = NO_EPOCH
        """It is the broker epoch of the newest registration."""
        self.listed: list[VouchedPartitions] = []
        """These were to be said beside the last claim."""
        self._kept = KeptData(None, None, Loss.ALL)
        self._own: dict[str, KeptData] = {}
        """It says the same of single directories, by id."""
        self._directories: tuple[str, ...] = ()
        self._unused: dict[str, int | None] = {}
        self._failed: dict[str, bool] = {}
        self._judged = False
        self._lost: frozenset[str] = frozenset()
        self._boot_id = ""

    @property
    def kept(self) -> KeptData:
        """Return what holds now."""
        return self._kept

    def judge(self) -> None:
        """Find out what the last stop left. The directories are taken and their logs are loaded,
        with all that was kept synced."""
        self._boot_id = self._files.boot_id()
        named = {name for d in self._dirs if d.record for name in d.record.directories}
        here = {d.directory_id for d in self._dirs if d.online}
        self._kept = _judge(self._dirs, len(named - here), self._boot_id)
        if all(d.online for d in self._dirs):
            self._lost = frozenset(named - here)
        self._own = _judge_each(self._dirs, self._kept, self._boot_id)
        # One that does not answer is still expected; one that is gone was said to be lost.
        self._directories = tuple(sorted(here if self._kept.loss is Loss.ALL else named | here))
        records = _records([d for d in self._dirs if d.online])
        for name in self._directories:
            if name not in here and records:
                newest = max(records, key=_until)
                self._unused[name] = newest.unused.get(name, newest.until)
                if name in (failed := _failed_before(records)):
                    self._failed[name] = failed[name]
        self._judged = True
        self._warn()

    def is_lost(self, directory_id: str) -> bool:
        """Return whether a directory that an earlier life used is gone for good, so that the next
        claim keeps nothing but what it lists. While one is offline, it may be that one."""
        return directory_id in self._lost

    def _warn(self) -> None:
        if self._kept.loss is not Loss.NONE and any(not d.is_new for d in self._dirs):
            logger.warning(
                "data_may_be_missing",
                what="its unsynced tail"
                if self._kept.loss is Loss.TAIL
                else "a log directory is new or another one",
            )

    def heard(self, losses: Mapping[str, int]) -> None:
        """Take in what the store says before a registration: under which broker epoch which
        directory has failed and may have lost what had counted there unsynced."""
        kept = self._kept
        here = {d.directory_id for d in self._dirs if d.online}
        if kept.since is not None and any(
            name in here and epoch >= kept.since for name, epoch in losses.items()
        ):
            self._kept = KeptData(None, kept.until, Loss.TAIL)
            self._warn()
        for name, own in self._own.items():
            if own.since is not None and losses.get(name, NO_EPOCH) >= own.since:
                self._own[name] = KeptData(None, own.until, Loss.TAIL)

    def note_failed(self, failed: LogDir) -> None:
        """Note what a directory that has just failed may have lost, for the next life to find. It
        is noted on the spot in the others, and in itself when there is no other and its disk
        answers."""
        if failed.directory_id:
            self._failed[failed.directory_id] = failed.lossy
        if self._judged:  # else the first claim says so
            self._write()
        alone = not any(log_dir.online for log_dir in self._dirs)
        if alone and failed.record is not None and not failed.hangs:
            try:
                failed.write_record(self._record_of_failure(failed, failed.record))
            except OSError as error:
                _not_written(failed, error)

    async def directory_failed(self, failed: LogDir) -> str:
        """Note the failure in the directory itself, which may take its time.

        Return its id, for the store; it is empty when all that counted there was synced.
        """
        if failed.record is not None and not failed.record.failed:
            record = self._record_of_failure(failed, failed.record)
            try:
                await failed.jobs.write_atomic(f"{failed.path}/{CONTINUITY}", record.encode())
            except OSError as error:
                _not_written(failed, error)
        return failed.directory_id if failed.lossy else ""

    @staticmethod
    def _record_of_failure(failed: LogDir, record: ContinuityRecord) -> ContinuityRecord:
        return replace(record, failed={failed.directory_id: failed.lossy})

    def claim(self) -> KeptData:
        """Return what to say in the registration that is about to be made; see also ``listed``."""
        kept = self._kept
        self.listed, left_out = vouched(
            kept,
            [(self._own_of(d), d.logs.values()) for d in self._dirs if d.online],
            since_made=self._safeguards.vouched_since,
        )
        if left_out:
            logger.warning("claim_too_long", partitions=left_out)
        self._kept = _unbounded(kept)
        self._own = {name: _unbounded(own) for name, own in self._own.items()}
        self._write()
        return kept

    def _own_of(self, log_dir: LogDir) -> KeptData:
        return self._own.get(log_dir.directory_id, KeptData(None, None, Loss.ALL))

    def registered(self, broker_epoch: int) -> None:
        """Note the registration's epoch; this is to be called before anything is done under it."""
        self.broker_epoch = broker_epoch
        if self._kept.until != broker_epoch:
            self._kept = _under(self._kept, broker_epoch)
            self._own = {name: _under(own, broker_epoch) for name, own in self._own.items()}
            self._write()

    def _write(self) -> None:
        for log_dir in self._dirs:
            if not log_dir.online and log_dir.record is not None:
                self._unused.setdefault(log_dir.directory_id, log_dir.record.until)
        for log_dir in self._dirs:
            if not log_dir.online:
                continue
            own = self._own_of(log_dir)
            try:
                log_dir.write_record(
                    ContinuityRecord(
                        self._kept.since,
                        self._kept.until,
                        self._kept.loss,
                        self._directories,
                        self._boot_id,
                        log_dir.counts_unsynced,
                        self._unused,
                        self._failed,
                        own.since,
                        own.loss,
                    )
                )
            except OSError as error:
                # A full disk is no reason to stop, unless the file would go on claiming too much.
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                if full and self._kept.since is not None:
                    logger.warning(
                        "continuity_not_written", log_dir=log_dir.path, file=CONTINUITY, error=error
                    )
                    self._leave(log_dir)
                else:
                    written = log_dir.record.until if log_dir.record is not None else None
                    self._unused[log_dir.directory_id] = written
                    log_dir.fail(CONTINUITY, error)

    def _leave(self, log_dir: LogDir) -> None:
        """Have the record of an earlier life found as such by the next one: its epoch is not the
        last, and if it is of an earlier run of the machine it would say that all is on the disk."""
        record = log_dir.record
        if record is not None and (
            record.boot_id != self._boot_id or record.until not in (None, self._kept.until)
        ):
            try:
                log_dir.leave_record()
            except OSError as error:
                log_dir.fail(CONTINUITY, error)


def _judge(dirs: Sequence[LogDir], missing: int, boot_id: str) -> KeptData:
    """Return what the broker as a whole has kept. ``missing`` directories are named in a file and
    are not here."""
    known = [d for d in dirs if d.online and not d.is_new]
    offline = sum(not d.online for d in dirs)
    if not known or missing > offline:
        return KeptData(None, None, Loss.ALL)
    records = [d.record for d in known if d.record is not None]
    if not records and all(d.was_clean for d in known):
        # An older release left this: all that is known is that its last life ended well.
        epochs = {d.previous_broker_epoch for d in known}
        if len(epochs) == 1:
            epoch = epochs.pop()
            return KeptData(epoch, epoch, Loss.NONE)
    if len(records) < len(known):
        return KeptData(None, None, Loss.TAIL)
    until = min((u for d in known if (u := _known_until(d, records)) is not None), default=None)
    loss = max((r.loss for r in records), key=list(Loss).index)
    if any(_lost_tail(d, _records(known), boot_id) for d in known):
        loss = max(loss, Loss.TAIL, key=list(Loss).index)
    since = [r.since for r in records if r.since is not None]
    if loss is not Loss.NONE or len(since) < len(records):
        return KeptData(None, until, Loss.TAIL if loss is Loss.NONE else loss)
    return KeptData(max(since), until, Loss.NONE)


def _judge_each(dirs: Sequence[LogDir], whole: KeptData, boot_id: str) -> dict[str, KeptData]:
    """Return what each directory has kept, whatever became of the others."""
    records = _records([d for d in dirs if d.online and not d.is_new])
    judged: dict[str, KeptData] = {}
    for log_dir in (d for d in dirs if d.online):
        record = log_dir.record
        if log_dir.is_new:
            kept = KeptData(None, None, Loss.ALL)
        elif record is None:
            kept = whole if whole.loss is Loss.NONE else KeptData(None, None, Loss.TAIL)
        else:
            loss, until = record.own_loss, _known_until(log_dir, records)
            lost_tail = _lost_tail(log_dir, records, boot_id)
            if loss is Loss.NONE and (lost_tail or record.own_since is None):
                loss = Loss.TAIL
            kept = KeptData(record.own_since if loss is Loss.NONE else None, until, loss)
        judged[log_dir.directory_id] = kept
    return judged


def _unbounded(kept: KeptData) -> KeptData:
    """Return ``kept`` for a registration that may exist and of which nobody knows the epoch yet."""
    return KeptData(kept.since, None, kept.loss)


def _under(kept: KeptData, broker_epoch: int) -> KeptData:
    """Return ``kept`` under a registration of that epoch: the data that is here now counts from
    then on."""
    since = broker_epoch if kept.since is None else kept.since
    return KeptData(since, broker_epoch, Loss.NONE)


def _known_until(log_dir: LogDir, records: Sequence[ContinuityRecord]) -> int | None:
    """Return up to which epoch all that counted in a directory is in it."""
    record = log_dir.record
    assert record is not None
    newest = max(records, key=_until)
    if record.until is not None and newest.unused.get(log_dir.directory_id) == record.until:
        return newest.until
    return record.until


def failed_before(dirs: Sequence[LogDir]) -> frozenset[str]:
    """Return the ids of the directories that failed in the last life in which they were used, or
    could not be used in the last life."""
    records = _records([d for d in dirs if d.online])
    own = [d.directory_id for d in dirs if d.record and d.directory_id in d.record.failed]
    return frozenset((*own, *_failed_before(records), *_unused_before(records)))


def _records(dirs: Sequence[LogDir]) -> list[ContinuityRecord]:
    """Return the records of directories, but of those that were left behind in mid-registration:
    they name no epoch, as a record of a newest life does, and others went on to one without
    them."""
    return [
        record
        for log_dir in dirs
        if (record := log_dir.record) is not None
        and (record.until is not None or not any(_left_behind(log_dir, each) for each in dirs))
    ]


def _left_behind(log_dir: LogDir, by: LogDir) -> bool:
    """Return whether one directory was written after the other one had become unusable, of those
    that each have a record, and not the reverse."""
    return _names_unused(by, log_dir) and not _names_unused(log_dir, by)


def _names_unused(log_dir: LogDir, other: LogDir) -> bool:
    record, name = log_dir.record, other.directory_id
    if record is None or other.record is None or name not in record.unused:
        return False
    return record.unused[name] == other.record.until


def _failed_before(records: Sequence[ContinuityRecord]) -> dict[str, bool]:
    """Return what the last life that wrote says of the directories that failed."""
    return {k: v for r in _of_last_life(records) for k, v in r.failed.items()}


def _unused_before(records: Sequence[ContinuityRecord]) -> frozenset[str]:
    """Return which directories the last life that wrote could not use (any more)."""
    return frozenset(name for record in _of_last_life(records) for name in record.unused)


def _of_last_life(records: Sequence[ContinuityRecord]) -> list[ContinuityRecord]:
    last = max(map(_until, records), default=0)
    return [record for record in records if _until(record) == last]


def _until(record: ContinuityRecord) -> float:
    """Return the epoch for comparison: a life whose epoch is not known yet is the newest."""
    return float("inf") if record.until is None else record.until


def _lost_tail(log_dir: LogDir, records: Sequence[ContinuityRecord], boot_id: str) -> bool:
    record, name = log_dir.record, log_dir.directory_id
    assert record is not None
    clean = log_dir.was_clean and record.until in (None, log_dir.previous_broker_epoch)
    same_run = boot_id != "" and boot_id == record.boot_id
    was_unused = name in _unused_before(records)
    same_run = same_run and not log_dir.safeguards.may_have_lost(was_unused)
    if log_dir.lossy or record.failed.get(name) or _failed_before(records).get(name):
        return True
    return record.unsynced and not clean and not same_run


def _not_written(failed: LogDir, error: OSError) -> None:
    logger.info("continuity_not_written", log_dir=failed.path, file=CONTINUITY, error=error)
