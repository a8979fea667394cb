"""An object's memory is measured with everything that it refers to."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, ModuleType


def size_of(thing: object) -> int:
    """Return the bytes of an object and of all that is reached from it, except code."""
    seen: dict[int, object] = {}
    waiting = [thing]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, type | FunctionType | ModuleType):
            seen[id(each)] = each
            waiting.extend(gc.get_referents(each))
    return sum(map(sys.getsizeof, seen.values()))
