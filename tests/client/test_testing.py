"""Tests come to the cluster through this door."""

from __future__ import annotations

import subprocess
import sys

import pytest

import oncelog_testing
from oncelog import testing


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_it_leads_to_the_room() -> None:
    assert testing.__all__ == oncelog_testing.__all__ == dir(testing)
    for name in testing.__all__:
        assert getattr(testing, name) is getattr(oncelog_testing, name)
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        _ = testing.Broker


def test_nothing_of_a_broker_is_loaded_before_it_is_asked_for() -> None:
    loaded = run(
        "import sys, oncelog, oncelog.testing;"
        "print([name for name in sorted(sys.modules) if name.startswith('oncelog_')])"
    )
    assert loaded == "['oncelog_testing']"


def test_what_is_missing_is_named() -> None:
    said = run(
        "import sys; sys.modules['pydantic'] = None\n"
        "try:\n"
        "    from oncelog.testing import Cluster\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    assert said == "a cluster for tests needs pydantic: pip install 'oncelog[testing]'"
