"""The user's files have these places: settings, and a cache of what can be had again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return ``$XDG_CACHE_HOME/oncelog``, else ``~/.cache/oncelog``; it need not exist."""
    return _directory("XDG_CACHE_HOME", ".cache")


def config_directory() -> Path:
    """Return ``$XDG_CONFIG_HOME/oncelog``, else ``~/.config/oncelog``; it need not exist."""
    return _directory("XDG_CONFIG_HOME", ".config")


def _directory(variable: str, default: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else Path.home() / default) / "oncelog"
