"""The copy of Kafka's copier is judged."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_suites.kafka_tools import COPIED, judge_the_copy
from kafka_suites.verdict import NotAsExpectedError

ALL = [str(number) for number in range(COPIED)]
MARKERS = 30


class FakeTools:
    """What its tools print is given."""

    def __init__(self, came: list[str], end: int) -> None:
        self._printed = {
            "consumer.ConsoleConsumer": "\n".join([*came, "Processed a total of records"]),
            "GetOffsetShell": f"suite-copy:0:{end}\n",
        }

    def run(self, tool: str, *arguments: str) -> str:
        """Return it."""
        assert tool == "GetOffsetShell" or "read_committed" in arguments
        return self._printed[tool]


def judge(came: list[str], end: int = COPIED + MARKERS + 1) -> None:
    tools: Any = FakeTools(came, end)
    judge_the_copy(tools, COPIED, MARKERS, "--timeout-ms", "1")


def test_a_copy_in_order_with_something_aborted_is_right() -> None:
    judge(ALL)


@pytest.mark.parametrize(
    "came",
    [
        ALL[:-1],  # the last is lost
        ALL[:7] + ALL[8:],
        [*ALL, ALL[-1]],  # the last came twice
        [ALL[0], *ALL],
        [ALL[1], ALL[0], *ALL[2:]],  # out of order
        [],
    ],
)
def test_a_copy_that_lacks_or_doubles_a_record_is_wrong(came: list[str]) -> None:
    with pytest.raises(NotAsExpectedError, match="came out"):
        judge(came)


def test_a_copy_without_an_abort_has_not_been_tried() -> None:
    with pytest.raises(NotAsExpectedError, match="nothing was aborted"):
        judge(ALL, COPIED + MARKERS)
