"""One process of a Spark driver leaves notes for another, in a folder of this driver alone.

Spark plans a write in one Python process and commits or aborts it in another, and hands over
nothing but the messages of tasks that succeeded. What else the second one must know is noted here:

* the ordinal that a micro-batch was planned with, so that its abort ends it, and what is older, and
  never what a newer driver has begun since;
* the last batch that a write in foreachBatch has committed, and in which run of the query, so that
  a second write under its name is not taken for a repetition.

Rules
-----
* The folder is Spark's own for blocks of data: it is named after this driver's context, all of its
  Python processes are told it, and Spark removes it at the end. Two drivers never share one.
* Notes are a help. Where there is no such folder, or it cannot be written, there are none.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

FOLDERS = "SPARK_LOCAL_DIRS"
"""The variable in the environment of Spark's Python processes; its first folder is taken."""


def leave(kind: str, about: tuple[Any, ...], note: Any) -> None:
    """Note something as JSON, over what was noted of the same before."""
    path = _path(kind, about)
    if path is None:
        return
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        part.write_text(json.dumps(note), encoding="utf-8")
        part.replace(path)
    except OSError:
        pass  # a full disk fails the work of Spark itself soon enough


def find(kind: str, about: tuple[Any, ...]) -> Any:
    """Return what this driver has noted, or None."""
    path = _path(kind, about)
    try:
        return None if path is None else json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _path(kind: str, about: tuple[Any, ...]) -> Path | None:
    folder = os.environ.get(FOLDERS, "").split(",")[0]
    if not folder or not Path(folder).is_dir():
        return None
    digest = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]
    return Path(folder) / "oncelog" / f"{kind}-{digest}.json"
