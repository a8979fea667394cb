"""Mistakes about the log directories are found here before anything is created.

This only reads. The locks and the final word on identity are the log manager's; these checks exist
so that a mistake in the configuration gets a message that names key, directory and remedy.
"""

from __future__ import annotations

import os.path

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.log.checkpoint import META, CheckpointError, decode_document
from oncelog_runtime.files import Files


def check_directories(files: Files, config: BrokerConfig) -> None:
    """Check that every log directory can be used by this broker.

    :raises ConfigError: a directory cannot be used, or belongs to another broker.
    """
    clusters: dict[str, str] = {}
    for path in config.log_dirs:
        _check_usable(files, path)
        meta = _meta(files, path)
        if meta is None:
            continue
        owner = meta.get("broker_id")
        if owner != config.broker_id:
            raise ConfigError(
                "log_dirs",
                f"{path!r} holds the data of broker {owner}, and broker_id is {config.broker_id}",
                "Correct broker_id, or give this broker a directory of its own",
            )
        clusters[str(meta.get("cluster_id"))] = path
    if len(clusters) > 1:
        listed = ", ".join(f"{path!r} to {cluster}" for cluster, path in sorted(clusters.items()))
        raise ConfigError(
            "log_dirs",
            f"the directories belong to different clusters: {listed}",
            "Keep the directories of one cluster only",
        )


def known_cluster_id(files: Files, config: BrokerConfig) -> str | None:
    """Return the cluster that the directories belong to; None when they are new."""
    for path in config.log_dirs:
        meta = _meta(files, path)
        if meta is not None and meta.get("cluster_id"):
            return str(meta["cluster_id"])
    return None


def _check_usable(files: Files, path: str) -> None:
    if files.exists(path):
        if not files.is_dir(path):
            raise ConfigError("log_dirs", f"{path!r} is not a directory", "Name a directory")
        _check_writable(files, path, path)
        return
    parent = os.path.dirname(os.path.normpath(path)) or "."
    while not files.exists(parent) and os.path.dirname(parent) not in ("", parent):
        parent = os.path.dirname(parent)
    if files.exists(parent):
        if not files.is_dir(parent):
            raise ConfigError(
                "log_dirs", f"{path!r} lies below {parent!r}, a file", "Name another directory"
            )
        _check_writable(files, path, parent)


def _check_writable(files: Files, path: str, existing: str) -> None:
    if not files.is_writable(existing):
        raise ConfigError(
            "log_dirs",
            f"{path!r} cannot be written: {existing!r} is not writable for this user",
            "Change its owner or mode, or name another directory",
        )


def _meta(files: Files, path: str) -> dict[str, object] | None:
    """Return the identity file, or None where there is none that can be read."""
    name = f"{path}/{META}"
    if not files.exists(name):
        return None
    try:
        return decode_document(name, files.read_bytes(name))
    except OSError as exc:
        raise ConfigError(
            "log_dirs", f"{name!r} cannot be read ({exc.strerror})", "Change its owner or mode"
        ) from exc
    except CheckpointError:
        return None
