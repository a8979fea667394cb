"""What the system says of this very process agrees with what we know of it."""

from __future__ import annotations

import os
import time

from oncelog_runtime.process import process_facts


def test_facts_of_this_process() -> None:
    before = process_facts()
    read, write = os.pipe()
    after = process_facts()
    os.close(read)
    os.close(write)
    assert before.open_fds is not None
    assert after.open_fds == before.open_fds + 2
    assert after.max_fds >= after.open_fds
    assert after.resident_bytes is not None
    assert after.virtual_bytes is not None
    assert 10**6 < after.resident_bytes < after.virtual_bytes
    assert 0 < before.cpu_s <= after.cpu_s
    assert after.start_s is not None
    assert time.time() - 86_400 < after.start_s <= time.time() + 2
