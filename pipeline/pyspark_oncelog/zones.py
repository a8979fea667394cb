"""A time that names no zone is one of the session's time zone, which is found here.

Rules
-----
* ``spark.sql.session.timeZone`` is with the task where somebody has set it. Where nobody has, Spark
  takes the zone of the driver's Java, and tells its worker alone: it is looked for in there.
* Where nobody says anything (a plain process, another PySpark) it is this machine's.
"""

from __future__ import annotations

import os
import sys
from datetime import tzinfo
from pathlib import Path

from pyspark_oncelog.moments import NoMoment, find_zone
from pyspark_oncelog.option_values import OptionError

SETTING = "spark.sql.session.timeZone"
WORKER_VARIABLE = "runner_conf"
"""Spark's worker keeps its settings in this variable, up the stack from where a source reads."""
LOCALTIME = Path("/etc/localtime")


def session_zone() -> tzinfo:
    """Return the zone of the session that this task belongs to.

    :raises OptionError: this machine does not know it.
    """
    name = _of_task() or _of_worker() or _of_machine()
    try:
        return find_zone(name)
    except NoMoment as error:
        raise OptionError(
            f"{SETTING}: {error}. Remedy: a name such as Europe/Berlin, or pip install tzdata"
            " where the executors have no database of zones"
        ) from error


def _of_task() -> str | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(SETTING)


def _of_worker() -> str | None:
    above = sys._getframe().f_back
    while above is not None:
        name = getattr(above.f_locals.get(WORKER_VARIABLE), "timezone", None)
        if isinstance(name, str):
            return name
        above = above.f_back
    return None


def _of_machine() -> str:
    if named := os.environ.get("TZ", "").lstrip(":"):
        return named
    target = os.path.realpath(LOCALTIME)
    return target.partition("/zoneinfo/")[2] or "UTC"
