"""Since which life of the broker nothing that counted has been lost from its directories.

Owns ``continuity.json``, one in each log directory, and what the broker may say of its data when it
registers (the controller elects by it, KIP-966). Lives are told apart by broker epoch, which the
registration gives. Rules:

- kept is what a clean stop left (its file names the last epoch, D10); what any stop left while
  every offset that counted was synced (``flush=commit``); and what a killed process left to a
  machine that is still the same run (boot id): its page cache lives;
- lost is the unsynced tail when an offset had counted unsynced and the machine may have gone down;
  and all when the directories are new, or not those that the file names. One directory loses for
  the whole broker;
- before a registration the file says that there may be one whose epoch is not known yet. After it,
  and before the broker does anything under its epoch, the file has the epoch;
- before an offset counts that is not synced, the directory says so, durably;
- a directory that was put back from a backup remembers an older epoch than the cluster does:
  ``until`` gives it away. Two copies of one epoch cannot be told apart;
- a directory that a life could not use, or that failed before a later registration of it, took
  nothing since, and its file remembers the epoch of the last registration under which it could. The
  others note which epoch that was: when it comes back so, nothing of it is missing.

What cannot be written stays at what claims less.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from oncelog_broker.log import logged
from oncelog_broker.log.checkpoint import (
    CONTINUITY,
    CheckpointError,
    decode_document,
    encode_document,
)

if TYPE_CHECKING:
    from oncelog_broker.log.log_dir import LogDir
    from oncelog_runtime.files import Files

logger = logged.get_logger(__name__)

_VERSION = 1


class Loss(Enum):
    """What may be missing, the lesser first."""

    NONE = "none"
    TAIL = "tail"
    """What was not synced."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class KeptData:
    """All that counted under the broker's registrations ``since`` to ``until`` is here."""

    since: int | None
    """None: nothing from before the registration that is about to be made."""
    until: int | None
    """None: not known, no bound."""
    loss: Loss


