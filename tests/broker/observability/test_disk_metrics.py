"""These metrics tell of the room on disks, of syncs, and of a directory that is gone."""

from __future__ import annotations

from pathlib import Path

from support.hand_records import produce
from support.observed import observed


async def test_room_and_syncs(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        await seen.cluster.create_topic("t")
        channel = await seen.cluster.channel(1)
        await produce(channel, "t", 0, [b"x"])
        channel.close()
        samples = await seen.metrics()
        directory = (str(tmp_path / "broker-1"),)
        free = samples["oncelog_log_dir_free_bytes"][directory]
        assert 0 < free < samples["oncelog_log_dir_total_bytes"][directory]
        assert samples["oncelog_log_dir_online"][directory] == 1
        assert samples["oncelog_log_dir_full"][directory] == 0
        assert samples["oncelog_log_sync_seconds_count"][directory] >= 1
        assert samples["oncelog_log_sync_seconds_sum"][directory] > 0


async def test_a_directory_that_cannot_be_asked_has_no_room_to_tell(tmp_path: Path) -> None:
    async with observed(tmp_path) as seen:
        seen.cluster.brokers[1].logs.dirs[0].path += "-gone"
        samples = await seen.metrics()
        assert "oncelog_log_dir_free_bytes" not in samples
        assert len(samples["oncelog_log_dir_online"]) == 1
        assert set(samples["oncelog_scrape_errors_total"].values()) == {0}
        seen.cluster.brokers[1].logs.dirs[0].path = str(tmp_path / "broker-1")
