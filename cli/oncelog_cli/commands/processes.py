"""``oncelog dump-log`` and ``bench`` are programs of other rooms, run as processes.

The command line never imports the broker: it starts it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

from oncelog_cli import extras, typed
from oncelog_cli.local.broker import broker_environment
from oncelog_cli.runner import become, own_environment


def dump_log(
    files: Annotated[
        list[Path],
        typed.Argument(
            metavar="PATH...",
            help="A partition's directory, or .log, .index, .timeindex and others.",
        ),
    ],
    records: Annotated[
        bool, typed.Option("--records", help="Show the records of each batch as well.")
    ] = False,
    as_json: Annotated[bool, typed.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Show what segment, index and checkpoint files hold; the broker need not run."""
    extras.need("broker", extras.BROKER, "dump-log")
    command = [sys.executable, "-m", "oncelog_broker.tools.dump_log", *map(str, files)]
    command += ["--records"] * records + ["--json"] * as_json
    sys.stdout.flush()
    done = subprocess.run(command, env=broker_environment(), check=False)
    if done.returncode:
        raise typed.Exit(done.returncode if done.returncode > 0 else 1)


def bench(context: typed.Context) -> None:
    """Measure the speed on this machine; every argument goes to ``python -m oncelog_bench``."""
    extras.need("local", extras.BROKER, "bench")
    become([sys.executable, "-m", "oncelog_bench", *context.args], own_environment())
