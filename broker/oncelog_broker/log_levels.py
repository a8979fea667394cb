"""Log levels decide which lines are written: one for all, and others for rooms or single modules.

A room is named as it is in the documentation (``replication``), a module by the name of its logger
(``oncelog_broker.log.cleaner``). Of two names that fit the longer one holds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from oncelog_runtime.spelling import nearest

__all__ = ["LOGGERS", "REPEAT_MAX", "logger_name", "set_levels"]

REPEAT_MAX = 20
"""So many lines about the same thing are written in one interval; further ones are only counted."""

LOGGERS = {
    "broker": "oncelog_broker",
    "controller": "oncelog_controller",
    "coordinator": "oncelog_broker.coordinator",
    "log": "oncelog_broker.log",
    "replication": "oncelog_broker.replication",
    "runtime": "oncelog_runtime",
    "server": "oncelog_broker.server",
    "transactions": "oncelog_broker.transactions",
    "asyncio": "asyncio",
    "audit": "oncelog.audit",
    "zookeeper": "kazoo",
    "http": "uvicorn",
}
"""These names are possible in ``log_levels``, and each means a logger."""


def logger_name(name: str) -> str:
    """Return the logger that a name in ``log_levels`` means.

    Raises ValueError for one that no line is ever written under.
    """
    if name in LOGGERS:
        return LOGGERS[name]
    if name.split(".")[0] in {logger.split(".")[0] for logger in LOGGERS.values()}:
        return name
    near = nearest(name, LOGGERS)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(LOGGERS)}"
    raise ValueError(f"nothing is logged under {name!r}; {hint}")


def set_levels(level: str, levels: Mapping[str, str]) -> None:
    """Let these levels hold in this process, and no others that were set here before.

    :param level: of everything that ``levels`` does not name.
    :param levels: names as ``logger_name`` takes them to levels.
    """
    wanted = {logger_name(name): each for name, each in levels.items()}
    # What is on record does not depend on how much else is told.
    wanted.setdefault(LOGGERS["audit"], "info")
    if level != "debug":
        # kazoo narrates its attempts to connect; what matters of it the store logs itself.
        wanted.setdefault("kazoo", "warning")
        # uvicorn tells of every start, stop and request that is none.
        wanted.setdefault("uvicorn", "error")
    roots = {logger.split(".")[0] for logger in LOGGERS.values()}
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0] in roots and name not in wanted:
            logging.getLogger(name).setLevel(logging.NOTSET)
    for name, each in wanted.items():
        logging.getLogger(name).setLevel(each.upper())
    logging.getLogger().setLevel(level.upper())
