"""The job's Python function is found, and called with what it asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_oncelog.runner.functions import arguments_of, find_function, module_file
from pyspark_oncelog.runner.job import Job, JobError, Query, QueryFunction, Sink, Source

AVAILABLE = {"flights": 1, "airports": 2, "spark": 3}


@pytest.fixture(autouse=True)
def clean_path() -> Iterator[None]:
    """What a test puts on the path goes."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in ("made_for_job", "made_broken"):
        sys.modules.pop(name, None)


def job(function: str | QueryFunction | None, directory: Path) -> Job:
    return Job(
        name="j",
        sources=(Source("flights", {}),),
        query=Query(function=function) if function is not None else Query(sql="SELECT 1"),
        sink=Sink({}),
        checkpoint="/s",
        directory=str(directory),
    )


def test_modules_lie_beside_the_job(tmp_path: Path) -> None:
    (tmp_path / "made_for_job.py").write_text("def work(flights): return flights + 1\nx = 1\n")
    made = job("made_for_job:work", tmp_path)
    assert find_function(made)(flights=1) == 2
    assert module_file(made) == tmp_path / "made_for_job.py"
    with pytest.raises(JobError, match="has no function 'x'"):
        find_function(job("made_for_job:x", tmp_path))


def test_a_function_itself(tmp_path: Path) -> None:
    assert find_function(job(len, tmp_path)) is len
    assert module_file(job(len, tmp_path)) is None
    assert module_file(job("json:loads", tmp_path)) is None
    with pytest.raises(JobError, match="no function"):
        find_function(job(None, tmp_path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_thing_here", "made_broken does not import: No module"),
        ("1 / 0", "made_broken does not import: ZeroDivisionError"),
        ("def (", "made_broken does not import: SyntaxError"),
    ],
)
def test_modules_that_do_not_import(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "made_broken.py").write_text(text)
    with pytest.raises(JobError, match=words):
        find_function(job("made_broken:f", tmp_path))


def test_modules_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="no module 'nowhere_at_all'"):
        find_function(job("nowhere_at_all:f", tmp_path))


def test_parameters_name_what_they_want() -> None:
    def both(airports: Any, flights: Any) -> None: ...

    def with_session(spark: Any, flights: Any, airports: Any, least: int = 3) -> None: ...

    def everything(**frames: Any) -> None: ...

    assert arguments_of(both, AVAILABLE) == {"airports": 2, "flights": 1}
    assert arguments_of(with_session, AVAILABLE) == AVAILABLE
    assert arguments_of(everything, AVAILABLE) == AVAILABLE


def test_parameters_that_do_not_fit_are_all_named() -> None:
    def wrong(flight: Any, airports: Any, *more: Any) -> None: ...

    with pytest.raises(JobError) as caught:
        arguments_of(wrong, AVAILABLE)
    text = str(caught.value)
    assert "'flight' is no source: there are 'flights', 'airports', 'spark'" in text
    assert "'more' must be usable by name" in text
    assert "no parameter for the source 'flights'" in text
