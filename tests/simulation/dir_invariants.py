"""Nothing is left of moves between directories when they are at rest.

No move is under way, no copy in the making is left that nobody wants, no old copy is left to be
removed, and no log says any more that it goes elsewhere, or came from there. Copies that were put
aside when the disk that they went to was replaced are no logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from oncelog_broker.app import Broker
from oncelog_broker.log.found_copies import DELETE_SUFFIX, STRAY_SUFFIX
from oncelog_broker.log.move_marks import FUTURE_SUFFIX, MOVED_MARK, SWAP_MARK
from oncelog_testing.memory.files import MemoryFiles
from simulation.log_view import names_on_disk


def unrest(brokers: Mapping[int, Broker]) -> str:
    """Return what of moves between directories is not at its end; "" if nothing."""
    for broker_id, broker in brokers.items():
        where = f"broker {broker_id}"
        for move in broker.logs.moves.under_way():
            return f"{where} moves {move.topic_partition} to {move.path}, {move.phase}"
        if not broker.logs.moves.is_idle:
            return f"{where} tidies after a move"
        files = cast(MemoryFiles, broker.files)
        for log_dir in broker.logs.dirs:
            for name in names_on_disk(files, log_dir.path):
                path = f"{log_dir.path}/{name}"
                if name.endswith(STRAY_SUFFIX):
                    continue
                if name.endswith((FUTURE_SUFFIX, DELETE_SUFFIX)):
                    return f"{where} has {path} left"
                for mark in (MOVED_MARK, SWAP_MARK):
                    if mark in names_on_disk(files, path):
                        return f"{where} has {path}/{mark} left"
    return ""
