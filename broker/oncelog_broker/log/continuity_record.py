"""One life of a broker leaves a record for the next in ``continuity.json``.

See ``continuity`` for its rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oncelog_broker.log.checkpoint import (
    CONTINUITY,
    CheckpointError,
    decode_document,
    encode_document,
)
from oncelog_broker.log.claims import Loss

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ContinuityRecord:
    """It is the content of one directory's file."""

    since: int | None
    until: int | None
    loss: Loss
    """It tells what had been lost, while ``since`` is not known."""
    directories: tuple[str, ...]
    """These are the ids of all directories of the broker."""
    boot_id: str
    unsynced: bool
    """It tells whether an offset may have counted here in that life without being synced."""
    unused: Mapping[str, int | None] = field(default_factory=dict)
    """These directories could not be used (any more). Their ids map to ``until`` as their file must
    say it."""
    failed: Mapping[str, bool] = field(default_factory=dict)
    """These directories failed. Their ids map to whether they may lack what had counted there
    unsynced."""
    own_since: int | None = None
    own_loss: Loss = Loss.ALL
    """It tells the same as above of this directory alone."""

    def encode(self) -> bytes:
        """Return the content of the file."""
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
                "failed": dict(self.failed),
                "own_since": self.own_since,
                "own_loss": self.own_loss.value,
            }
        )

    def left(self, boot_id: str) -> ContinuityRecord:
        """Return what the file says after a life that could not write its own
        (``LogDir.leave_record``).

        Nobody has noted that life's epoch. If the machine, now of ``boot_id``, stopped between the
        two, the data which that life wrote need not be on the disk.
        """
        return replace(self, until=None, boot_id=boot_id if self.boot_id == boot_id else "")

    @classmethod
    def decode(cls, data: bytes) -> ContinuityRecord:
        """Read the content of the file. A file of an older release speaks of the whole broker only.

        :raises CheckpointError: it is damaged, or of another release.
        """
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
                {str(name): lossy is True for name, lossy in document.get("failed", {}).items()},
                _epoch(document.get("own_since", document["data_since"])),
                Loss(document.get("own_loss", document["data_loss"])),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{CONTINUITY}: {error!r}") from None


def _epoch(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError(f"{value!r} is not a broker epoch")
    return value
