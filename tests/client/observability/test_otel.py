"""Traced clients write spans with the right parents, and all else stays as it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from oncelog import Consumer, Producer, ProducerRecord, Record, TopicPartition
from oncelog.errors import MessageTooLargeError, UndeliveredRecordsError
from oncelog.observability.otel import TracedConsumer, TracedProducer, _traced_handler, observe
from oncelog.observability.propagation import link_of
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.records.decode import decode_batch
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.spans import Written
from support.waiting import eventually

T0 = TopicPartition("t", 0)


@asynccontextmanager
async def world() -> AsyncIterator[tuple[FakeCluster, Written]]:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        yield cluster, Written()


def producing(cluster: FakeCluster, written: Written, **options: Any) -> TracedProducer:
    given = {"linger_ms": 0, "entropy": SeededEntropy(1), **written.options, **options}
    return TracedProducer(cluster.bootstrap, **given)


def reading(cluster: FakeCluster, written: Written, **options: Any) -> TracedConsumer:
    given = {"auto_offset_reset": "earliest", "entropy": SeededEntropy(2), **options}
    return TracedConsumer("t", bootstrap_servers=cluster.bootstrap, **written.options, **given)


def headers_of(cluster: FakeCluster) -> list[Any]:
    return [
        headers
        for batch in cluster.partition("t").batches
        for headers in decode_batch(batch).headers or ()
    ]


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def is_child_of(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert child.context is not None
    assert parent.context is not None
    return (
        child.parent is not None
        and child.parent.span_id == parent.context.span_id
        and child.context.trace_id == parent.context.trace_id
    )


def linked(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


# ---- sending


async def test_a_send_is_a_span_whose_context_travels() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        with written.tracer.start_as_current_span("request"):
            await producer.send("t", b"value", headers=[("own", b"1")])
        sent, request = written.span("send t"), written.span("request")
        assert is_child_of(sent, request)
        assert sent.kind is SpanKind.PRODUCER
        told = dict(sent.attributes or {})
        assert told["messaging.destination.partition.id"] == "0"
        assert told["messaging.oncelog.offset"] == 0
        assert told["messaging.message.body.size"] == 5
        (headers,) = headers_of(cluster)
        assert [name for name, _ in headers] == ["own", "traceparent"]
        link = link_of(headers)
        assert link is not None
        assert link.context.span_id == span_id(sent)
        (point,) = written.points("messaging.client.operation.duration")
        assert point.count == 1


async def test_deliveries_end_their_spans() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.partitions_for("t")
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        first = await producer.enqueue("t", b"1")
        second = producer.send_nowait("t", b"2")
        assert written.spans() == []
        held.release.set()
        await first
        await second
        await eventually(lambda: len(written.spans("send t")) == 2, timeout_s=5, what="the spans")
        offsets = [(s.attributes or {})["messaging.oncelog.offset"] for s in written.spans()]
        assert offsets == [0, 1]


async def test_a_failure_is_told_by_the_span_and_still_by_flush() -> None:
    """That a span looks at a delivery must not make the producer believe that somebody did."""
    async with world() as (cluster, written):
        producer = producing(cluster, written)
        await producer.start()
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=MessageTooLargeError)
        await producer.enqueue("t", b"1")
        with pytest.raises(UndeliveredRecordsError):
            await producer.close()
        await eventually(lambda: bool(written.spans()), timeout_s=5, what="the span")
        span = written.span("send t")
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == "MessageTooLargeError"


async def test_what_cannot_be_sent_at_all_ends_its_span_too() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.partitions_for("t")
        for call in (producer.send, producer.enqueue):
            with pytest.raises(TypeError):
                await call("t", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            producer.send_nowait("t", "text")  # type: ignore[arg-type]
        errors = [(span.attributes or {})["error.type"] for span in written.spans("send t")]
        assert errors == ["TypeError"] * 3


async def test_many_records_share_one_span() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.send_many("t", [b"a", b"b"])
        await producer.enqueue_many("t", [b"c"], headers=[[("traceparent", b"theirs")]])
        await producer.flush()
        first, second = written.spans("send t")
        assert (first.attributes or {})["messaging.batch.message_count"] == 2
        assert (second.attributes or {})["messaging.batch.message_count"] == 1
        *ours, theirs = headers_of(cluster)
        for headers in ours:
            link = link_of(headers)
            assert link is not None
            assert link.context.span_id == span_id(first)
        assert theirs == (("traceparent", b"theirs"),)


# ---- reading


async def test_a_loop_over_records_continues_the_traces_of_who_wrote_them() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.send("t", b"a")
        await producer.send("t", b"b")
        async with reading(cluster, written) as consumer:
            before = trace.get_current_span()
            seen: list[tuple[bytes | None, int]] = []
            async for record in consumer:
                current = trace.get_current_span()
                seen.append((record.value, current.get_span_context().span_id))
                assert current.is_recording()
                if len(seen) == 2:
                    break
            assert len(written.spans("process t")) == 1, "the second is at work still"
        assert trace.get_current_span() is before
        processed = written.spans("process t")
        assert [span_id(span) for span in processed] == [ours for _, ours in seen]
        for process, sent in zip(processed, written.spans("send t"), strict=True):
            assert is_child_of(process, sent)
            assert process.kind is SpanKind.CONSUMER
        told = dict(processed[1].attributes or {})
        assert told["messaging.oncelog.offset"] == 1
        (point,) = written.points("messaging.process.duration")
        assert point.count == 2


async def test_records_of_others_begin_traces_of_their_own() -> None:
    async with world() as (cluster, written):
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            await producer.send("t", b"a")
        async with reading(cluster, written) as consumer:
            with written.tracer.start_as_current_span("around"):
                async for record in consumer:
                    assert record.headers == ()
                    break
        assert written.span("process t").parent is None


async def test_lists_and_batches_link_to_who_wrote_them() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.send("t", b"a")
        await producer.send("t", b"b")
        senders = {span_id(span) for span in written.spans("send t")}
        async with reading(cluster, written) as consumer:
            found = await consumer.getmany(timeout_ms=5000)
            while sum(map(len, found.values())) < 2:
                consumer.seek(T0, 0)
                found = await consumer.getmany(timeout_ms=5000)
            received = written.spans("receive t")[-1]
            assert linked(received) == senders
            assert received.kind is SpanKind.CLIENT
            assert (received.attributes or {})["messaging.batch.message_count"] == 2
            with consumer.processing_many(found[T0]):
                assert trace.get_current_span().is_recording()
            assert linked(written.span("process t")) == senders
            count = len(written.spans())
            assert await consumer.getmany(timeout_ms=1) == {}
            assert len(written.spans()) == count, "nothing came: nothing to tell"
            consumer.seek(T0, 0)
            assert len(await consumer.getbatches(T0, 2)) >= 1
            assert linked(written.spans("receive t")[-1]) == senders
            consumer.seek(T0, 1)
            await consumer.getbatch()
            assert len(linked(written.spans("receive t")[-1])) == 1
            consumer.seek(T0, 0)
            async for batch in consumer.batches():
                assert batch.offsets[0] == 0
                break
        batch_span = written.spans("process t")[-1]
        assert linked(batch_span) <= senders
        assert linked(batch_span)
        assert batch_span.parent is None


async def test_one_record_can_be_given_its_span() -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.send("t", b"a")
        async with reading(cluster, written) as consumer:
            record = await consumer.getone()
            with pytest.raises(ValueError, match="bad"), consumer.processing(record):
                raise ValueError("bad")
        process = written.span("process t")
        assert is_child_of(process, written.span("send t"))
        assert process.status.status_code is StatusCode.ERROR


# ---- handlers


@pytest.mark.parametrize("plain", [False, True])
async def test_handlers_of_run_have_their_span(plain: bool) -> None:
    async with world() as (cluster, written), producing(cluster, written) as producer:
        await producer.send("t", b"a")
        async with reading(cluster, written) as consumer:
            loop = asyncio.get_running_loop()
            handled: asyncio.Future[tuple[object, int]] = loop.create_future()

            def handle(value: bytes) -> None:
                seen = (value, trace.get_current_span().get_span_context().span_id)
                loop.call_soon_threadsafe(handled.set_result, seen)

            async def handle_on_the_loop(value: bytes) -> None:
                handle(value)

            def decode(record: Record) -> bytes | None:
                return record.value

            handler: Any = handle if plain else handle_on_the_loop
            running = asyncio.create_task(consumer.run(handler, decode=decode))
            async with asyncio.timeout(10):
                value, current = await handled
            await consumer.close()
            await running
        process = written.span("process t")
        assert (value, current) == (b"a", span_id(process))
        assert is_child_of(process, written.span("send t"))


RECORD = Record("t", 0, 7, 0, None, b"v", ())


async def called(handler: Any) -> tuple[object, ReadableSpan]:
    """Return what a traced handler returns for RECORD, and its span."""
    written = Written()
    consumer = TracedConsumer(bootstrap_servers="localhost:1", **written.options)
    traced = _traced_handler(handler, consumer._processing)
    returned = traced(type("Carried", (), {"record": RECORD, "payload": b"v"})())
    if asyncio.iscoroutine(returned):
        returned = await returned
    return returned, written.span("process t")


async def test_what_handlers_return_for_the_log_carries_their_context() -> None:
    answer = ProducerRecord("out", b"x", headers=[("a", b"1")])

    async def one(value: bytes) -> ProducerRecord:
        return answer

    async def several(value: bytes) -> AsyncIterator[ProducerRecord]:
        yield answer
        yield answer

    def made(value: bytes) -> Any:
        yield answer

    def passed_on(value: bytes) -> Any:
        return one(value)

    for handler in (one, several, made, passed_on):
        returned, span = await called(handler)
        results = returned if isinstance(returned, list) else [returned]
        assert len(results) == (2 if handler is several else 1)
        for result in results:
            assert isinstance(result, ProducerRecord)
            assert result.headers[0] == ("a", b"1")
            link = link_of(result.headers)
            assert link is not None
            assert link.context.span_id == span_id(span)


async def test_handlers_that_fail_are_told_as_such_and_go_on_failing() -> None:
    async def fails(value: bytes) -> None:
        raise ValueError("why")

    written = Written()
    consumer = TracedConsumer(bootstrap_servers="localhost:1", **written.options)
    traced = _traced_handler(fails, consumer._processing)
    with pytest.raises(ValueError, match="why"):
        await traced(type("Carried", (), {"record": RECORD, "payload": b"v"})())
    assert written.span("process t").status.status_code is StatusCode.ERROR


# ---- metrics, and what it costs


async def test_a_meter_reads_what_clients_count_traced_or_not() -> None:
    async with (
        world() as (cluster, written),
        Producer(cluster.bootstrap, linger_ms=0) as producer,
        Consumer(
            "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer,
    ):
        observe(producer, written.meter_provider)
        observe(consumer, written.meter_provider)
        await producer.send_many("t", [b"v"] * 3)
        await consumer.getone()
        (sent,) = written.points("messaging.client.sent.messages")
        assert (sent.value, sent.attributes["messaging.destination.name"]) == (3, "t")
        (consumed,) = written.points("messaging.client.consumed.messages")
        assert consumed.value == 1
        (lag,) = written.points("oncelog.consumer.lag")
        assert (lag.value, lag.attributes["messaging.destination.partition.id"]) == (2, "0")


def test_plain_clients_know_nothing_of_it() -> None:
    """It costs nothing when absent: neither an import nor a call on the way of a record."""
    import subprocess
    import sys

    code = (
        "import sys, oncelog, oncelog.blocking;"
        "oncelog.Producer, oncelog.Consumer, oncelog.Admin;"
        "heavy = ('opentelemetry', 'prometheus', 'http_port', 'starlette', 'uvicorn');"
        "print([m for m in sys.modules if any(name in m for name in heavy)])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    for name in ("send", "enqueue", "send_nowait", "send_many", "enqueue_many"):
        assert getattr(TracedProducer, name) is not getattr(Producer, name)
