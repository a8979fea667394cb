"""``oncelog bench`` is a program of another room, run as a process."""

from __future__ import annotations

import sys

from oncelog_cli import extras, typed
from oncelog_cli.runner import become, own_environment


def bench(context: typed.Context) -> None:
    """Measure the speed on this machine; every argument goes to ``python -m oncelog_bench``."""
    extras.need("local", extras.BROKER, "bench")
    become([sys.executable, "-m", "oncelog_bench", *context.args], own_environment())
