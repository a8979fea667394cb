"""These tests only read the Dockerfile: test_containers.py carries it out."""

from __future__ import annotations

import tomllib
from pathlib import Path

from deploy.dockerfile import context_files, parse
from oncelog_broker.config import BrokerConfig
from support.house import ROOT

STAGES = parse(ROOT / "Dockerfile")
FINAL = STAGES[-1]


def test_the_base_is_pinned_and_slim() -> None:
    bases = {stage.base for stage in STAGES}
    assert len(bases) == 1, "what is built in one stage runs in the other: one Python"
    (name,) = bases
    assert name.startswith("python:3.13.")
    assert "-slim-" in name
    assert "@sha256:" in name
    assert len(name.rpartition("@sha256:")[2]) == 64


def test_the_process_is_nobody_special() -> None:
    user, _, group = FINAL.last("USER").rest.partition(":")
    assert (user, group) == ("10001", "0"), (
        "a number, so that a platform can see that it is not root"
    )
    keywords = [instruction.keyword for instruction in FINAL.instructions]
    assert "RUN" not in keywords[keywords.index("USER") :]


def test_the_broker_is_the_first_process() -> None:
    assert FINAL.last("ENTRYPOINT").rest.startswith("["), "a shell would not hand signals on"
    assert FINAL.last("ENTRYPOINT").words() == ["oncelog", "broker"]
    assert FINAL.last("STOPSIGNAL").rest == "SIGTERM"
    assert FINAL.last("HEALTHCHECK").rest == 'CMD ["oncelog", "broker", "health"]'


def test_settings_in_the_image_exist() -> None:
    names = FINAL.last("ENV").pairs()
    settings = {name.removeprefix("ONCELOG_").lower() for name in names if "ONCELOG_" in name}
    assert settings
    assert settings <= set(BrokerConfig.model_fields)
    (volume,) = FINAL.last("VOLUME").words()
    assert names["ONCELOG_LOG_DIRS"].startswith(f"{volume}/")
    assert names["ONCELOG_METRICS_PORT"] in FINAL.last("EXPOSE").words()


def test_the_context_is_what_a_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = wheel["packages"]
    included = list(wheel.get("force-include", {}))
    sent = context_files(ROOT, ROOT / ".dockerignore")
    names = {path.relative_to(ROOT).as_posix() for path in sent}
    assert {"pyproject.toml", "README.md", "LICENSE"} <= names
    for package in packages:
        assert f"{package}/__init__.py" in names, f".dockerignore: let {package} through"
    for source in included:
        found = [name for name in names if name == source or name.startswith(f"{source}/")]
        assert found, f".dockerignore: let {source} through"
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {source.partition("/")[0] for source in [*packages, *included]}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_patterns_of_dockerignore(tmp_path: Path) -> None:
    for name in ("a/x.py", "a/x.pyc", "a/b/__pycache__/y.py", "c/z.py", "top"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    ignore = tmp_path / "ignore"
    ignore.write_text("# words\n*\n!a\n**/__pycache__\n**/*.py[cod]\n")
    kept = context_files(tmp_path, ignore)
    assert [path.relative_to(tmp_path).as_posix() for path in kept] == ["a/x.py"]
