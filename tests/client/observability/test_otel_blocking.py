"""Spans of synchronous traced clients are in the thread at work; their parents in the caller's."""

from __future__ import annotations

import asyncio

from opentelemetry import trace

from oncelog import TopicPartition, blocking
from oncelog.observability import otel, otel_blocking
from oncelog.observability.otel_blocking import TracedConsumer, TracedProducer
from support.fake_cluster import FakeCluster
from support.spans import Written


async def test_traces_cross_the_thread_of_the_loop() -> None:
    written = Written()
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            with TracedProducer(cluster.bootstrap, linger_ms=0, **written.options) as producer:
                with written.tracer.start_as_current_span("request"):
                    producer.send("t", b"a")
                    producer.enqueue("t", b"b").result(5)
                    producer.send_nowait("t", b"c").result(5)
                    producer.send_many("t", [b"d"])
                    producer.enqueue_many("t", [b"e"])
                producer.flush()
            with TracedConsumer(
                "t",
                bootstrap_servers=cluster.bootstrap,
                auto_offset_reset="earliest",
                **written.options,
            ) as consumer:
                for record in consumer:
                    assert trace.get_current_span().is_recording()
                    if record.value == b"e":
                        break
                assert not trace.get_current_span().is_recording()
                consumer.seek(TopicPartition("t", 0), 0)
                for batch in consumer.batches():
                    assert trace.get_current_span().is_recording()
                    records = batch.records()
                    break
                with consumer.processing(records[0]):
                    pass
                with consumer.processing_many(records):
                    pass

        await asyncio.to_thread(work)
    request = written.span("request")
    assert request.context is not None
    sends = written.spans("send t")
    assert len(sends) == 5
    assert {s.parent.span_id for s in sends if s.parent} == {request.context.span_id}
    processed = written.spans("process t")
    assert len(processed) == 5 + 3
    senders = {s.context.span_id for s in sends if s.context}
    assert {s.parent.span_id for s in processed[:5] if s.parent} == senders


def test_every_traced_call_has_its_blocking_one() -> None:
    """Methods are written anew unless ``face.py`` made them: those ask whatever client there is."""
    for source, face, plain in (
        (otel.TracedProducer, TracedProducer, blocking.Producer),
        (otel.TracedConsumer, TracedConsumer, blocking.Consumer),
    ):
        for name in vars(source):
            made = hasattr(getattr(plain, name, None), "__wrapped__")
            assert name.startswith("_") or made or name in vars(face), name
    assert otel_blocking.__all__ == ["TracedConsumer", "TracedProducer"]
