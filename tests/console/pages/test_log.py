"""The log page shows what ``dump-log --remote`` prints, and how other replicas differ."""

from __future__ import annotations

import pytest

from oncelog import Admin, Producer, TopicPartition
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.documents.logs import described_log
from oncelog_console.pages.log import BATCHES, ROWS_MAX, epochs_differ, log_view, newest_segment
from support.cluster import Cluster
from support.console import Browser, as_json
from support.log_documents import batch, log_document, segment

FOUND = {
    "offset": 5,
    "segment": 0,
    "file": "00000000000000000000.log",
    "index_offset": 4,
    "index_position": 400,
    "scanned_batches": 1,
    "batch_base_offset": 4,
    "offset_in_batch": 1,
}


def test_replicas_stand_beside_each_other() -> None:
    shown = log_document(
        batches=[batch(4)],
        found=FOUND,
        epochs=[
            {"leader_epoch": 1, "start_offset": 0},
            {"leader_epoch": 3, "start_offset": 9},
        ],
    )
    same = log_document(broker_id=2, epochs=shown["epochs"], log_end_offset=5)
    other = log_document(
        broker_id=3,
        batches=[batch(4, leader_epoch=2)],
        found=FOUND,
        epochs=[
            {"leader_epoch": 1, "start_offset": 0},
            {"leader_epoch": 3, "start_offset": 7},
        ],
    )
    silent = Failure("broker 4", "did not answer")
    view = log_view(shown, [(4, silent), (2, Answer(same)), (3, Answer(other))], 5)
    assert [row.broker_id for row in view.replicas] == [1, 2, 3, 4]
    assert [row.epochs_differ for row in view.replicas] == [False, False, True, False]
    assert view.replicas[1].at_offset == "not there"
    assert view.replicas[2].at_offset == "4 + 1, epoch 2, byte 400 of 00000000000000000000.log"
    assert (view.replicas[3].document, view.replicas[3].error) == (None, "did not answer")
    assert view.steps[1] == "2 index: 4 at byte 400"


def test_long_tables_show_the_newest() -> None:
    segments = [segment(n, n + 1) for n in range(ROWS_MAX + 5)]
    view = log_view(log_document(segments=segments), [])
    assert (len(view.segments), view.left_out) == (ROWS_MAX, 5)
    assert view.segments[-1]["base_offset"] == ROWS_MAX + 4
    assert (view.boxes, view.shown_segment) == (None, None)


def test_what_only_one_log_still_has_tells_nothing_of_the_other() -> None:
    long = [{"leader_epoch": n, "start_offset": 10 * n} for n in range(5)]
    trimmed = [{"leader_epoch": 2, "start_offset": 27}, *long[3:]]
    assert not epochs_differ(long, trimmed)
    assert not epochs_differ(trimmed, long[:4])
    assert not epochs_differ([], long)
    assert epochs_differ(long, [*long[:4], {"leader_epoch": 4, "start_offset": 41}])


def test_the_newest_segment_that_holds_something() -> None:
    assert newest_segment(log_document(segments=[segment(0, 9), segment(9, 9)])) == 0
    assert newest_segment(log_document(segments=[segment(0, 0)])) is None


async def filled(cluster: Cluster, topic: str = "orders") -> None:
    await cluster.create_topic(topic)
    async with Producer(cluster.bootstrap, linger_ms=0) as producer:
        for number in range(5):
            await producer.send(topic, b"content-of-%d" % number)


async def test_the_page_is_the_document_of_its_command(
    cluster: Cluster, admin: Admin, browser: Browser
) -> None:
    await filled(cluster)
    page = await browser.get("/topics/orders/0/log")
    assert page.status == 200
    command = f"oncelog dump-log --remote orders-0 --from 0 --batches {BATCHES}"
    assert command in page.text
    assert "Batches of 00000000000000000000.log" in page.text
    assert "content-of-" not in page.text, "records are not shown here"
    document = await browser.document("/topics/orders/0/log")
    answer = await described_log(
        admin, TopicPartition("orders", 0), batches_from=0, batches=BATCHES
    )
    told = {key: value for key, value in document.items() if key in answer.document}
    assert told == as_json(answer.document)
    assert document["_command"] == "dump-log"
    assert document["log_end_offset"] == 5


async def test_an_offset_is_found(cluster: Cluster, browser: Browser) -> None:
    await filled(cluster)
    page = await browser.get("/topics/orders/0/log?offset=3")
    assert "segment by its name: 00000000000000000000.log" in page.text
    assert "--offset 3" in page.text
    assert 'href="/topics/orders/0/3"' in page.text
    page = await browser.get("/topics/orders/0/log?offset=99")
    assert "Offset 99 is not in this log" in page.text


async def test_an_empty_log_says_what_would_fill_it(cluster: Cluster, browser: Browser) -> None:
    await cluster.create_topic("empty")
    page = await browser.get("/topics/empty/0/log")
    assert "oncelog produce empty" in page.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/topics/none/0/log", 404, "none"),
        ("/topics/orders/7/log", 404, "7"),
        ("/topics/orders/x/log", 404, "no number"),
        ("/topics/orders/0/log?offset=-1", 400, "offset"),
        ("/topics/orders/0/log?offset=1&from=1", 400, "from="),
        ("/topics/orders/0/log?broker=77", 503, "77"),
    ],
)
async def test_what_is_not_there(
    cluster: Cluster, browser: Browser, path: str, status: int, said: str
) -> None:
    await cluster.create_topic("orders")
    page = await browser.get(path)
    assert page.status == status
    assert said in page.text


async def test_names_cannot_become_markup(cluster: Cluster, browser: Browser) -> None:
    page = await browser.get("/topics/%3Cscript%3E/0/log")
    assert page.status >= 400
    assert "<script>" not in page.text


async def test_replicas_are_compared_and_one_that_is_away_is_named(
    cluster: Cluster, browser: Browser
) -> None:
    await cluster.start_broker(2)
    await cluster.converged()
    await cluster.create_topic("pair", replication_factor=2)
    await browser.until(lambda seen: seen.topic("pair"))
    page = await browser.get("/topics/pair/0/log?broker=2")
    assert page.status == 200
    assert "<td>agree</td>" in page.text
    assert "<td>shown</td>" in page.text
    assert "--broker 2" in page.text
    await cluster.stop_broker(2)
    page = await browser.get("/topics/pair/0/log?broker=1")
    assert page.status == 200
    assert "not known: " in page.text
