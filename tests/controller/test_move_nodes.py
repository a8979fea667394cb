"""Plans are readable JSON, and what cannot be one is not guessed at."""

from __future__ import annotations

import json

import pytest

from oncelog_controller import move_nodes
from oncelog_controller.move_nodes import MoveWish, PlanHead, Priority
from oncelog_controller.store import Create, check_request_size
from oncelog_controller.znodes import CorruptNodeError
from oncelog_protocol import limits
from oncelog_protocol.types import TopicPartition

HEAD = PlanHead("7-12", "User:alice", "disks", 1_700, False, Priority.BALANCE, True, (4, 5))
WISHES = (MoveWish("t", "id", 0, (1, 2)), MoveWish("t", "id", 3, (2,)))


def test_what_is_in_a_node() -> None:
    assert json.loads(move_nodes.encode_plan(HEAD, WISHES)) == {
        "version": 1,
        "by": "User:alice",
        "reason": "disks",
        "since_ms": 1_700,
        "keep_replication_factor": False,
        "priority": "balance",
        "now": True,
        "evacuates": [4, 5],
        "wishes": [["t", "id", 0, [1, 2]], ["t", "id", 3, [2]]],
    }
    assert json.loads(move_nodes.encode_wishes(WISHES[:1])) == {
        "version": 1,
        "wishes": [["t", "id", 0, [1, 2]]],
    }
    assert move_nodes.plan_path("7-12") == "/admin/moves/7-12"
    assert move_nodes.plan_path("7-12", 3) == "/admin/moves/7-12/3"


def test_round_trips() -> None:
    assert move_nodes.decode_plan("7-12", move_nodes.encode_plan(HEAD, WISHES)) == (HEAD, WISHES)
    assert move_nodes.decode_wishes("7-12", 1, move_nodes.encode_wishes(WISHES)) == WISHES
    assert WISHES[1].name == TopicPartition("t", 3)


def test_plans_are_in_the_order_in_which_they_were_taken() -> None:
    heads = [PlanHead(name, "", "", 0) for name in ("10-1", "9-2", "9-10")]
    assert [head.plan_id for head in sorted(heads, key=lambda head: head.order)] == [
        "9-2",
        "9-10",
        "10-1",
    ]
    assert move_nodes.plan_id(9, 2) == "9-2"


def test_a_node_fits_into_the_store() -> None:
    name = "t" * limits.TOPIC_CHARS_MAX
    wishes = [
        MoveWish(name, "i" * 36, index, tuple(range(1000, 1010)))
        for index in range(move_nodes.WISHES_OF_NODE_MAX)
    ]
    head = PlanHead("1-1", "User:" + "ä" * 1000, "ä" * limits.MOVE_REASON_CHARS_MAX, 1)
    data = move_nodes.encode_plan(head, wishes)
    check_request_size([Create(move_nodes.plan_path("1-1"), data)])


GOOD = json.loads(move_nodes.encode_plan(HEAD, WISHES))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plan", GOOD),
        ("1-1", {**GOOD, "by": 1}),
        ("1-1", {**GOOD, "priority": "soon"}),
        ("1-1", {**GOOD, "now": 1}),
        ("1-1", {key: each for key, each in GOOD.items() if key != "reason"}),
        ("1-1", {**GOOD, "wishes": [["t", "id", 0]]}),
        ("1-1", {**GOOD, "wishes": [["t", "id", "0", [1]]]}),
        ("1-1", {**GOOD, "wishes": [["t", "id", 0, ["1"]]]}),
        ("1-1", {**GOOD, "wishes": 3}),
        ("1-1", {**GOOD, "version": 2}),
    ],
)
def test_what_cannot_be_read_is_named(name: str, data: dict[str, object]) -> None:
    with pytest.raises(CorruptNodeError, match=f"/admin/moves/{name}"):
        move_nodes.decode_plan(name, json.dumps(data).encode())
