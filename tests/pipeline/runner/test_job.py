"""These tests check what a job may be, and what it adds to options of sources and sink."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyspark_oncelog.runner.job import (
    BOOTSTRAP_OPTION,
    Job,
    JobError,
    Query,
    Sink,
    Source,
    trigger_arguments,
)


def job(**changes: Any) -> Job:
    """Return a job that is right, but for ``changes``."""
    parts: dict[str, Any] = {
        "name": "delays",
        "sources": (Source("flights", {"subscribe": "flights"}),),
        "query": Query(sql="SELECT * FROM flights"),
        "sink": Sink({"topic": "delays"}),
        "checkpoint": "/state",
        "bootstrap_servers": "here:1",
    }
    return Job(**{**parts, **changes})


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("immediately", {}),
        ("available now", {"availableNow": True}),
        ("available-now", {"availableNow": True}),
        ("availableNow", {"availableNow": True}),
        ("AVAILABLE_NOW", {"availableNow": True}),
        ("10 seconds", {"processingTime": "10 seconds"}),
        ("500 milliseconds", {"processingTime": "500 milliseconds"}),
        ("1 minute 30 seconds", {"processingTime": "1 minute 30 seconds"}),
    ],
)
def test_triggers(text: str, arguments: dict[str, Any]) -> None:
    assert trigger_arguments(text) == arguments
    assert job(trigger=text).trigger_arguments() == arguments


@pytest.mark.parametrize("text", ["once", "continuous", "soon", "10", "seconds", "-1 seconds", ""])
def test_triggers_that_there_are_not(text: str) -> None:
    with pytest.raises(JobError, match=f"trigger {text!r}.*available now"):
        job(trigger=text)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": " "}, "name"),
        ({"checkpoint": ""}, "checkpoint"),
        ({"sources": ()}, "no sources"),
        ({"sources": (Source("a", {}, batch=True),)}, "must be a stream"),
        ({"sources": (Source("a-b", {}),)}, "view's name"),
        ({"sources": (Source("spark", {}),)}, "session"),
        ({"sources": (Source("a", {}), Source("A", {}))}, "one name"),
        ({"query": Query()}, "one of sql"),
        ({"query": Query(sql="SELECT 1", function="a:b")}, "one of sql"),
        ({"query": Query(sql="  ")}, "empty"),
        ({"query": Query(function="a.b.c")}, "module:name"),
        ({"query": Query(function="a:b", args={"x": 1})}, "args"),
        ({"sink": Sink({}, output_mode="upsert")}, "upsert"),
        ({"sink": Sink({}, format="console", output_mode="update")}, "for topics"),
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
    ],
)
def test_what_cannot_be(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(JobError, match=word):
        job(**changes)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(JobError) as caught:
        job(name="", checkpoint="", trigger="soon", sources=())
    assert len(caught.value.problems) == 4


def test_sources_get_brokers_and_a_group_that_shows_their_progress() -> None:
    one = job()
    options = one.source_options(one.sources[0])
    assert options == {"subscribe": "flights", BOOTSTRAP_OPTION: "here:1", "groupId": "delays"}
    assert one.sink_options() == {"topic": "delays", BOOTSTRAP_OPTION: "here:1"}


def test_several_streams_have_a_group_each() -> None:
    two = job(sources=(Source("a", {}), Source("b", {}), Source("c", {}, batch=True)))
    groups = [two.source_options(source).get("groupId") for source in two.sources]
    assert groups == ["delays-a", "delays-b", None]


def test_what_is_named_is_left_as_it_is() -> None:
    given = {"groupid": "mine", "kafka.bootstrap.servers": "there:2"}
    one = job(sources=(Source("a", given),))
    assert one.source_options(one.sources[0]) == given


def test_security_goes_with_the_jobs_own_brokers() -> None:
    security = {"oncelog.security.ca.file": "/ca.pem", "oncelog.security.tls": "true"}
    elsewhere = Source("b", {"bootstrap.servers": "there:2"})
    two = job(security=security, sources=(Source("a", {}), elsewhere))
    assert two.source_options(two.sources[0]).items() >= security.items()
    assert not two.source_options(elsewhere).keys() & security.keys()
    own = {"oncelog.security.ca.file": "/other.pem"}
    merged = job(security=security, sink=Sink(own)).sink_options()
    assert merged.items() >= {**security, **own}.items()


def test_other_formats_get_nothing() -> None:
    one = job(sources=(Source("a", {}, format="rate"),), sink=Sink({}, format="console"))
    assert one.source_options(one.sources[0]) == {}
    assert one.sink_options() == {}
    assert not one.reads_cluster
    assert replace(one, sink=Sink({})).reads_cluster
