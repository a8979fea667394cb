"""It loads programs of ``tools/`` for tests: they are files, no package."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from support.house import ROOT


def tool(name: str) -> Any:
    """Return the module ``tools/<name>.py``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