@dataclass(frozen=True, slots=True)
class ContinuityRecord:
    """The content of one directory's file."""

    since: int | None
    until: int | None
    loss: Loss
    """What had been lost, while ``since`` is not known."""
    directories: tuple[str, ...]
    """Ids of all directories of the broker."""
    boot_id: str
    unsynced: bool
    """Whether an offset may have counted here in that life without being synced."""
    unused: Mapping[str, int | None] = field(default_factory=dict)
    """Directories that could not be used (any more), by id: ``until`` as their file must say."""

    def encode(self) -> bytes:
        """As the file holds it."""
        return encode_document(
            {
                "version": _VERSION,
                "data_since": self.since,
                "data_until": self.until,
                "data_loss": self.loss.value,
                "directories": list(self.directories),
                "boot_id": self.boot_id,
                "unsynced": self.unsynced,
                "unused": dict(self.unused),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> ContinuityRecord:
        """:raises CheckpointError: it is damaged, or of another release."""
        document = decode_document(CONTINUITY, data)
        try:
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']!r}")
            return cls(
                _epoch(document["data_since"]),
                _epoch(document["data_until"]),
                Loss(document["data_loss"]),
                tuple(str(name) for name in document["directories"]),
                str(document["boot_id"]),
                document["unsynced"] is not False,
                {str(k): _epoch(v) for k, v in document["unused"].items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{CONTINUITY}: {error!r}") from None


class Continuity:
    """What the broker may claim, and the files that say so to its next life."""

    def __init__(self, files: Files, dirs: Sequence[LogDir]) -> None:
        self._files = files
        self._dirs = dirs
        self._kept = KeptData(None, None, Loss.ALL)
        self._directories: tuple[str, ...] = ()
        self._unused: dict[str, int | None] = {}
        self._boot_id = ""

    @property
    def kept(self) -> KeptData:
        """What holds now."""
        return self._kept

    def judge(self) -> None:
        """Find out what the last stop left. The directories are taken and their logs are loaded,
        with all that was kept synced."""
        self._boot_id = self._files.boot_id()
        named = {name for d in self._dirs if d.record for name in d.record.directories}
        here = {d.directory_id for d in self._dirs if d.online}
        self._kept = _judge(self._dirs, len(named - here), self._boot_id)
        # One that does not answer is still expected; one that is gone was said to be lost.
        self._directories = tuple(sorted(here if self._kept.loss is Loss.ALL else named | here))
        records = [d.record for d in self._dirs if d.online and d.record is not None]
        for name in self._directories:
            if name not in here and records:
                newest = max(records, key=_until)
                self._unused[name] = newest.unused.get(name, newest.until)
        if self._kept.loss is not Loss.NONE and any(not d.is_new for d in self._dirs):
            logger.warning(
                logged.DATA_MAY_BE_MISSING,
                "its unsynced tail"
                if self._kept.loss is Loss.TAIL
                else "a log directory is new or another one",
            )

    def claim(self) -> KeptData:
        """What to say in the registration that is about to be made."""
        kept = self._kept
        self._kept = KeptData(kept.since, None, kept.loss)
        self._write()
        return kept

    def registered(self, broker_epoch: int) -> None:
        """The registration is made; to be called before anything is done under its epoch."""
        kept = self._kept
        if kept.until != broker_epoch:
            since = broker_epoch if kept.since is None else kept.since
            self._kept = KeptData(since, broker_epoch, Loss.NONE)
            self._write()

    def _write(self) -> None:
        for log_dir in self._dirs:
            if not log_dir.online and log_dir.record is not None:
                self._unused.setdefault(log_dir.directory_id, log_dir.record.until)
        for log_dir in self._dirs:
            if not log_dir.online:
                continue
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
                    )
                )
            except OSError as error:
                # A full disk is no reason to stop, unless the file would go on claiming too much.
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                if full and self._kept.since is not None:
                    logger.warning(logged.CONTINUITY_NOT_WRITTEN, log_dir.path, CONTINUITY, error)
                    self._forget_other_run(log_dir)
                else:
                    written = log_dir.record.until if log_dir.record is not None else None
                    self._unused[log_dir.directory_id] = written
                    log_dir.fail(CONTINUITY, error)

    def _forget_other_run(self, log_dir: LogDir) -> None:
        """What was left of an earlier run of the machine must not be found by the next process of
        this one: it would believe that all it reads is on the disk."""
        if log_dir.record is not None and log_dir.record.boot_id != self._boot_id:
            try:
                log_dir.forget_record()
            except OSError as error:
                log_dir.fail(CONTINUITY, error)


def _judge(dirs: Sequence[LogDir], missing: int, boot_id: str) -> KeptData:
    """``missing`` directories are named in a file and are not here."""
    known = [d for d in dirs if d.online and not d.is_new]
    offline = sum(not d.online for d in dirs)
    if not known or missing > offline:
        return KeptData(None, None, Loss.ALL)
    records = [d.record for d in known if d.record is not None]
    if not records and all(d.was_clean for d in known):
        # Of an older release: all that is known is that its last life ended well.
        epochs = {d.previous_broker_epoch for d in known}
        if len(epochs) == 1:
            epoch = epochs.pop()
            return KeptData(epoch, epoch, Loss.NONE)
    if len(records) < len(known):
        return KeptData(None, None, Loss.TAIL)
    until = min((u for d in known if (u := _known_until(d, records)) is not None), default=None)
    loss = max((r.loss for r in records), key=list(Loss).index)
    if any(_lost_tail(d, boot_id) for d in known):
        loss = max(loss, Loss.TAIL, key=list(Loss).index)
    since = [r.since for r in records if r.since is not None]
    if loss is not Loss.NONE or len(since) < len(records):
        return KeptData(None, until, Loss.TAIL if loss is Loss.NONE else loss)
    return KeptData(max(since), until, Loss.NONE)


def _known_until(log_dir: LogDir, records: Sequence[ContinuityRecord]) -> int | None:
    """Up to which epoch all that counted in a directory is in it."""
    record = log_dir.record
    assert record is not None
    newest = max(records, key=_until)
    if record.until is not None and newest.unused.get(log_dir.directory_id) == record.until:
        return newest.until
    return record.until


def _until(record: ContinuityRecord) -> float:
    """For comparison: a life whose epoch is not known yet is the newest."""
    return float("inf") if record.until is None else record.until


def _lost_tail(log_dir: LogDir, boot_id: str) -> bool:
    record = log_dir.record
    assert record is not None
    clean = log_dir.was_clean and record.until in (None, log_dir.previous_broker_epoch)
    same_run = boot_id != "" and boot_id == record.boot_id
    return record.unsynced and not clean and not same_run


def _epoch(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError(f"{value!r} is not a broker epoch")
    return value
