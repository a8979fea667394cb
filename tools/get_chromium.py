"""Find Chromium, or install Debian's package; print where it is.

    python tools/get_chromium.py       one line: the program's path

$ONCELOG_CHROMIUM is taken first, then what is on PATH under a usual name. Where there is none, root
on a machine with apt gets the package ``chromium``: it has many libraries, so that it is installed
and not only unpacked. Tests never install it: they skip where they do not find it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "ONCELOG_CHROMIUM"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE = "chromium"
INSTALL_S = 600.0


class NotAvailableError(Exception):
    """Chromium can be neither found nor installed here; the message says why, and the remedy."""


def find() -> Path | None:
    """Return the browser that the environment names or that is on PATH, or None.

    :raises NotAvailableError: the environment names what is no program.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise NotAvailableError(f"{VARIABLE} names {named}, which is no program")
        return Path(found)
    paths = (shutil.which(program) for program in PROGRAMS)
    return next((Path(path) for path in paths if path is not None), None)


def install() -> Path:
    """Install the package.

    :raises NotAvailableError: there is no apt, no right to install, no network, no such package.
    """
    remedy = (
        f"Remedy: install Chromium ('apt-get install {PACKAGE}' as root, on Debian), or name one "
        f"by {VARIABLE}"
    )
    if shutil.which("apt-get") is None:
        raise NotAvailableError(f"no Chromium on PATH, and no apt-get. {remedy}")
    if os.geteuid() != 0:
        raise NotAvailableError(f"no Chromium on PATH, and only root may install one. {remedy}")
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", PACKAGE]
    failure = _run(command)
    if failure is not None:  # lists may be old, or missing
        failure = _run(["apt-get", "update", "--quiet"]) or _run(command)
    if failure is not None:
        raise NotAvailableError(f"{failure}. {remedy}")
    found = find()
    if found is None:
        raise NotAvailableError(f"the package {PACKAGE} brought no program. {remedy}")
    return found


def _run(command: list[str]) -> str | None:
    """Run a command of apt; return what it says when it fails."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)}: {error}"
    if not done.returncode:
        return None
    return f"{' '.join(command)}: {' '.join(done.stderr.split())[-300:]}"


def get() -> Path:
    """Find or install.

    :raises NotAvailableError: see ``find`` and ``install``.
    """
    return find() or install()


if __name__ == "__main__":
    try:
        program = get()
    except NotAvailableError as error:
        sys.exit(f"Chromium cannot be had: {error}")
    print(program)
