"""The user's cache keeps what can be fetched or computed again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return ``$XDG_CACHE_HOME/oncelog``, else ``~/.cache/oncelog``; it need not exist."""
    home = os.environ.get("XDG_CACHE_HOME")
    place = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return place / "oncelog"
