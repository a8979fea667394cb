"""A user sees only what brokers would show; nothing unknown makes a verdict."""

from __future__ import annotations

from dataclasses import replace

from oncelog import TopicPartition
from oncelog.admin.results import (
    BrokerDescription,
    ClusterDescription,
    LogDirDescription,
    PartitionDescription,
    ReplicaDescription,
    TopicDescription,
)
from oncelog_cli.documents.answer import Answer, Failure
from oncelog_cli.health import Status
from oncelog_console.snapshot import Fact, Rate, Snapshot, Visible, seen_by


def whole() -> Snapshot:
    partition = PartitionDescription(0, 1, 0, (1, 2), (1,), ())
    replicas = tuple(
        ReplicaDescription(TopicPartition(name, 0), 10, 0, 5, 5) for name in ("open", "secret")
    )
    missing = (Failure("secret-readers", "no"), Failure("broker 3", "gone"))
    groups = [{"group": "open-readers"}, {"group": "secret-readers"}]
    return Snapshot(
        cluster=Fact(ClusterDescription("c", 1, 1, (BrokerDescription(1, 1, None, {}),)), 1),
        topics=Fact(
            tuple(TopicDescription(name, partitions=(partition,)) for name in ("open", "secret")), 1
        ),
        log_dirs=Fact((LogDirDescription(1, "/d", None, 100, 50, replicas),), 1),
        min_isr=Fact({"open": 1, "secret": 2}, 1),
        groups=Fact(
            Answer({"groups": groups}, [Failure("secret-readers", "no")]), 1, missing=missing
        ),
        transactions=Fact(Answer({"transactions": [{"transactional_id": "secret-id"}]}), 1),
        hanging=Fact(
            Answer(
                {
                    "transactions": [
                        {
                            "topic": name,
                            "partition": 0,
                            "start_offset": 7,
                            "transactional_id": "secret-id",
                        }
                        for name in ("open", "secret")
                    ]
                }
            ),
            1,
        ),
        events=Fact(Answer({"events": [{"name": "isr_changed", "fields": {}}]}), 1),
        rates={"open": Rate(1, 1), "secret": Rate(2, 2)},
    ).judged()


def test_names_that_a_user_may_not_see_are_nowhere() -> None:
    visible = Visible(frozenset({"open"}), frozenset({"open-readers"}), frozenset(), cluster=False)
    seen = seen_by(whole(), visible)
    assert "secret" not in repr(seen)
    assert [topic.topic for topic in seen.topic_list] == ["open"]
    assert [row["group"] for row in seen.group_rows] == ["open-readers"]
    assert [each.item for each in seen.groups.missing] == ["broker 3"]
    assert seen.log_dirs.value is None
    assert seen.events.value is None
    assert [row["topic"] for row in seen.hanging_rows] == ["open"]


def test_who_may_see_everything_sees_it_as_it_is() -> None:
    seen = whole()
    assert seen_by(seen, None) is seen
    names = frozenset({"open", "secret"})
    all_of_it = seen_by(seen, Visible(names, frozenset(), frozenset(), cluster=True))
    assert all_of_it.log_dirs == seen.log_dirs
    assert all_of_it.status is Status.CRITICAL


def test_transactions_that_hang_are_a_warning() -> None:
    hanging = whole().all_checks[-1]
    assert hanging.status is Status.WARNING
    assert hanging.detail == "readers at read_committed stop there: open-0@7, secret-0@7"
    sound = replace(whole(), checks=())
    assert sound.status is None, "they alone are no verdict"
    assert replace(whole(), hanging=Fact()).all_checks[-1].status is Status.OK


def test_without_an_answer_there_is_no_verdict() -> None:
    assert whole().status is Status.CRITICAL
    assert replace(whole(), min_isr=Fact()).judged().status is None
    assert replace(whole(), cluster=replace(whole().cluster, error="gone")).status is None
