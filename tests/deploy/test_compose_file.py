"""docker-compose.yml: by the Compose specification's schema, by the broker's settings, and by what
the Dockerfile and the monitoring files say, for these have to agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from deploy.compose_file import Compose, Service, load
from deploy.dockerfile import parse
from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.config.sources import load as load_settings
from support.house import ROOT

BROKERS = ("broker-1", "broker-2", "broker-3")
COMPOSE = load(ROOT / "docker-compose.yml")
SECURED = load(ROOT / "docker-compose.yml", {"SECURITY": "secure"})
IMAGE = parse(ROOT / "Dockerfile")[-1]
SCHEMA = json.loads(Path(__file__).with_name("compose-spec.json").read_text(encoding="utf-8"))


def image_environment() -> dict[str, str]:
    found: dict[str, str] = {}
    for instruction in IMAGE.instructions:
        if instruction.keyword == "ENV":
            found |= instruction.pairs()
    return found


def settings(service: Service, **changes: str) -> BrokerConfig:
    """Return what a broker makes of the environment that its service has in a container."""
    environment = {**image_environment(), **service.environment, **changes}
    loaded = load_settings(None, environment=environment)
    assert not loaded.ignored, "variables that are no settings"
    return loaded.config


def mistakes(document: Any) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in Draft7Validator(SCHEMA).iter_errors(document)]


# ---- the schema


@pytest.mark.parametrize("compose", [COMPOSE, SECURED])
def test_the_file_is_valid(compose: Compose) -> None:
    assert not mistakes(compose.document)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.update(service=document.pop("services")),
        lambda document: document["services"]["broker-1"].update(healtcheck={}),
        lambda document: document["services"]["broker-1"].update(ports=[{"published": []}]),
        lambda document: document["services"]["broker-1"].update(read_only=[]),
        lambda document: document["services"]["zookeeper"]["healthcheck"].update(test=7),
        lambda document: document["services"]["broker-1"]["depends_on"]["zookeeper"].clear(),
        lambda document: document["volumes"].update({"broker-1": {"drivr": "local"}}),
    ],
)
def test_the_schema_notices(spoil: Callable[[Any], object]) -> None:
    document = copy.deepcopy(COMPOSE.document)
    spoil(document)
    assert mistakes(document)


# ---- the settings


def test_each_broker_has_settings_that_hold() -> None:
    found = {name: settings(COMPOSE.services[name]) for name in BROKERS}
    assert [config.broker_id for config in found.values()] == [1, 2, 3]
    for name, config in found.items():
        assert config.zookeeper_connect.startswith("zookeeper:2181")
        assert config.inter_broker_listener == "internal"
        internal, network = config.listener("internal"), config.listener("network")
        external = config.listener("external")
        for own in (internal, network):
            assert (own.host, own.advertised_host) == ("0.0.0.0", name)
        assert (internal.port, network.port) == (9091, 9092)
        assert (external.host, external.advertised_host) == ("0.0.0.0", "localhost")
        assert config.min_insync_replicas == 2
        assert config.default_replication_factor == 3


def test_a_misspelt_setting_would_be_noticed() -> None:
    with pytest.raises(ConfigError, match="ONCELOG_MIN_INSYNC_REPLICAS"):
        settings(COMPOSE.services["broker-1"], ONCELOG_MIN_INSYNC_REPLICA="2")


def test_what_is_published_is_what_is_advertised() -> None:
    published = []
    for name in BROKERS:
        service = COMPOSE.services[name]
        config = settings(service)
        ((address, host_port, container_port),) = service.ports
        external = config.listener("external")
        assert container_port == external.port
        assert host_port == (external.advertised_port or external.port)
        assert address == "127.0.0.1", "without a word from the user, this machine only"
        published.append(host_port)
    assert len(set(published)) == len(BROKERS)


def test_addresses_for_elsewhere() -> None:
    given = {"PUBLISH_ADDRESS": "0.0.0.0", "ADVERTISED_HOST": "logs.example.net"}
    service = load(ROOT / "docker-compose.yml", given).services["broker-2"]
    assert service.ports[0][0] == "0.0.0.0"
    name = "ONCELOG_LISTENERS__EXTERNAL__ADVERTISED_HOST"
    assert service.environment[name] == "logs.example.net"


def test_clients_do_not_use_the_listener_between_brokers() -> None:
    ports = {name: settings(COMPOSE.services[name]).listener("network").port for name in BROKERS}
    expected = ",".join(f"{name}:{port}" for name, port in ports.items())
    for name in (*BROKERS, "admin", "console"):
        assert COMPOSE.services[name].environment["ONCELOG_BOOTSTRAP"] == expected


# ---- the profile secure


def test_a_secured_broker_speaks_tls_on_every_listener_and_asks_who_is_there() -> None:
    for name in BROKERS:
        config = settings(SECURED.services[name])
        assert (config.authorizer, config.super_users) == ("acl", ["User:admin"])
        assert [each.name for each in config.listeners] == ["internal", "external", "network"]
        for listener in config.listeners:
            between = listener.name == config.inter_broker_listener
            assert (listener.tls_client_auth == "required") is between
            assert bool(listener.sasl_mechanisms) is not between
            for path in (listener.tls_certificate_file, listener.tls_key_file):
                assert path is not None
                assert path.startswith("/etc/oncelog/tls/broker.")
        assert "certificates" in SECURED.services[name].depends_on


def test_who_has_which_keys() -> None:
    """Each broker has a volume of its own, the admin's is the console's too, and only one service
    has the CA's key."""
    having: dict[str, list[str]] = {}
    for service in SECURED.services.values():
        for source, _, read_only in service.volumes:
            if source.startswith(("tls-", "authority")):
                having.setdefault(source, []).append(service.name)
                assert read_only is (service.name != "certificates")
    assert having == {
        "authority": ["certificates"],
        "tls-1": ["broker-1", "certificates"],
        "tls-2": ["broker-2", "certificates"],
        "tls-3": ["broker-3", "certificates"],
        "tls-admin": ["certificates", "admin", "console"],
    }


