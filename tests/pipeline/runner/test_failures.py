"""Spark's errors are told in a line or two."""

from __future__ import annotations

import pytest

from pyspark_oncelog.runner.failures import MESSAGE_CHARACTERS_MAX, explain, reason_of

IN_A_TASK = """\
[STREAM_FAILED] Query [id = x, runId = y] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 1.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback
Traceback (most recent call last):
  File "/usr/lib/worker.py", line 1, in main
    process()
ValueError: an earlier one

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/usr/lib/worker.py", line 2, in main
    process()
oncelog.errors.UnknownTopicOrPartitionError: there is no topic flights

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)
\t... 1 more
JVM stacktrace:
org.apache.spark.SparkException
"""

IN_JAVA = """\
[TABLE_OR_VIEW_NOT_FOUND] The table or view `flihgts` cannot be found.
\tat org.apache.spark.sql.Something$.do(Something.scala:1)
\t... 3 more

JVM stacktrace:
org.apache.spark.sql.AnalysisException
"""


def test_the_innermost_python_error_is_the_reason() -> None:
    expected = "UnknownTopicOrPartitionError: there is no topic flights"
    assert explain(RuntimeError(IN_A_TASK)) == [expected]


def test_traces_of_java_are_left_out() -> None:
    expected = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `flihgts` cannot be found."
    assert reason_of(IN_JAVA) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: oncelog", "register(spark)"),
        ("ModuleNotFoundError: No module named 'oncelog'", "archives"),
        ("Append output mode not supported when there are streaming aggregations", "watermark"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "java -version"),
    ],
)
def test_known_traps_come_with_a_hint(text: str, word: str) -> None:
    reason, hint = explain(RuntimeError(text))
    assert reason == text
    assert hint.startswith("hint: ")
    assert word in hint


def test_nothing_to_say_and_too_much_to_say() -> None:
    assert explain(KeyError()) == ["KeyError"]
    assert len(explain(RuntimeError("x" * 5000))[0]) == MESSAGE_CHARACTERS_MAX
