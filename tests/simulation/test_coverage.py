"""The map from log lines to coverage cannot rot: every line in it is one of the product's."""

from __future__ import annotations

import ast
import logging
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oncelog_runtime.structured_logging import get_logger
from simulation.coverage import FROM_LOGS, FROM_STORE, NAMES, Coverage, Sight
from simulation.store_view import StateChange, StoreState
from support.house import ROOT, generator, sources, tree

LOG_DOCS = generator("log_docs")


def logger_name(path: Path) -> str:
    _, *parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts)


@cache
def product_lines() -> dict[tuple[str, str], Any]:
    """Return (logger, event or text) of every log line of the product, with its fields."""
    found: dict[tuple[str, str], Any] = {}
    for path in sources("client"):
        for node in ast.walk(tree(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "logger"
            ):
                given = node.args[1:] if node.func.attr == "log" else node.args
                template = given[0].value if given and isinstance(given[0], ast.Constant) else None
                if isinstance(template, str):
                    found[logger_name(path), template] = ("x",) * (len(given) - 1)
    for use in LOG_DOCS.uses():
        found[use.module, use.event] = dict.fromkeys(use.fields, "x")
    return found


def test_lines_of_the_product_are_found() -> None:
    assert len(product_lines()) > 80


@pytest.mark.parametrize("sight", FROM_LOGS, ids=lambda sight: sight.name)
def test_every_sight_is_a_line_of_the_product(sight: Sight) -> None:
    assert (sight.logger, sight.line) in product_lines()


@pytest.mark.parametrize("sight", FROM_LOGS, ids=lambda sight: sight.name)
def test_every_condition_can_be_asked_of_its_line(sight: Sight) -> None:
    fields = product_lines()[sight.logger, sight.line]
    for number in ("records", "changed"):
        if number in fields:
            fields |= {number: 3}
    if sight.when is not None:
        assert isinstance(sight.when(fields), bool)


def test_names_are_unique_and_enough() -> None:
    assert len(NAMES) == len(FROM_LOGS) + len(FROM_STORE)
    assert len(NAMES) >= 40


def test_a_line_counts_when_its_arguments_say_so() -> None:
    coverage = Coverage()
    partition = get_logger("oncelog_broker.replication.partition")
    with coverage.listening():
        partition.info("follower_truncated", before=9, after=5)
        partition.info("follower_truncated", before=5, after=5)
        partition.info("another_line", before=5)
    partition.info("follower_truncated", before=9, after=5)
    assert coverage.counts == {"diverging_truncation": 1, "divergence_without_cut": 1}
    assert "diverging_truncation" not in coverage.missing()
    assert "session_expired" in coverage.missing()


def test_warnings_are_kept_with_their_host_and_time() -> None:
    coverage = Coverage()
    with coverage.listening(lambda: 1.5, lambda: "broker-2"):
        logging.getLogger("oncelog_broker.app").error("broker %d fails", 2)
        logging.getLogger("oncelog_broker.app").info("fine")
        logging.getLogger("asyncio").error("never retrieved")
    assert [(line.host, line.time_s, line.text) for line in coverage.lines] == [
        ("broker-2", 1.5, "broker 2 fails"),
        ("broker-2", 1.5, "never retrieved"),
    ]


def test_listening_leaves_loggers_as_they_were() -> None:
    logger = logging.getLogger("oncelog_broker")
    before = logger.level, list(logger.handlers)
    with Coverage().listening():
        assert logger.level == logging.DEBUG
    assert (logger.level, list(logger.handlers)) == before


def state(
    leader: int,
    epoch: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
) -> StoreState:
    return StoreState(leader, epoch, isr, 1, epoch, elr, last_known_elr)


@pytest.mark.parametrize(
    ("before", "after", "unclean", "names"),
    [
        (state(1, 0, (1, 2)), state(2, 1, (2,)), False, {"leader_elected", "isr_of_one"}),
        (state(1, 0, (1,), elr=(2,)), state(2, 1, (2,)), False, {"leader_elected_from_elr"}),
        (state(1, 0, (1,)), state(2, 1, (2,)), True, {"leader_elected_unclean"}),
        (state(1, 0, (1,)), state(-1, 1, (1,)), False, {"leader_lost"}),
        (state(-1, 0, (1,)), state(1, 1, (1,)), False, {"leader_back", "leader_elected"}),
        (state(1, 0, (1,)), state(1, 1, (1,)), False, {"leader_reelected"}),
        (state(1, 0, (1, 2, 3)), state(1, 0, (1,), elr=(2,)), False, {"elr_filled"}),
        (
            state(1, 0, (1,)),
            state(1, 0, (1,), last_known_elr=(3,)),
            False,
            {"last_known_elr"},
        ),
    ],
)
def test_writes_of_states_count(
    before: StoreState, after: StoreState, unclean: bool, names: set[str]
) -> None:
    coverage = Coverage(min_isr=2)
    coverage.state_changed(StateChange(("t", 0), before, after, unclean))  # type: ignore[arg-type]
    assert names <= set(coverage.counts)
