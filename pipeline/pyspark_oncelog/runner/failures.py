"""Spark's errors are explained in one or two lines instead of a trace of two languages. Pure.

The innermost reason is what helps: an exception of Python code inside of a task comes wrapped in
a ``PythonException``, a ``SparkException`` about the task, and a ``StreamingQueryException``.
"""

from __future__ import annotations

import re

_APPEND = (
    "an aggregate in append mode needs a watermark on its source, and a window of that column "
    "among its groups"
)
HINTS = (
    (
        "DATA_SOURCE_NOT_FOUND",
        "Spark's Python (PYSPARK_PYTHON, else python3 of the path) has no pyspark_oncelog, or some "
        "other package named pyspark_* fails to import, which turns discovery off; then "
        "pyspark_oncelog.register(spark) registers it by hand",
    ),
    (
        "ModuleNotFoundError",
        "executors need the packages too: install oncelog[spark] on every node, or ship an "
        "environment with archives, and the job's own modules with py_files",
    ),
    (
        "does not support Update mode",
        'set output_mode = "update" under [sink], which writes through foreachBatch',
    ),
    ("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION", _APPEND),
    ("Append output mode not supported", _APPEND),
    ("JAVA_GATEWAY_EXITED", "Java did not start: 'java -version' must say 17 or newer"),
)

_LAST_PYTHON_ERROR = re.compile(
    r"^((?:\w+\.)+\w+|\w+(?:Error|Exception|Exit|Interrupt|Warning)): (.+)$", re.MULTILINE
)
"""The last line of a traceback: builtins without their module, everything else with it."""
_FRAME = re.compile(r"^\s+at [\w.$<>/]+\(.*$|^\s+\.\.\. \d+ more$", re.MULTILINE)
MESSAGE_CHARACTERS_MAX = 1_000


def explain(error: BaseException) -> list[str]:
    """Return lines that say what went wrong: the reason first, then a hint where there is one."""
    text = str(error) or type(error).__name__
    lines = [reason_of(text)]
    for mark, hint in HINTS:
        if mark in text:
            lines.append(f"hint: {hint}")
            break
    return lines


def reason_of(text: str) -> str:
    """Return the innermost reason in the text of an exception."""
    if "Traceback (most recent call last)" in text:
        tail = text.rpartition("Traceback (most recent call last)")[2]
        found = _LAST_PYTHON_ERROR.search(tail)
        if found is not None:
            name = found.group(1).rpartition(".")[2]
            return _shortened(f"{name}: {found.group(2)}")
    plain = _FRAME.sub("", text.partition("JVM stacktrace:")[0])
    return _shortened(" ".join(plain.split()))


def _shortened(text: str) -> str:
    text = text.strip()
    if len(text) <= MESSAGE_CHARACTERS_MAX:
        return text
    return text[: MESSAGE_CHARACTERS_MAX - 4] + " ..."
