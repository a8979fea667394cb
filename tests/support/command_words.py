"""Words of a command line are parsed here by the real command tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog_cli.command_tree import leaves

__all__ = ["parsed"]

LEAVES = {leaf.path: leaf for leaf in leaves()}


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Return what the real command makes of its words, without what nobody said."""
    path = next(
        " ".join(words[:length])
        for length in range(min(3, len(words)), 0, -1)
        if " ".join(words[:length]) in LEAVES
    )
    click = LEAVES[path].click
    context = click.make_context(path, list(words[len(path.split()) :]))
    said = {
        name: value
        for name, value in context.params.items()
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    return {"path": path, **said}
