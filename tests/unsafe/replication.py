"""Replication lacks one of its rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from dataclasses import fields, replace

from oncelog_broker.replication.safeguards import Safeguards
from unsafe import log

SWITCHES = tuple(each.name for each in fields(Safeguards) if each.name != "log")
"""It lists the switches of replication."""


def without(switch: str) -> Safeguards:
    """Return a broker's safeguards without one of them; "log." stands before those of its log."""
    safe, name = Safeguards(), switch.removeprefix("log.")
    if name != switch:
        return replace(safe, log=log.without(name))
    return replace(safe, **{name: not getattr(safe, name)})  # type: ignore[arg-type]
