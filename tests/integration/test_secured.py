"""``oncelog up --secure``: one command, and then nobody is served who is not known."""

from __future__ import annotations

import asyncio
import http.client
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer as KafkaProducer
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from oncelog_cli.local import secured
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.profiles import load_profiles, save_profiles
from support.http_get import get
from support.shell import Shown, oncelog
from support.waiting import in_thread

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cluster goes here, and profiles beside it; no process survives the test."""
    use_profiles(tmp_path / "mine", monkeypatch)
    for name in ("ONCELOG_PROFILE", "ONCELOG_OPTIONS", "ONCELOG_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "secured"
    yield place
    if (place / "cluster.json").exists():
        cluster = LocalCluster.load(place)
        for broker in cluster.brokers.values():
            broker.kill()
        assert cluster.zookeeper is not None
        cluster.zookeeper.kill()
        cluster.console.stop()


def use_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))


def logs_of(directory: Path) -> str:
    return "".join(path.read_text() for path in directory.glob("*/*.log"))


def rename_profile(name: str, to: str) -> None:
    profiles = load_profiles()
    known = profiles.named(name)
    save_profiles(profiles.without(name).with_profile(to, known).used(to))


async def done(*arguments: str, stdin: bytes = b"") -> Shown:
    """Run a command, which must succeed."""
    shown = await oncelog(*arguments, stdin=stdin)
    assert shown.code == 0, shown.err
    return shown


async def check_use() -> None:
    """Everything works by the profile: no command says where the cluster is, or who this is."""
    await done("topics", "create", "orders", "-p", "2", "-r", "2")
    await done("produce", "orders", stdin=b"tea\nmilk\njam\n")
    await done("produce", "orders", "--transactional-id", "t", stdin=b"all\n")
    shown = await done("consume", "orders", "--group", "g", "--from-beginning", "--until-end")
    assert sorted(shown.out.split()) == ["all", "jam", "milk", "tea"]
    shown = await done("groups", "list", "--json")
    assert [each["group"] for each in shown.document["groups"]] == ["g"]


async def check_looks(started: dict[str, Any], directory: Path) -> None:
    """Who looks at the cluster sees it: status, health, metrics, and its certificates."""
    place = ("--dir", str(directory))
    assert (await done("status", *place, "--json")).document["profile"] == "secured"
    assert (await done("cluster", "health", "--json")).document["status"] == "ok"
    first = started["processes"][1]
    await done("broker", "health", "--address", first["http"])
    host, _, port = first["http"].partition(":")
    answer = await get((host, int(port)), "/metrics")
    assert "oncelog_" in answer.text
    ca = str(directory / "tls" / "ca.pem")
    shown = await done("tls", "check", first["address"], "--ca", ca, "--json")
    assert shown.document["certificates"][0]["user"] == "User:broker-1"


def signed_in(address: str, **form: str) -> set[str]:
    """Sign in to the console with a form; return the names of the topics that it shows then."""
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    try:
        sent = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{address}"}
        connection.request("POST", "/sign-in", urlencode(form), sent)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 303:
            return set()
        cookie = str(answer.getheader("set-cookie")).partition(";")[0]
        connection.request("POST", "/refresh", "back=/topics", {**sent, "Cookie": cookie})
        connection.getresponse().read()
        connection.request(
            "GET", "/topics", headers={"Accept": "application/json", "Cookie": cookie}
        )
        return {each["topic"] for each in json.loads(connection.getresponse().read())["topics"]}
    finally:
        connection.close()


async def check_console(started: dict[str, Any], directory: Path) -> None:
    """The console shows the cluster to whoever has its token, and to users with their passwords."""
    (console,) = [each for each in started["processes"] if each["name"] == "console"]
    token = (directory / "console" / "token").read_text().strip()
    password = secured.password_file(directory).read_text().strip()
    assert await in_thread(signed_in, console["address"], token="a guess") == set()
    assert await in_thread(signed_in, console["address"], username="admin", password="x") == set()
    await shown_to(console["address"], "orders", token=token)
    await shown_to(console["address"], "orders", username="admin", password=password)


async def shown_to(address: str, topic: str, **form: str) -> None:
    """Wait until the console, which looks now and then, shows a topic to whoever signs in so."""
    async with asyncio.timeout(60):
        while topic not in await in_thread(signed_in, address, **form):
            await asyncio.sleep(0.5)


async def check_refusals(started: dict[str, Any], directory: Path) -> None:
    """Who is not known is told what is missing; who is known has no rights by that."""
    tls, bootstrap = directory / "tls", started["bootstrap"]
    shown = await oncelog("topics", "list", "-X", "request_timeout_ms=5000", bootstrap=bootstrap)
    assert (shown.code, shown.out) == (1, "")
    shown = await oncelog("topics", "list", "-X", "tls=true", bootstrap=bootstrap)
    assert shown.code == 1
    assert "not signed by a trusted CA" in shown.err
    ca = ("-X", f"ca_file={tls / 'ca.pem'}")
    shown = await oncelog("topics", "list", *ca, bootstrap=bootstrap)
    assert (shown.code, shown.out) == (1, "")
    assert "with a user" in shown.err
    wrong = directory / "wrong"
    wrong.write_text("a guess")
    wrong.chmod(0o600)
    user = ("-X", "username=admin", "-X", f"password_file={wrong}")
    shown = await oncelog("topics", "list", *ca, *user, bootstrap=bootstrap)
    assert shown.code == 1
    assert "authentication" in shown.err


async def check_a_user(started: dict[str, Any], directory: Path) -> None:
    """A user without rights sees nothing, and has those afterwards that it is given."""
    password = directory / "app.password"
    password.write_text("a long password")
    password.chmod(0o600)
    await done("users", "add", "app", "--password-file", str(password))
    user = ("-X", "username=app", "-X", f"password_file={password}")
    ca = ("-X", f"ca_file={directory / 'tls' / 'ca.pem'}")
    server = ("--server", started["bootstrap"])
    await done("profile", "create", "app", *server, *ca, *user)
    by = ("--profile", "app")
    assert (await done("topics", "list", *by, "--json")).document["topics"] == []
    shown = await oncelog("produce", "orders", *by, stdin=b"beer\n")
    assert shown.code == 1
    shown = await oncelog("topics", "create", "own", *by)
    assert shown.code == 1
    assert "may not" in shown.err
    explain = ("acls", "explain", "User:app", "WRITE", "topic:orders")
    shown = await oncelog(*explain)
    assert "denied" in shown.out
    await done("acls", "add", "--allow", "User:app", "--producer", "--topic", "orders")
    await done("produce", "orders", *by, stdin=b"beer\n")
    assert "allowed" in (await done(*explain)).out
    consume = ("consume", "orders", "--group", "app", "--from-beginning", "--until-end", *by)
    assert (await oncelog(*consume)).code == 1
    group = ("--consumer", "--topic", "orders", "--group", "app")
    await done("acls", "add", "--allow", "User:app", *group)
    assert "beer" in (await done(*consume)).out.split()


def check_zookeeper(connect: str) -> None:
    """Whoever is no broker sees nothing of what brokers keep, and cannot become controller."""
    address, slash, chroot = connect.partition("/")
    root = slash + chroot
    client = KazooClient(address)
    client.start()
    try:
        for path in (root, f"{root}/security", f"{root}/security/users", f"{root}/controller"):
            with pytest.raises(NoAuthError):
                client.get(path)
            with pytest.raises(NoAuthError):
                client.get_children(path)
        with pytest.raises(NoAuthError):
            client.delete(f"{root}/controller")
        with pytest.raises(NoAuthError):
            client.create(f"{root}/brokers/ids/9", b"")
    finally:
        client.stop()
        client.close()


async def check_kafka(started: dict[str, Any], directory: Path) -> None:
    """Write a record as the admin, by a client of Kafka; read it by ours."""
    await done("topics", "create", "foreign", "-p", "1", "-r", "2")
    settings = {
        "bootstrap.servers": started["kafka_bootstrap"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.tls_directory(directory) / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": secured.ADMIN,
        "sasl.password": secured.password_file(directory).read_text().strip(),
    }
    await in_thread(produce_by_kafka, settings, "foreign", b"coffee")
    shown = await done("consume", "foreign", "--from-beginning", "--until-end")
    assert shown.out.split() == ["coffee"]


def produce_by_kafka(settings: dict[str, Any], topic: str, value: bytes) -> None:
    """Produce one record by confluent-kafka, as soon as the brokers take what it writes."""
    producer = KafkaProducer(settings)
    told: list[Any] = []
    while not told or told[-1] is not None:
        assert len(told) < 100, told[-1]
        producer.produce(topic, value, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(30) == 0


async def test_a_secured_cluster_from_nothing_to_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--dir", str(directory))
    started = (
        await done("up", *place, "--secure", "--kafka", "--console", "-n", "2", "--json")
    ).document
    assert (started["secure"], started["profile"]) == (True, "secured")
    await check_use()
    await check_console(started, directory)
    await check_kafka(started, directory)
    await check_looks(started, directory)
    use_profiles(tmp_path / "others", monkeypatch)
    await check_refusals(started, directory)
    use_profiles(tmp_path / "mine", monkeypatch)
    password = secured.password_file(directory)
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    secret = password.read_text().strip()
    await check_a_user(started, directory)
    await in_thread(check_zookeeper, started["zookeeper"])
    for_zookeeper = secured.zookeeper_password_file(directory).read_text().strip()

    assert (await done("down", *place, "--json")).document["clean"]
    again = (await done("up", *place, "--json")).document  # it stays secured
    assert (again["secure"], again["bootstrap"]) == (True, started["bootstrap"])
    assert password.read_text().strip() == secret
    shown = await done("consume", "orders", "--from-beginning", "--until-end")
    assert sorted(shown.out.split()) == ["all", "beer", "jam", "milk", "tea"]
    assert secret not in logs_of(directory)
    assert for_zookeeper not in logs_of(directory)
    assert "zookeeper_root_open" not in logs_of(directory)

    rename_profile("secured", "renamed")
    grown = (await done("up", *place, "-n", "3", "--json")).document
    assert (grown["profile"], len(grown["processes"])) == ("renamed", 5)
    await done("topics", "create", "wide", "-p", "1", "-r", "3")
    await done("down", *place, "--delete", "--yes")
    left = (await done("profile", "list", "--json")).document["profiles"]
    assert [each["profile"] for each in left] == ["app"]
    assert not password.exists()
    assert not LocalCluster(directory).state_path.exists()
