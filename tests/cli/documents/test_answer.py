"""An answer holds what failed beside what did not, and says it as documents have it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from oncelog.admin.results import Found
from oncelog.errors import ApiError, ClientError, TopicAlreadyExistsError
from oncelog_cli.documents.answer import Failure, Failures, fields_of

EXISTS = TopicAlreadyExistsError("topic 'a' exists")


@dataclass(frozen=True)
class Item:
    name: str
    error: ApiError | None = None


@pytest.mark.parametrize(
    ("error", "entry"),
    [
        ("went wrong", {"error": "FAILED", "message": "went wrong"}),
        (
            EXISTS,
            {"error": "TOPIC_ALREADY_EXISTS", "message": "topic 'a' exists", "definite": True},
        ),
        (OSError(), {"error": "OSError", "message": "OSError"}),
    ],
)
def test_a_failure_as_documents_have_it(
    error: BaseException | str, entry: dict[str, object]
) -> None:
    assert Failure("a", error).entry() == {"item": "a", **entry}


def test_what_failed_is_kept_apart_from_what_did_not() -> None:
    failures = Failures()
    items = [Item("a", EXISTS), Item("b")]
    assert failures.sound(items, lambda item: item.name) == [items[1]]
    found = Found([1, 2], {3: ClientError("is away")})
    assert list(failures.answered(found)) == [1, 2]
    assert [(each.item, each.message) for each in failures] == [
        ("a", "topic 'a' exists"),
        ("broker 3", "is away"),
    ]


def test_outcomes_of_items() -> None:
    failures = Failures()
    row = {"topic": "a"}
    assert failures.outcome(row, "created", "a", None) == {"topic": "a", "created": True}
    quiet = failures.outcome(row, "created", "a", EXISTS, quiet=EXISTS.name)
    assert (quiet, failures) == ({"topic": "a", "created": False}, [])
    refused = failures.outcome(row, "created", "a", EXISTS)
    assert refused == {"topic": "a", "created": False, "error": "TOPIC_ALREADY_EXISTS"}
    assert failures == [Failure("a", EXISTS)]
    assert fields_of(Item("a"), "name error") == {"name": "a", "error": None}
