"""The compose file carried out: the image is built from the Dockerfile, its services run with their
own commands, environment, users, volumes and rights in network namespaces, with the addresses that
Compose would give. There is no container engine in it; docs/containers.md says what stands in for
what."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.container import Container, Finished
from deploy.network import PREFIX, why_not
from deploy.project import Project, succeeded
from docs.blocks import blocks_of
from docs.transcripts import Names, commands_of, difference
from support.house import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("client_program.py")
INSIDE = "broker-1:9092,broker-2:9092,broker-3:9092"
OUTSIDE = "localhost:19092,localhost:29092,localhost:39092"
BROKERS = ("broker-1", "broker-2", "broker-3")
EXIT_UNHEALTHY = 10
TOKEN = "a token that nobody guesses"


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """The cluster is up and healthy."""
    reason = why_not()
    if reason is not None:
        # Continuous integration is root: there it would be a hole in what is proven.
        assert not (os.environ.get("CI") and os.geteuid() == 0), reason
        pytest.skip(reason)
    running = Project(ROOT, variables={"CONSOLE_TOKEN": TOKEN})
    try:
        running.up()
        idle = replace(running.image, entrypoint=["sleep", "600"])
        running.one_off("client", like="broker-1", image=idle).start()
        yield running
    finally:
        running.close()
        left = [path.name for path in Path("/run/netns").glob(f"{PREFIX}{os.getpid()}-*")]
        assert not left


@pytest.fixture(scope="module")
def prometheus(project: Project) -> Container:
    """Prometheus comes from Debian's package; it starts early, for it scrapes seldom."""
    found = subprocess.run(
        [sys.executable, "tools/get_prometheus.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        assert not os.environ.get("CI"), found.stderr
        pytest.skip(found.stderr.strip())
    return project.start_prometheus(Path(found.stdout.splitlines()[0]))


def on_host(project: Project, *words: str) -> Finished:
    """Run a command in the namespace of the host."""
    assert project.network is not None
    done = subprocess.run(
        ["nsenter", f"--net=/run/netns/{project.network.host}", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def inside(project: Project, topic: str, send: str, expected: int) -> dict[str, Any]:
    """Run a client in a namespace of its own in the cluster's network."""
    source = PROGRAM.read_text(encoding="utf-8")
    words = ["python3", "-c", source, INSIDE, topic, send, str(expected)]
    return told(project, project.containers["client"].execute(words, 90))


def outside(project: Project, topic: str, send: str, expected: int) -> dict[str, Any]:
    """Run a client on the host, in the host's namespace."""
    words = [sys.executable, str(PROGRAM), OUTSIDE, topic, send, str(expected)]
    return told(project, on_host(project, *words))


def told(project: Project, done: Finished) -> dict[str, Any]:
    assert done.code == 0, f"{done.errors}\n{project.logs()}"
    found: dict[str, Any] = json.loads(done.output)
    return found


def test_the_guide(project: Project) -> None:
    """It runs first, while nobody else has made topics."""
    page = "docs/containers.md"
    mine = [b for b in blocks_of(page, (ROOT / page).read_text()) if b.get("elsewhere")]
    for block in mine:
        for command, shown in commands_of(block.text):
            docker, compose, verb, service, *words = shlex.split(command)
            assert (docker, compose, verb) == ("docker", "compose", "exec")
            deadline = time.monotonic() + 15
            # Another broker may hear of a topic a moment later.
            while problem := differs(project.containers[service], words, shown):
                assert time.monotonic() < deadline, f"{block.where}: {command}\n{problem}"
                time.sleep(0.5)
    assert mine


def differs(container: Container, words: list[str], shown: list[str]) -> str:
    return difference(shown, succeeded(container.execute(words)).splitlines(), Names())


@pytest.mark.usefixtures("prometheus")
def test_both_listeners_for_clients_from_two_namespaces(project: Project) -> None:
    first = inside(project, "both", "in-1,in-2", 2)
    second = outside(project, "both", "out-1,out-2", 4)
    third = inside(project, "both", "-", 4)
    assert first["read"] == ["in-1", "in-2"]
    assert second["read"] == third["read"] == ["in-1", "in-2", "out-1", "out-2"]
    assert first["listeners"] == {
        str(number): {
            "internal": [f"broker-{number}", 9091],
            "network": [f"broker-{number}", 9092],
            "external": ["localhost", number * 10_000 + 9092],
        }
        for number in (1, 2, 3)
    }


def test_the_process_and_its_rights(project: Project) -> None:
    broker = project.containers["broker-1"]
    status = succeeded(broker.execute(["cat", "/proc/1/status"]))
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == ["10001"] * 4
    assert facts["Gid"].split() == ["0"] * 4
    assert int(facts["CapBnd"], 16) == int(facts["CapEff"], 16) == 0
    assert facts["NoNewPrivs"] == "1"
    command = succeeded(broker.execute(["cat", "/proc/1/cmdline"]))
    assert "oncelog_broker" in command, "the broker itself is process 1 and hears SIGTERM"
    denied = broker.execute(["touch", "/opt/oncelog/new"])
    assert denied.code != 0
    assert "Read-only file system" in denied.errors
    volume = project.directory / "volumes" / "broker-1"
    assert (volume.stat().st_uid, volume.stat().st_gid) == (10001, 0)
    assert (volume / "data" / "meta.json").exists() or list((volume / "data").iterdir())


def test_loss_of_one_broker(project: Project) -> None:
    lost = project.containers["broker-2"]
    written = ",".join(f"before-{n}" for n in range(20))
    inside(project, "lossy", written, 20)
    # The name server answers nobody who asks for a name that it lacks (``NAME_SERVER``): brokers
    # and clients go on with what they know, and nobody waits for the name of the dead.
    assert project.network is not None
    project.network.unregister("broker-2")
    lost.kill()
    after = ",".join(f"after-{n}" for n in range(20))
    assert len(inside(project, "lossy", after, 40)["read"]) == 40
    last = outside(project, "lossy", "last", 41)
    assert len(set(last["read"])) == 41, "nothing lost, nothing twice"
    for name in ("broker-1", "broker-3"):
        assert project.containers[name].health().code == 0
    lost.start()
    lost.wait_healthy(60)
    wait_whole(project)
    assert len(outside(project, "lossy", "-", 41)["read"]) == 41


def wait_whole(project: Project) -> None:
    """Wait until the cluster itself says that all replicas are back."""
    broker = project.containers["broker-1"]
    words = ["oncelog", "cluster", "health", "--watch", "-e", "--interval", "500ms"]
    succeeded(broker.execute([*words, "--timeout", "60s", "--brokers", "3"], 90))


def test_a_broker_that_is_not_ready_is_not_healthy(project: Project) -> None:
    broker = project.one_off("lonely", like="broker-1")
    # Nobody listens there: it tries for a while, alive and not started.
    broker.environment = {**broker.environment, "ONCELOG_ZOOKEEPER_CONNECT": "client:2181"}
    broker.start()
    deadline = time.monotonic() + 15
    probe = ["oncelog", "broker", "health", "--probe"]
    while broker.execute([*probe, "live"]).code != 0:
        assert time.monotonic() < deadline, broker.log
    assert broker.health().code == EXIT_UNHEALTHY
    assert broker.execute([*probe, "started"]).code == EXIT_UNHEALTHY
    broker.kill()


def test_a_volume_that_cannot_be_written(project: Project) -> None:
    foreign = project.directory / "volumes" / "foreign"
    foreign.mkdir(mode=0o755)  # root's, as of a bind mount that Docker made
    broker = project.one_off("foreign", like="broker-1", volumes={"/var/lib/oncelog": foreign})
    broker.start()
    assert broker.wait(30) == 2
    assert "'/var/lib/oncelog' is not writable for this user" in broker.log
    assert "Traceback" not in broker.log


def test_a_user_that_the_platform_chose(project: Project) -> None:
    volume = project.directory / "volumes" / "chosen"
    broker = project.one_off(
        "chosen", like="broker-1", volumes={"/var/lib/oncelog": volume}, user="1000650000:0"
    )
    broker.environment = {
        **broker.environment,
        "ONCELOG_BROKER_ID": "4",
        "ONCELOG_LISTENERS__INTERNAL__ADVERTISED_HOST": "chosen",
        "ONCELOG_LISTENERS__NETWORK__ADVERTISED_HOST": "chosen",
    }
    broker.start()
    broker.wait_healthy(60)
    assert (volume / "data").stat().st_uid == 1000650000
    assert broker.stop(60) == 0


def test_prometheus_finds_the_brokers(project: Project, prometheus: Container) -> None:
    prometheus.wait_healthy(30)
    question = "http://127.0.0.1:9090/api/v1/query?query=up"
    fetch = (
        f"import urllib.request as r; print(r.urlopen({question!r}, timeout=10).read().decode())"
    )
    deadline = time.monotonic() + 60
    while True:
        answer = json.loads(succeeded(on_host(project, sys.executable, "-I", "-c", fetch)))
        up = {one["metric"]["instance"]: one["value"][1] for one in answer["data"]["result"]}
        if up == {f"{name}:9644": "1" for name in BROKERS}:
            break
        assert time.monotonic() < deadline, f"{up}\n{prometheus.log[-2000:]}"
        time.sleep(0.5)


SIGN_IN = """
import http.client, json, sys, urllib.parse
token, address = sys.argv[1:]
def ask(method, path, **headers):
    connection = http.client.HTTPConnection(address, timeout=20)
    body = headers.pop("body", None)
    connection.request(method, path, body, {key.replace("_", "-"): headers[key] for key in headers})
    answer = connection.getresponse()
    return answer.status, answer.headers.get("set-cookie", "").partition(";")[0], answer.read()
before, _, _ = ask("GET", "/brokers", accept="application/json")
form = urllib.parse.urlencode({"token": token})
entered, cookie, _ = ask("POST", "/sign-in", body=form, origin=f"http://{address}",
    content_type="application/x-www-form-urlencoded")
after, _, page = ask("GET", "/brokers", accept="application/json", cookie=cookie)
elsewhere, _, _ = ask("GET", "/livez", host="console.example:9645")
brokers = len(json.loads(page)["brokers"]) if after == 200 else 0
print(json.dumps([before, entered, after, brokers, elsewhere]))
"""


def test_the_console_shows_the_cluster_to_whoever_knows_the_token(project: Project) -> None:
    console = project.run("console")
    console.start(project.compose.services["console"].command)
    console.wait_healthy(60)
    words = [sys.executable, "-I", "-c", SIGN_IN, TOKEN, "localhost:9645"]
    assert json.loads(succeeded(on_host(project, *words))) == [401, 303, 200, 3, 421]
    words[-2] = "another"
    assert json.loads(succeeded(on_host(project, *words)))[1:4] == [401, 401, 0]
    denied = console.execute(["touch", "/run/secrets/new"])
    assert "Read-only file system" in denied.errors
    assert TOKEN not in succeeded(console.execute(["cat", "/proc/1/cmdline"]))
    assert console.stop(30) == 0


def test_the_cluster_stops_cleanly(project: Project) -> None:
    """It runs last: all brokers stop at once, as with ``docker compose stop``."""
    brokers = [project.containers[name] for name in BROKERS]
    grace_s = min(project.compose.services[name].stop_grace_s for name in BROKERS)
    deadline = time.monotonic() + grace_s / 2
    for broker in brokers:
        broker.signal(signal.SIGTERM)
    codes = {broker.name: broker.wait(deadline - time.monotonic()) for broker in brokers}
    assert codes == dict.fromkeys(BROKERS, 0), project.logs()
    assert not any("Traceback" in broker.log for broker in brokers), project.logs()


# ---- the profile secure: it comes last, when the brokers above have stopped


@pytest.fixture(scope="module")
def secured(project: Project) -> Iterator[Project]:
    """Another cluster of the same image is up and healthy, with the profile secure."""
    running = Project(ROOT, "secure", variables={"SECURITY": "secure"}, image=project.image)
    try:
        running.up()
        yield running
    finally:
        running.close()


def as_admin(project: Project, *words: str) -> str:
    """Do ``docker compose run --rm admin`` and some words; return what is shown."""
    container = project.run("admin")
    shutil.rmtree(container.directory, ignore_errors=True)
    container.start(words)
    code = container.wait(60)
    assert code == 0, f"{words}: {container.log}\n{project.logs()}"
    return container.log


def test_the_admin_may_do_everything(secured: Project) -> None:
    as_admin(secured, "topics", "create", "orders", "--partitions", "3")
    assert "orders" in as_admin(secured, "topics", "list")
    assert "User:admin" in as_admin(secured, "whoami")
    as_admin(secured, "cluster", "health")


def test_who_does_not_say_who_he_is_is_refused(secured: Project) -> None:
    broker = secured.containers["broker-1"]
    words = ["oncelog", "topics", "list", "--bootstrap"]
    trusting = ["-X", "ca_file=/etc/oncelog/tls/ca.pem"]
    done = broker.execute([*words, INSIDE, *trusting])
    assert done.code == 1
    assert "the brokers want to know who asks" in done.errors
    done = broker.execute([*words, INSIDE.replace("9092", "9091"), *trusting])
    assert done.code == 1
    assert "wants a certificate of this side" in done.errors
    assert broker.execute([*words, INSIDE]).code == 1, "nobody is served in the open"


def test_a_client_on_this_machine_has_a_user(secured: Project) -> None:
    folder = secured.directory / "volumes" / "tls-admin"
    options = {
        "ca_file": folder / "ca.pem",
        "username": "admin",
        "password_file": folder / "admin.password",
    }
    words = [part for name, value in options.items() for part in ("-X", f"{name}={value}")]
    command = ["-m", "oncelog_cli", "topics", "list", "--bootstrap", OUTSIDE]
    assert "orders" in succeeded(on_host(secured, sys.executable, *command, *words))


def test_who_has_which_keys(secured: Project) -> None:
    volumes = secured.directory / "volumes"
    for number in (1, 2, 3):
        own = {path.name: path.stat() for path in (volumes / f"tls-{number}").iterdir()}
        assert own.keys() == {"broker.pem", "broker.key", "ca.pem"}
        assert own["broker.key"].st_mode & 0o777 == 0o600
        assert own["broker.key"].st_uid == 10001
    assert {p.name for p in (volumes / "tls-admin").iterdir()} == {"ca.pem", "admin.password"}
    denied = secured.containers["broker-1"].execute(["touch", "/etc/oncelog/tls/new"])
    assert "Read-only file system" in denied.errors


def test_certificates_are_renewed_beside_running_brokers(secured: Project) -> None:
    place = secured.directory / "volumes" / "tls-2" / "broker.pem"
    before = place.read_bytes()
    again = secured.run("certificates")
    again.start(["renew"])
    assert again.wait(60) == 0, again.log
    assert place.read_bytes() != before
    assert "orders" in as_admin(secured, "topics", "list")


def test_the_profile_alone_secures_nothing_and_says_so(project: Project) -> None:
    lonely = project.run("certificates")
    lonely.start()
    assert lonely.wait(60) == 1
    assert "needs SECURITY=secure as well" in lonely.log
