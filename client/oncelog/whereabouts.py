"""A program that does not say where the cluster is finds it as the ``oncelog`` command does.

Clients never look by themselves: their addresses come through the constructor, and a program asks
here for what it hands them.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from oncelog.errors import ConfigurationError

PREVIOUS = "-"
"""It stands for the profile that was in use before."""


def bootstrap_servers(profile: str | None = None) -> str:
    """Return addresses of brokers as ``host:port,...`` from the first place that names any.

    The places are, in this order: the profile that is named here; the variable
    ``ONCELOG_BOOTSTRAP``; the profile of ``ONCELOG_PROFILE``, else the one that ``oncelog profile
    use`` chose; the cluster that ``oncelog up`` started on this machine (in ``ONCELOG_DIR``, else
    ``~/.oncelog/local``). Only the addresses are taken from a profile; its options are for the
    command.

    :raises ConfigurationError: nothing says where a cluster is, or a profile that is named is not
        there, or the profiles' file is not TOML.
    """
    found = _of_profile(profile) if profile else ""
    found = found or os.environ.get("ONCELOG_BOOTSTRAP", "")
    found = found or _of_profile(os.environ.get("ONCELOG_PROFILE", "")) or _of_local_cluster()
    if not found:
        raise ConfigurationError(
            "which cluster? Set ONCELOG_BOOTSTRAP to host:port of its brokers, choose a profile"
            " with 'oncelog profile use', or start a cluster on this machine with 'oncelog up'"
        )
    return found


def _of_profile(named: str) -> str:
    """Return the addresses of the named profile, or of the one in use when none is named."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    place = Path(home) if Path(home).is_absolute() else Path.home() / ".config"
    path = place / "oncelog" / "profiles.toml"
    try:
        document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        document = {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    name = document.get("previous") if named == PREVIOUS else named or document.get("current")
    if not name:
        return ""
    profiles = document.get("profiles")
    chosen = profiles.get(name) if isinstance(profiles, dict) else None
    if not isinstance(chosen, dict):
        raise ConfigurationError(f"there is no profile {name!r} in {path}")
    return str(chosen.get("bootstrap", ""))


def _of_local_cluster() -> str:
    """Return the addresses in the local cluster's state file. Whether it answers is not checked."""
    named = os.environ.get("ONCELOG_DIR")
    place = Path(named) if named else Path.home() / ".oncelog" / "local"
    try:
        state = json.loads((place / "cluster.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    found = state.get("bootstrap") if isinstance(state, dict) else None
    return found if isinstance(found, str) else ""
