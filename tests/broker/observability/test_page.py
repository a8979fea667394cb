"""Pages of metrics are written in pieces, as the library writes them at once; turns are taken."""

from __future__ import annotations

import asyncio
import math

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from oncelog_broker.observability import catalogue as c
from oncelog_broker.observability.page import CHUNK, SLICE_S, MetricsPage, label_values
from oncelog_runtime.observe import Histogram, precise_time

NAMES = ["plain", 'with "quotes"', "back\\slash", "new\nline", "ünïcode", "", "a,b={}", "\\n"]


async def text(page: MetricsPage) -> str:
    return b"".join(await page.finish()).decode()


@pytest.mark.parametrize("name", NAMES)
async def test_labels_come_back_as_they_were(name: str) -> None:
    page = MetricsPage(7, precise_time)
    page.add(c.GROUP_MEMBERS, 3, name)
    (family,) = text_string_to_metric_families(await text(page))
    (sample,) = family.samples
    assert sample.labels == {"broker": "7", "consumergroup": name}
    assert (family.type, sample.value) == ("gauge", 3)


@pytest.mark.parametrize(
    "value", [0, 1, -1, 2**52, 0.1, 1e-9, 1e300, math.inf, -math.inf, True, False]
)
async def test_numbers_come_back_as_they_were(value: float) -> None:
    page = MetricsPage(1, precise_time)
    page.add(c.RESIDENT_BYTES, value)
    (family,) = text_string_to_metric_families(await text(page))
    assert [sample.value for sample in family.samples] == [value]


@pytest.mark.parametrize("topics", [1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7])
async def test_pieces_are_what_the_library_writes_at_once(topics: int) -> None:
    def filled() -> MetricsPage:
        page = MetricsPage(1, precise_time)
        for topic in range(topics):
            page.add(c.TOPIC_BYTES_OUT, topic, f"t{topic}")
            page.add_histogram(c.REQUEST_LATENCY, Histogram(), f"Api{topic}")
            page.add(c.TOPIC_BYTES_IN, topic, f"t{topic}")
        return page

    page = MetricsPage(1, precise_time)
    for topic in range(topics):
        page.add(c.TOPIC_BYTES_OUT, topic, f"t{topic}")
        await page.turn()
        page.add_histogram(c.REQUEST_LATENCY, Histogram(), f"Api{topic}")
        page.add(c.TOPIC_BYTES_IN, topic, f"t{topic}")
        await page.turn()
    pieces = await page.finish()
    assert len(pieces) >= topics * 2 // CHUNK
    assert b"".join(pieces) == generate_latest(filled().registry)


async def test_series_of_a_metric_stand_together_in_the_order_of_the_catalogue() -> None:
    page = MetricsPage(1, precise_time)
    for topic in ("a", "b"):
        page.add(c.TOPIC_BYTES_OUT, 2, topic)
        page.add(c.TOPIC_BYTES_IN, 1, topic)
    page.add(c.RESIDENT_BYTES, 5)
    lines = (await text(page)).splitlines()
    assert [line.split("{")[0].split(" ")[0] for line in lines if line[0] != "#"] == [
        "process_resident_memory_bytes",
        *("oncelog_topic_bytes_in_total", "oncelog_topic_bytes_in_total"),
        *("oncelog_topic_bytes_out_total", "oncelog_topic_bytes_out_total"),
    ]
    assert sum(line.startswith("# HELP") for line in lines) == 3
    assert "process_resident_memory_bytes 5.0" in lines


async def test_a_histogram() -> None:
    histogram = Histogram()
    for seconds in (0.00001, 0.0009, 0.0011, 5.0, 1e5):
        histogram.observe(seconds)
    page = MetricsPage(1, precise_time)
    page.add_histogram(c.REQUEST_LATENCY, histogram, "Fetch")
    (family,) = text_string_to_metric_families(await text(page))
    assert family.type == "histogram"
    buckets = {float(s.labels["le"]): s.value for s in family.samples if s.name.endswith("_bucket")}
    assert len(buckets) == len(Histogram.BOUNDS_S) + 1
    assert buckets[0.001024] == 2
    assert buckets[math.inf] == 5
    values = {s.name.rpartition("_")[2]: s.value for s in family.samples}
    assert (values["count"], values["sum"]) == (5, histogram.sum_s)


def test_what_the_catalogue_does_not_say_is_a_defect() -> None:
    page = MetricsPage(1, precise_time)
    with pytest.raises(LookupError, match="made_up"):
        page.add(c.Metric("oncelog_made_up", c.MetricKind.GAUGE, "Nothing."), 1)
    with pytest.raises(ValueError, match="labels"):
        page.add(c.TOPIC_BYTES_IN, 1, "t", 3)
    with pytest.raises(ValueError, match="labels"):
        page.add(c.TOPIC_BYTES_IN, 1)
    with pytest.raises(TypeError, match="is a histogram"):
        page.add(c.LOOP_LAG, 1)
    with pytest.raises(TypeError, match="is no histogram"):
        page.add_histogram(c.TASKS, Histogram(), "broker")


def test_names_that_clash_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    count = c.Metric(
        "oncelog_event_loop_lag_seconds_count", c.MetricKind.GAUGE, "Of the histogram."
    )
    monkeypatch.setitem(c.CATALOGUE, "more", (count,))
    with pytest.raises(ValueError, match="Duplicated"):
        MetricsPage(1, precise_time)


async def test_others_have_their_turn() -> None:
    clock = [0.0]
    ran: list[float] = []
    page = MetricsPage(1, lambda: clock[0])
    loop = asyncio.get_running_loop()
    for step in range(8):
        loop.call_soon(lambda: ran.append(clock[0]))
        clock[0] += SLICE_S / 2
        await page.turn()
        assert len(ran) == (step + 1) // 2 * 2, "every second half slice"
    assert page.longest_slice_s == SLICE_S


def test_label_values() -> None:
    assert label_values("t", 3) == ("t", "3")