def test_the_admin_has_a_password() -> None:
    options = SECURED.services["admin"].environment["ONCELOG_OPTIONS"].split()
    assert SECURED.services["console"].environment["ONCELOG_OPTIONS"].split() == options
    assert "ONCELOG_OPTIONS" not in COMPOSE.services["console"].environment
    assert [option.partition("=")[0] for option in options] == [
        "ca_file",
        "username",
        "password_file",
    ]


# ---- the profile console


def test_the_console_is_for_this_machine_and_whoever_knows_the_token() -> None:
    service = COMPOSE.services["console"]
    assert service.profiles == ("console",)
    assert service.ports == (("127.0.0.1", 9645, 9645),)
    assert service.secrets == {"console": "CONSOLE_TOKEN"}
    assert "--token-file=/run/secrets/console" in service.command
    assert "--allowed-host=localhost" in service.command
    assert "--allow-changes" not in service.command
    assert set(service.depends_on.values()) == {"service_healthy"}
    assert set(service.depends_on) == set(BROKERS)


# ---- structure


def test_start_order_waits_for_health() -> None:
    assert COMPOSE.services["zookeeper"].healthcheck is not None
    for name in BROKERS:
        assert COMPOSE.services[name].depends_on == {
            "zookeeper": "service_healthy",
            "certificates": "service_completed_successfully",
        }
        assert COMPOSE.services[name].may_lack == {"certificates"}
    assert [service.name for service in COMPOSE.started()] == ["zookeeper", *BROKERS]
    secured = [service.name for service in SECURED.started("secure")]
    assert secured == ["zookeeper", "certificates", *BROKERS]
    monitored = [service.name for service in COMPOSE.started("monitoring")]
    assert monitored[4:] == ["prometheus", "grafana"]


