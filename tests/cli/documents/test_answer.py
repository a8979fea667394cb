"""An answer holds what failed beside what did not, and says it as documents have it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from oncelog import Admin
from oncelog.admin.results import Found
from oncelog.errors import ApiError, ClientError, TopicAlreadyExistsError
from oncelog_cli.documents.answer import Answer, Failure, Failures, fields_of
from oncelog_cli.documents.cluster import described_log_dirs, spoken_apis
from oncelog_cli.documents.configs import described_configs
from oncelog_cli.documents.groups import described_groups, listed_groups
from oncelog_cli.documents.partitions import listed_partitions
from oncelog_cli.documents.producers import described_producers
from oncelog_cli.documents.topics import described_topics, listed_topics
from oncelog_cli.documents.transactions import described_transactions, listed_transactions
from oncelog_cli.group_offsets import Chosen
from support.admin_cluster import AdminCluster, KnownGroup
from support.shell import oncelog

T_0_AND_7 = (("t", 0), ("t", 7))
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


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("topics list", listed_topics),
        ("topics describe t none", lambda admin: described_topics(admin, ["t", "none"])),
        ("partitions list", listed_partitions),
        ("configs describe -t t", lambda admin: described_configs(admin, ["t"])),
        ("log-dirs", described_log_dirs),
        ("api-versions", spoken_apis),
        ("groups list", listed_groups),
        ("groups describe g none", lambda admin: described_groups(admin, ["g", "none"])),
        ("transactions list", listed_transactions),
        ("transactions describe none", lambda admin: described_transactions(admin, ["none"])),
        ("producers describe t:0,7", lambda a: described_producers(a, Chosen((), T_0_AND_7))),
    ],
)
async def test_it_is_what_the_command_prints(
    fake: AdminCluster, asker: Admin, words: str, question: Callable[[Admin], Awaitable[Answer]]
) -> None:
    fake.create_topic("t", 2)
    fake.known_groups["g"] = KnownGroup(1)
    answer = await question(asker)
    shown = await oncelog(*words.split(), "--json", bootstrap=fake.bootstrap)
    printed = {name: item for name, item in shown.document.items() if not name.startswith("_")}
    errors = [failure.entry() for failure in answer.failures]
    assert printed == json.loads(json.dumps({**answer.document, "errors": errors}))
    assert shown.code == bool(answer.failures)
