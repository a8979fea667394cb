"""A log directory is made here, or found to be empty or one of Oncelog's.

Rules: a directory with anything else in it is left alone; a directory that is made survives a power
cut, with all directories on the way to it.
"""

from __future__ import annotations

import os

from oncelog_broker.log import checkpoint
from oncelog_protocol.errors import OncelogError
from oncelog_runtime.files import Files

LOCK_FILE = ".lock"
_LEFT_BY_A_FAILED_START = frozenset(
    {checkpoint.META + ".tmp", checkpoint.SESSION, checkpoint.SESSION + ".tmp"}
)
"""A new directory may hold these when the first start in it broke off."""

_IGNORED_NAMES = frozenset({LOCK_FILE, "lost+found"})


class LogDirError(OncelogError):
    """A log directory must not be used by this broker; the message names it and a remedy."""


def make_dir(files: Files, path: str) -> None:
    """Make a directory durably. Raises LogDirError."""
    made = path
    try:
        while not files.exists(os.path.dirname(made) or "."):
            made = os.path.dirname(made)
        files.make_dirs(path)
        # Each new name on the way must survive a power cut, or all that lies below is lost.
        for name in (path, *_parents(path, made)):
            files.sync_dir(os.path.dirname(name) or ".")
    except OSError as error:
        raise LogDirError(
            f"log directory {path} cannot be made ({error.strerror}); make it, or change log_dirs"
        ) from error


def check_usable(files: Files, path: str) -> None:
    """Raise LogDirError unless it may be a directory of this broker."""
    if not files.is_dir(path):
        raise LogDirError(f"log directory {path} is not a directory; change log_dirs")
    if not files.is_writable(path):
        raise LogDirError(
            f"log directory {path} is not writable; give the broker's user the right to write,"
            " or change log_dirs"
        )
    names = [name for name in files.list_dir(path) if name not in _IGNORED_NAMES]
    if checkpoint.META not in names and not _LEFT_BY_A_FAILED_START.issuperset(names):
        raise LogDirError(
            f"log directory {path} holds {names[0]!r} and no {checkpoint.META}: it is not a"
            " directory of Oncelog, or has lost that file; name an empty or new one in"
            " log_dirs, or restore the file"
        )


def _parents(path: str, last: str) -> list[str]:
    """Return the directories above ``path`` up to ``last``, nearest first."""
    parents = []
    while path != last:
        path = os.path.dirname(path)
        parents.append(path)
    return parents
