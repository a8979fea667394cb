"""Names that a cluster gave a few seconds ago are kept for the next press of Tab.

One small file a cluster and kind, in ``$XDG_CACHE_HOME/oncelog``, else ``~/.cache/oncelog``. It is
a convenience: what cannot be read or written is as if it were not there. That nothing was answered
is kept as well, or each press would wait for a cluster that is away.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from oncelog_cli.places import cache_directory

FRESH_S = 5.0
"""How long names count as true."""


def recall(servers: str, kind: str) -> list[str] | None:
    """Return the names of one kind if they were asked for just now, else None."""
    try:
        document = json.loads(_path(servers, kind).read_text(encoding="utf-8"))
        age_s = time.time() - float(document["at"])
        names = document["names"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not 0 <= age_s < FRESH_S or not isinstance(names, list):
        return None
    return [name for name in names if isinstance(name, str)]


def keep(servers: str, kind: str, names: Sequence[str]) -> None:
    """Keep them for a while."""
    path = _path(servers, kind)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps({"at": time.time(), "names": list(names)})
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError:
        pass


def _path(servers: str, kind: str) -> Path:
    named = hashlib.sha256(servers.encode()).hexdigest()[:16]
    return cache_directory() / f"names-{kind}-{named}.json"
