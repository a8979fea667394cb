"""Find Prometheus and promtool, or fetch Debian's package into a cache; print where they are.

    python tools/get_prometheus.py       two lines: prometheus, promtool

What is on PATH is taken first, then what is in the cache ($XDG_CACHE_HOME/oncelog/prometheus), then
the package: ``apt-get download`` and ``dpkg -x``, so nothing is installed and no right is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "prometheus"
DOWNLOAD_S = 120.0


class NotAvailableError(Exception):
    """Prometheus can be neither found nor fetched here; the message says why."""


@dataclass(frozen=True)
class Prometheus:
    """The two programs are at these paths."""

    server: Path
    promtool: Path


def cache() -> Path:
    """Return the directory in which the package is unpacked."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "oncelog" / "prometheus"


def find() -> Prometheus | None:
    """Return the programs on PATH or in the cache, or None."""
    server, promtool = shutil.which("prometheus"), shutil.which("promtool")
    if server is not None and promtool is not None:
        return Prometheus(Path(server), Path(promtool))
    folder = cache() / "usr" / "bin"
    found = Prometheus(folder / "prometheus", folder / "promtool")
    return found if found.server.exists() and found.promtool.exists() else None


def fetch() -> Prometheus:
    """Get the package and unpack it.

    :raises NotAvailableError: there is no apt, no network, no such package.
    """
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise NotAvailableError(f"there is no {program} here")
    target = cache()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Unpacked beside its place and moved there whole: two may do this at the same time.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        try:
            _run(["apt-get", "download", PACKAGE], folder)
        except NotAvailableError:
            _run(["apt-get", "update", "-qq"], folder)  # lists may be old, or missing
            _run(["apt-get", "download", PACKAGE], folder)
        (package,) = Path(folder).glob("*.deb")
        _run(["dpkg", "-x", str(package), f"{folder}/unpacked"], folder)
        try:
            Path(folder, "unpacked").rename(target)
        except OSError:
            pass  # somebody else was first; whether that is of use is seen below
    found = find()
    if found is None:
        raise NotAvailableError(f"{target} has no prometheus and promtool; remove it and try again")
    return found


def _run(command: list[str], folder: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailableError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise NotAvailableError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")


def get() -> Prometheus:
    """Find or fetch.

    :raises NotAvailableError: see ``fetch``.
    """
    return find() or fetch()


if __name__ == "__main__":
    try:
        programs = get()
    except NotAvailableError as error:
        sys.exit(f"prometheus cannot be had: {error}")
    print(programs.server, programs.promtool, sep="\n")
