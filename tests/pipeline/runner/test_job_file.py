"""A job.toml has a meaning, or an error says what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_oncelog.runner.job import FORMAT, JobError, Watermark
from pyspark_oncelog.runner.job_file import job_from, load_job, option_text
from support.house import ROOT

WHOLE = """
name = "totals"
bootstrap_servers = ["one:1", "two:2"]
checkpoint = "state"
trigger = "10 seconds"

[sources.flights]
subscribe = ["flights", "more-flights"]
starting_offsets = "earliest"
maxOffsetsPerTrigger = 25_000
failOnDataLoss = false
"oncelog.client.id" = "x_y"
select = ["CAST(value AS STRING) AS text", "timestamp"]
watermark = { column = "timestamp", delay = "1 hour" }

[sources.airports]
format = "csv"
batch = true
path = "/data/air_ports.csv"
header = true
schema = "code STRING, name STRING"

[query]
sql_file = "totals.sql"
args = { least = 3 }

[sink]
topic = "totals"
key = ["code", "day"]
output_mode = "append"

[spark]
master = "local[4]"
py_files = ["helpers.py", "hdfs:///libs/more.zip"]
log_level = "WARN"

[spark.conf]
spark.sql.shuffle.partitions = 8
"spark.executor.memory" = "4g"
"""

SMALL: dict[str, Any] = {
    "name": "small",
    "checkpoint": "state",
    "sources": {"a": {"subscribe": "t"}},
    "query": {"sql": "SELECT * FROM a"},
    "sink": {"topic": "u"},
}


def test_a_file_with_everything(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(WHOLE)
    (tmp_path / "totals.sql").write_text("SELECT 1")
    job = load_job(tmp_path / "job.toml")
    flights, airports = job.sources
    assert job.name == "totals"
    assert job.bootstrap_servers == "one:1,two:2"
    assert job.checkpoint == str(tmp_path / "state")
    assert flights.options == {
        "subscribe": "flights,more-flights",
        "startingoffsets": "earliest",
        "maxOffsetsPerTrigger": "25000",
        "failOnDataLoss": "false",
        "oncelog.client.id": "x_y",
    }
    assert flights.select == ("CAST(value AS STRING) AS text", "timestamp")
    assert flights.watermark == Watermark("timestamp", "1 hour")
    assert airports.batch
    assert airports.options == {"path": "/data/air_ports.csv", "header": "true"}
    assert airports.schema == "code STRING, name STRING"
    assert job.query.sql == "SELECT 1"
    assert job.query.args == {"least": 3}
    assert job.sink.key == ("code", "day")
    assert job.sink.options == {"topic": "totals"}
    assert job.spark.master == "local[4]"
    assert job.spark.py_files == (str(tmp_path / "helpers.py"), "hdfs:///libs/more.zip")
    assert job.spark.conf == {
        "spark.sql.shuffle.partitions": "8",
        "spark.executor.memory": "4g",
    }


def test_security_has_a_table_of_its_own() -> None:
    security = {"ca_file": "tls/ca.pem", "username": "app", "password_env": "APP", "tls": True}
    assert job_from({**SMALL, "security": security}, directory="/jobs").security == {
        "oncelog.security.ca.file": "/jobs/tls/ca.pem",
        "oncelog.security.username": "app",
        "oncelog.security.password.env": "APP",
        "oncelog.security.tls": "true",
    }


def test_the_file_names_the_job(tmp_path: Path) -> None:
    path = tmp_path / "copy.toml"
    path.write_text(
        'checkpoint = "s"\n[sources.a]\nsubscribe = "t"\n[query]\nsql = "SELECT * FROM a"\n'
        '[sink]\ntopic = "u"\n'
    )
    assert load_job(str(path)).name == "copy"


def test_the_same_from_python() -> None:
    def query(a: Any) -> Any:
        return a

    job = job_from({**SMALL, "query": {"function": query}}, directory="/jobs")
    assert job.query.function is query
    assert job.checkpoint == "/jobs/state"
    assert job_from({**SMALL, "sink": {"topic": "u", "key": "k"}}).sink.key == ("k",)


@pytest.mark.parametrize("place", ["/var/state", "s3a://bucket/state", "hdfs:/state"])
def test_places_that_are_not_relative_stay(place: str) -> None:
    assert job_from({**SMALL, "checkpoint": place}, directory="/jobs").checkpoint == place


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoints": "x"}, "'checkpoints' is not known: did you mean 'checkpoint'"),
        ({"zzz": 1}, "there are name, bootstrap_servers"),
        ({"name": 3}, "name must be text"),
        ({"security": "tls"}, "security must be a table"),
        ({"security": {"ca_file": [1]}}, r"\[security\] ca_file has a value"),
        ({"name": None}, "name is missing"),
        ({"checkpoint": None}, "checkpoint is missing"),
        ({"sources": {"a": 1}}, r"\[sources.a\] must be a table"),
        ({"sources": {"a": {"batch": "yes"}}}, r"\[sources.a\] batch must be true or false"),
        ({"sources": {"a": {"watermark": "1 hour"}}}, r"\[sources.a\] watermark must be"),
        ({"sources": {"a": {"subscribe": [1]}}}, r"\[sources.a\] subscribe has a value"),
        ({"sources": []}, "sources must be a table"),
        ({"query": None}, r"\[query\] is missing"),
        ({"query": {"sql": "S", "sql_file": "f"}}, "both sql and sql_file"),
        ({"query": {"sql_file": "nowhere.sql"}}, "nowhere.sql cannot be read: No such file"),
        ({"query": {"sql": "S", "spl_file": "f"}}, "did you mean 'sql_file'"),
        ({"query": {"function": 3}}, "module:name"),
        ({"sink": None}, r"\[sink\] is missing"),
        ({"sink": {"topic": "u", "key": 3}}, r"\[sink\] key must be a list"),
        ({"spark": {"conf": 3}}, "conf must be a table"),
        ({"spark": {"mister": "local"}}, "did you mean 'master'"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], words: str) -> None:
    document = {key: value for key, value in {**SMALL, **changes}.items() if value is not None}
    with pytest.raises(JobError, match=words):
        job_from(document)


def test_problems_of_the_file_and_of_the_job_come_together(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('checkpoint = "s"\ntriger = "x"\ntrigger = "soon"\n[query]\n[sink]\n')
    with pytest.raises(JobError) as caught:
        load_job(path)
    text = str(caught.value)
    assert all(line.startswith(f"{path}: ") for line in text.splitlines())
    assert all(word in text for word in ("'triger'", "trigger 'soon'", "no sources", "one of sql"))


@pytest.mark.parametrize(
    ("content", "word"), [(None, "No such file"), (b"\xff", "utf-8"), (b"a = ", "is not TOML")]
)
def test_files_that_are_none(content: bytes | None, word: str, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JobError, match=word):
        load_job(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (True, "true"),
        (3, "3"),
        (0.5, "0.5"),
        (["a", "b"], "a,b"),
        ({"t": {"0": -2}}, '{"t":{"0":-2}}'),
    ],
)
def test_options_are_text(value: Any, text: str) -> None:
    assert option_text(value) == text


def test_the_guides_jobs_are_jobs(tmp_path: Path) -> None:
    from pyspark_oncelog.options import SourceOptions
    from pyspark_oncelog.sink_options import SinkOptions

    guide = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "delays.sql").write_text("SELECT 1")
    for block in blocks:
        job = job_from(tomllib.loads(block), directory=tmp_path, name="shout")
        job = replace(job, bootstrap_servers="here:1")
        for source in job.sources:
            if source.format == FORMAT:
                parsed = SourceOptions.parse(job.source_options(source), streaming=True)
                assert parsed.bootstrap_servers == "here:1"
        assert SinkOptions.parse(job.sink_options()).topic


def test_the_guide_knows_every_option() -> None:
    from pyspark_oncelog.options import NAMES

    guide = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    internal = {"fetchOffset.numRetries", "fetchOffset.retryIntervalMs"}  # taken, and not needed
    assert [
        name for name in NAMES.values() if f"`{name}`" not in guide and name not in internal
    ] == []
