"""Options of security name files and variables, never a secret, and are read where clients are."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from oncelog import Security
from oncelog_protocol.sasl.credential import Mechanism
from pipeline.spark_task import SCHEMA, beside, carried, rows, sink_options, spark_task
from pyspark_oncelog import connections, questions
from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.security_options import parse_security
from pyspark_oncelog.sink_options import SinkOptions
from pyspark_oncelog.stream_writer import StreamWriter
from support.client_papers import ClientPapers
from support.fake_cluster import FakeCluster, committed_of
from support.fake_security import FakeSecurity

SERVERS = {"oncelog.bootstrap.servers": "a:9092"}
SECRET = "s3cret"


@pytest.fixture
def papers(tmp_path: Path) -> ClientPapers:
    return ClientPapers(tmp_path / "papers")


# ---- what is said ------------------------------------------------------------------------------


def test_nothing_is_said() -> None:
    assert parse_security({"subscribe": "t", "oncelog.client.id": "x"}, "a:1") is None
    assert parse_security({"kafka.security.protocol": "PLAINTEXT"}, "a:1") is None


def test_our_names() -> None:
    found = parse_security(
        {
            "oncelog.security.ca.file": "/etc/ca.pem",
            "oncelog.security.server.name": "x.org",
            "oncelog.security.username": "app",
            "oncelog.security.password.file": "/etc/password",
        },
        "a:1",
    )
    assert found is not None
    assert dict(found.settings) == {
        "ca_file": "/etc/ca.pem",
        "server_name": "x.org",
        "username": "app",
        "password_file": "/etc/password",
    }
    assert {found: 1}[pickle.loads(pickle.dumps(found))] == 1


def test_kafkas_names() -> None:
    found = parse_security(
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/etc/ca.pem",
            "kafka.ssl.endpoint.identification.algorithm": "https",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.username": "app",
            "oncelog.security.password.env": "APP_PASSWORD",
        },
        "a:1",
    )
    assert found is not None
    assert dict(found.settings) == {
        "tls": True,
        "ca_file": "/etc/ca.pem",
        "mechanism": "SCRAM-SHA-512",
        "username": "app",
    }
    assert found.variables == (("password", "APP_PASSWORD"),)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"oncelog.security.password": SECRET}, "query plan.*oncelog.security.password.file"),
        ({"kafka.sasl.password": SECRET}, "query plan.*oncelog.security.password.env"),
        ({"kafka.security.password": SECRET}, "query plan"),
        ({"oncelog.security.token": SECRET}, "query plan.*oncelog.security.token.env"),
        ({"kafka.sasl.jaas.config": f"password={SECRET}"}, "query plan"),
        ({"kafka.ssl.key.password": SECRET}, "key_password_file"),
        ({"kafka.ssl.keystore.key": SECRET}, "into a file"),
        ({"kafka.ssl.truststore.location": "/x.jks"}, "ssl.truststore.type=PEM"),
        ({"kafka.ssl.truststore.password": SECRET}, "key stores are not read"),
        ({"kafka.ssl.protocol": "TLSv1.3"}, "kafka.ssl.protocol: there is no such option"),
        ({"oncelog.security.cafile": "/x"}, "did you mean oncelog.security.ca.file"),
        ({"oncelog.security.ssl_context": "x"}, "no such option of security"),
        ({"oncelog.security.password.env": "A=B", "oncelog.security.username": "a"}, "name of a"),
        ({"oncelog.security.username": "app"}, "username without a password"),
        ({"oncelog.security.password.env": "P"}, "password without username"),
        (
            {"kafka.sasl.username": "a", "oncelog.security.password.env": "P",
             "kafka.sasl.mechanism": "PLAIN"},
            "needs TLS",
        ),
        ({"kafka.sasl.username": "a", "oncelog.sasl.username": "b"}, "given twice"),
    ],
)  # fmt: skip
def test_what_is_refused_has_a_way_to_go(options: dict[str, str], said: str) -> None:
    for parse in (SourceOptions.parse, SinkOptions.parse):
        given = {**SERVERS, **options, "subscribe": "t"}
        with pytest.raises(OptionError, match=said) as caught:
            parse(given)
        assert SECRET not in str(caught.value)


def test_a_url_says_it_too() -> None:
    servers = "oncelogs://app@a:1?ca_file=/c&password_file=/p"
    assert parse_security({}, servers) is None
    with pytest.raises(OptionError, match="say it once"):
        parse_security({"oncelog.security.ca.file": "/c"}, servers)
    with pytest.raises(OptionError, match="a URL with a password") as caught:
        SourceOptions.parse({"subscribe": "t", "bootstrap.servers": f"oncelogs://a:{SECRET}@b"})
    assert SECRET not in str(caught.value)


# ---- where clients are -------------------------------------------------------------------------


def test_a_file_that_is_not_here_is_named_with_its_machine(tmp_path: Path) -> None:
    found = parse_security({"oncelog.security.ca.file": str(tmp_path / "ca.pem")}, "a:1")
    assert found is not None
    with pytest.raises(OptionError, match=r"ca\.pem is not there on .* \(the driver\)"):
        found.here()
    with spark_task(), pytest.raises(OptionError, match=r"\(an executor\).* every executor"):
        found.here()
    (tmp_path / "ca.pem").touch()
    assert found.here() == Security(ca_file=str(tmp_path / "ca.pem"))


def test_a_variable_is_read_where_the_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"oncelog.security.username": "app", "oncelog.security.password.env": "APP_PASSWORD"}
    found = parse_security(options, "a:1")
    assert found is not None
    with pytest.raises(OptionError, match="the variable APP_PASSWORD is not set on"):
        found.here()
    monkeypatch.setenv("APP_PASSWORD", SECRET)
    assert found.here() == Security(username="app", password=SECRET)
    assert SECRET.encode() not in pickle.dumps(found)


# ---- both ways ---------------------------------------------------------------------------------


async def test_the_driver_and_tasks_say_who_they_are(
    papers: ClientPapers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_PASSWORD", SECRET)
    security: dict[str, Any] = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.location": papers.ca_file,
        "kafka.sasl.username": "app",
        "oncelog.security.password.env": "APP_PASSWORD",
    }
    async with FakeCluster(1, tls=papers.server()) as cluster:
        cluster.create_topic("t")
        cluster.security = FakeSecurity(Mechanism.SCRAM_SHA_256)
        cluster.security.passwords["app"] = SECRET

        def work() -> None:
            given = {"bootstrap.servers": cluster.bootstrap, "subscribe": "t", **security}
            source = SourceOptions.parse(given)
            topics = connections.call(questions.find_topics, source)
            ends = connections.call(questions.latest, source, topics.partitions)
            assert list(ends.values()) == [0]
            writer = carried(StreamWriter(sink_options(cluster.bootstrap, **security), SCHEMA))
            writer = carried(writer)
            with spark_task():
                message = writer.write(iter([rows(b"v")]))
            writer.commit([message], 0)

        await beside(work)
        assert set(cluster.security.authenticated) == {"app"}
        assert committed_of(cluster, "t") == [b"v"]