def test_data_is_on_named_volumes() -> None:
    (data,) = IMAGE.last("VOLUME").words()
    used = []
    for service in COMPOSE.services.values():
        for source, _, _ in service.volumes:
            if source.startswith("."):
                assert (ROOT / source).is_dir(), f"{service.name}: {source} is not there"
            else:
                used.append(source)
        if service.name in BROKERS:
            assert service.volumes[0][1] == data
    assert set(used) == COMPOSE.volumes, "each is used, and declared"
    own = [source for source in used if not source.startswith("tls-")]
    assert len(own) == len(set(own)), "of those with data each is used once"


def test_brokers_have_no_more_rights_than_they_need() -> None:
    for name in BROKERS:
        service = COMPOSE.services[name]
        assert service.read_only
        assert service.no_new_privileges
        assert service.cap_drop == ("ALL",)
        assert service.tmpfs == ("/tmp",)
        assert service.stop_grace_s >= 30, "a clean stop moves leadership and syncs"
    for name in ("certificates", "admin", "console"):
        service = COMPOSE.services[name]
        assert service.read_only
        assert service.no_new_privileges
        assert service.cap_drop == ("ALL",)
    assert COMPOSE.services["certificates"].cap_add == ("CHOWN",), "it gives files away"
    assert COMPOSE.services["admin"].cap_add == ()


def test_images_are_pinned() -> None:
    for service in COMPOSE.services.values():
        name, _, tag = service.image.partition("@")[0].rpartition(":")
        assert name, f"{service.name}: {service.image} has no tag"
        assert service.builds or tag != "latest"
    pinned = {s.name for s in COMPOSE.services.values() if "@sha256:" in s.image}
    assert pinned == {"prometheus", "grafana"}


# ---- the reader itself: what it does not understand it must not skip


@pytest.mark.parametrize(
    ("service", "problem"),
    [
        ({"image": "a:1", "pid": "host"}, "pid"),
        ({"image": "${TAG}"}, "neither a value nor a default"),
        ({"image": "${TAG:?tell}"}, "not understood"),
        ({"image": "a:1", "environment": {"PORT": 1}}, "quote"),
        ({"image": "a:1", "stop_grace_period": "soon"}, "duration"),
    ],
)
def test_the_reader_refuses(tmp_path: Path, service: dict[str, Any], problem: str) -> None:
    path = tmp_path / "compose.yml"
    path.write_text(json.dumps({"services": {"a": service}}), encoding="utf-8")
    with pytest.raises(AssertionError, match=problem):
        load(path)


# ---- monitoring


def test_prometheus_scrapes_every_broker() -> None:
    place = mounted(COMPOSE, "prometheus", "/etc/prometheus")
    document = yaml.safe_load((place / "prometheus.yml").read_text(encoding="utf-8"))
    targets = {
        target
        for job in document["scrape_configs"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    }
    expected = set()
    for name in BROKERS:
        config = settings(COMPOSE.services[name])
        assert config.metrics_host == "0.0.0.0"
        expected.add(f"{name}:{config.metrics_port}")
    assert expected <= targets
    for pattern in document["rule_files"]:
        name = Path(pattern).name
        assert (place / name).is_file() or list(place.glob(name)), f"{pattern} is not there"


def test_grafana_is_provisioned() -> None:
    provisioning = mounted(COMPOSE, "grafana", "/etc/grafana/provisioning")
    (sources,) = (provisioning / "datasources").glob("*.y*ml")
    (source,) = yaml.safe_load(sources.read_text(encoding="utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (providers,) = (provisioning / "dashboards").glob("*.y*ml")
    (provider,) = yaml.safe_load(providers.read_text(encoding="utf-8"))["providers"]
    folder = mounted(COMPOSE, "grafana", provider["options"]["path"])
    dashboards = [json.loads(p.read_text(encoding="utf-8")) for p in folder.glob("*.json")]
    assert dashboards
    assert all(dashboard["panels"] for dashboard in dashboards)


def mounted(compose: Compose, service: str, place: str) -> Path:
    """Return the directory of the repository that a service has at ``place``."""
    ((source, _, read_only),) = [
        volume for volume in compose.services[service].volumes if volume[1] == place
    ]
    assert read_only
    return ROOT / source
