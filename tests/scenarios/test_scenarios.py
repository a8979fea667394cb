"""Every scenario: the story holds, word for word, and it needs the rule that it tells of.

``make scenarios REWRITE=1`` rewrites what the scenarios print and shows the difference: commit it
only when you understand it. ``make scenarios OTHER_SEEDS=20`` plays each for so many other seeds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scenarios.interpreter import check, rewrite
from scenarios.transcript import ScenarioError, Transcript

FOLDER = Path(__file__).parent
SCENARIOS = sorted(path.stem for path in FOLDER.glob("*.txt"))
OTHER_SEEDS = [f"other-{number}" for number in range(int(os.environ.get("OTHER_SEEDS") or 1))]
"""A scenario whose output follows from a delay that was drawn breaks with a change that has nothing
to do with it."""

NEEDED = [
    ("leader_failover", "truncate_on_divergence", "I2"),
    ("kip_101_no_truncation_to_the_high_watermark", "truncate_to_high_watermark", "I2"),
    ("kip_101_divergence_after_power_loss", "truncate_on_divergence", "I2"),
    ("kip_279_fast_elections", "truncate_on_divergence", "I2"),
    ("kip_966_last_replica_standing", "hold_below_min_isr", "K18"),
    ("kip_966_last_replica_standing", "controller.trust_only_complete_replicas", "I9"),
    ("isr_shrink_and_min_isr", "hold_below_min_isr", "I2"),
    ("zombie_controller_writes", "controller.check_controller_epoch", "I12"),
    ("wiped_disk", "controller.trust_only_complete_replicas", "I9"),
    ("replaced_disk", "log.vouch_since_made", "I9"),
    ("retry_at_the_next_leader", "log.followers_know_producers", "I14"),
    ("rebalance_step_by_step", "client.hand_over_after_revocation", "I20"),
    ("transaction_step_by_step", "lso_respects_transactions", "I15"),
    ("transaction_step_by_step", "log.abort_index_before_lso", "I15"),
    ("delayed_requests_change_nothing", "coordinator.bump_epoch_per_txn", "I16"),
    ("moving_leader_dies", "controller.finish_needs_added", "M5"),
    ("moving_original_lags", "controller.finish_keeps_redundancy", "M5"),
    ("moving_leaver_away", "controller.remember_leaving", "M6"),
    ("moving_false_suspicion", "controller.finish_counts_sound", "M5"),
]
"""Scenario, a rule of the product (see ``simulation.ablations``), and the invariant that breaks in
that very story when the rule is off."""


TOLD_OTHERWISE = [
    ("retry_at_the_next_leader", "log.remember_producers", "produce t-0 b to=1 producer=7/0/1"),
    ("retry_at_the_next_leader", "log.compare_content", "produce t-0 x to=1 producer=7/0/1"),
    ("coordinator_failover", "coordinator.wait_for_load", "committed g"),
    ("coordinator_log_cut", "coordinator.adopt_uncut_only", "committed g"),
    ("member_leaves_as_the_coordinator_dies", "coordinator.departures_are_durable", "group g"),
    ("zombie_member", "coordinator.fence_generation", "commit ann"),
    ("stalled_disk", "give_way_when_stalled", "produce t-0 b within=6s"),
]
"""The same, where the lack of the rule is first seen in what a command prints."""


def read(name: str) -> Transcript:
    path = FOLDER / f"{name}.txt"
    return Transcript.parse(path.name, path.read_text())


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    transcript = read(name)
    if os.environ.get("REWRITE"):
        (FOLDER / f"{name}.txt").write_text(rewrite(transcript))
    else:
        check(transcript)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", OTHER_SEEDS)
def test_the_story_is_the_same_for_another_seed(name: str, seed: str) -> None:
    check(read(name), seed=seed)


@pytest.mark.parametrize(("name", "rule", "invariant"), NEEDED)
def test_the_rule_is_needed(name: str, rule: str, invariant: str) -> None:
    with pytest.raises(ScenarioError, match=rf"\b{invariant}: "):
        check(read(name), without=rule)


@pytest.mark.parametrize(("name", "rule", "command"), TOLD_OTHERWISE)
def test_without_the_rule_the_story_is_another(name: str, rule: str, command: str) -> None:
    with pytest.raises(ScenarioError, match=f"the output differs\n(.*\n)*  {command}\n"):
        check(read(name), without=rule)
