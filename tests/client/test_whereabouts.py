"""A program finds the cluster where the command finds it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from oncelog import bootstrap_servers
from oncelog.errors import ConfigurationError
from oncelog_cli import options
from oncelog_cli.exits import UsageError
from support.house import name_of, sources

PROFILES = """\
current = "prod"
previous = "old"

[profiles.prod]
bootstrap = "prod:1,prod:2"

[profiles.old]
bootstrap = "old:1"

[profiles.bare]
description = "says nothing of brokers"
"""
VARIABLES = ("ONCELOG_BOOTSTRAP", "ONCELOG_PROFILE", "ONCELOG_DIR")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that the user has set nothing."""
    for name in (*VARIABLES, "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write_profiles(home: Path, text: str = PROFILES) -> None:
    path = home / ".config" / "oncelog" / "profiles.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_cluster(place: Path, text: str = json.dumps({"bootstrap": "local:1"})) -> None:
    place.mkdir(parents=True)
    (place / "cluster.json").write_text(text)


def test_nothing_says_where() -> None:
    with pytest.raises(ConfigurationError, match=r"ONCELOG_BOOTSTRAP.*'oncelog up'"):
        bootstrap_servers()


def test_the_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cluster(home / ".oncelog" / "local")
    assert bootstrap_servers() == "local:1"
    write_cluster(home / "elsewhere", json.dumps({"bootstrap": "elsewhere:1"}))
    monkeypatch.setenv("ONCELOG_DIR", str(home / "elsewhere"))
    assert bootstrap_servers() == "elsewhere:1"
    write_profiles(home)
    assert bootstrap_servers() == "prod:1,prod:2"
    monkeypatch.setenv("ONCELOG_PROFILE", "old")
    assert bootstrap_servers() == "old:1"
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", "env:1")
    assert bootstrap_servers() == "env:1"
    assert bootstrap_servers("prod") == "prod:1,prod:2"
    assert bootstrap_servers("bare") == "env:1"


def test_profiles_that_are_not_there(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no profile 'pord'"):
        bootstrap_servers("pord")
    write_profiles(home, "current = 3 =")
    with pytest.raises(ConfigurationError, match=r"profiles\.toml cannot be read"):
        bootstrap_servers()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"bootstrap": 3}'])
def test_a_state_file_that_says_nothing(home: Path, text: str) -> None:
    write_cluster(home / ".oncelog" / "local", text)
    with pytest.raises(ConfigurationError, match="which cluster"):
        bootstrap_servers()


def test_no_client_looks_by_itself() -> None:
    """Addresses come through the constructor."""
    rooms = sources("client")
    naming = [name_of(path) for path in rooms if "whereabouts" in path.read_text()]
    assert naming == ["client/oncelog/__init__.py"]


CASES = list(
    itertools.product(
        (None, "env:1"), (None, "old", "-", "bare", "nobody"), (False, True), (False, True)
    )
)


@pytest.mark.parametrize(("variable", "profile", "in_use", "local"), CASES)
def test_the_command_finds_the_same(
    variable: str | None,
    profile: str | None,
    in_use: bool,
    local: bool,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_profiles(home, PROFILES if in_use else PROFILES.partition("\n")[2])
    if variable is not None:
        monkeypatch.setenv("ONCELOG_BOOTSTRAP", variable)
    if profile is not None:
        monkeypatch.setenv("ONCELOG_PROFILE", profile)
    if local:
        write_cluster(home / ".oncelog" / "local")
    try:
        wanted: str | None = options.bootstrap_servers(None)
    except UsageError:
        wanted = None
    try:
        found: str | None = bootstrap_servers()
    except ConfigurationError:
        found = None
    assert found == wanted
