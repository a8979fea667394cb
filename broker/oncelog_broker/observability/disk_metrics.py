"""These metrics tell of log directories: room, syncs, what the start has loaded, compaction."""

from __future__ import annotations

from oncelog_broker.app import Broker
from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability.page import MetricsPage


async def collect_disks(broker: Broker, page: MetricsPage) -> None:
    """Add the samples of every log directory and of the cleaner to ``page``."""
    logs = broker.logs
    for log_dir, progress in zip(logs.dirs, logs.progress, strict=True):
        path = log_dir.path
        page.add(c.DIR_ONLINE, log_dir.online, path)
        page.add(c.DIR_FULL, log_dir.full, path)
        try:
            space = log_dir.files.disk_space(path)
        except OSError:
            pass  # not made yet, or broken: that is said by the metrics above
        else:
            page.add(c.DIR_FREE, space.free_bytes, path)
            page.add(c.DIR_TOTAL, space.total_bytes, path)
        page.add_histogram(c.SYNC_SECONDS, log_dir.flusher.seconds, path)
        page.add(c.LOAD_LOGS, progress.logs_total, path)
        page.add(c.LOAD_LOGS_DONE, progress.logs_done, path)
        page.add(c.LOAD_SEGMENTS_DONE, progress.segments_seen, path)
        await page.turn()
    page.add(c.CLEANER_PASSES, logs.cleaner.passes)
