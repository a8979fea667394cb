"""A job's Python function is found by name, and called with what its parameters ask for.

Rules: a parameter's name is a source's name, or ``spark``; the module is looked for in the job's
directory first. Its file goes to the executors, so that functions defined in it (UDFs) work there.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark_oncelog.runner.job import Job, JobError, QueryFunction

SESSION = "spark"


def find_function(job: Job) -> QueryFunction:
    """Return the function that the job names, or is given.

    :raises JobError: there is no such module or function, or importing it fails.
    """
    wanted = job.query.function
    if wanted is None:
        raise JobError(["the job has no function"])
    if not isinstance(wanted, str):
        return wanted
    module_name, _, name = wanted.partition(":")
    directory = str(Path(job.directory).resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            problem = f"[query] function: no module {module_name!r} in {directory} or on the path"
            raise JobError([problem]) from None
        raise JobError([f"[query] function: {module_name} does not import: {error}"]) from error
    except Exception as error:
        kind = type(error).__name__
        raise JobError([f"[query] function: {module_name} does not import: {kind}: {error}"]) from (
            error
        )
    found = getattr(module, name, None)
    if not callable(found):
        raise JobError([f"[query] function: {module_name} has no function {name!r}"])
    function: QueryFunction = found
    return function


def arguments_of(function: QueryFunction, available: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``function`` by name.

    :param available: the sources' data frames, and the session under ``spark``.
    :raises JobError: a parameter that is neither, or a source that the function leaves out.
    """
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return dict(available)
    taken = {}
    problems = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            problems.append(f"parameter {parameter.name!r} must be usable by name")
        elif parameter.name in available:
            taken[parameter.name] = available[parameter.name]
        elif parameter.default is parameter.empty:
            problems.append(
                f"parameter {parameter.name!r} is no source: there are {_names(available)}"
            )
    left = [name for name in available if name not in taken and name != SESSION]
    problems += [f"has no parameter for the source {name!r}" for name in left]
    if problems:
        called = getattr(function, "__name__", "function")
        raise JobError([f"[query] {called}: {problem}" for problem in problems])
    return taken


def module_file(job: Job) -> Path | None:
    """Return the file of the function's module, when it is a plain one in the job's directory.

    Executors would not find it by themselves.
    """
    if not isinstance(job.query.function, str):
        return None
    module_name = job.query.function.partition(":")[0]
    path = Path(job.directory).resolve() / f"{module_name}.py"
    return path if "." not in module_name and path.exists() else None


def _names(available: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in available)
