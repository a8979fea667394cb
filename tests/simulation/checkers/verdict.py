"""It holds every promise against one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from simulation.checkers import (
    acked_offsets_are_true,
    all_or_nothing,
    committed_offsets_kept,
    copies_match_inputs,
    delivered_where_written,
    every_acked_write_seen,
    granted_rights_work,
    groups_come_to_the_end,
    leader_epochs_agree,
    money_is_conserved,
    newest_values_kept,
    no_acked_write_lost,
    no_alarm_in_the_logs,
    no_circular_reads,
    no_duplicates,
    no_failed_write_read,
    no_own_uncommitted_read,
    no_repeat_within_a_poll,
    no_skip_between_polls,
    no_skip_within_a_group,
    no_skip_within_a_poll,
    no_step_back_behind_a_commit,
    no_step_back_between_polls,
    no_unexplained_hole,
    no_zombie_commit,
    one_owner_at_a_time,
    one_value_at_an_offset,
    repeats_within_a_group,
    replicas_agree,
    revoked_rights_are_gone,
    sends_of_a_producer_in_order,
    sends_of_an_operation_adjoin,
    sends_of_an_operation_in_order,
    transactions_are_decided,
    watermarks_never_go_back,
)
from simulation.checkers.newest_values_kept import Compacted
from simulation.checkers.no_alarm_in_the_logs import LogLine
from simulation.checkers.replicas import AllReplicas
from simulation.checkers.transactions_are_decided import Open
from simulation.checkers.violation import Holes, Rules, Violation
from simulation.history import History, Key, Watermark
from simulation.rights import Rights

OF_HISTORY: tuple[Callable[[History, Rules], list[Violation]], ...] = (
    one_value_at_an_offset.check,
    no_duplicates.check,
    no_failed_write_read.check,
    no_own_uncommitted_read.check,
    no_circular_reads.check,
    sends_of_an_operation_adjoin.check,
    sends_of_an_operation_in_order.check,
    sends_of_a_producer_in_order.check,
    no_skip_within_a_poll.check,
    no_repeat_within_a_poll.check,
    no_skip_between_polls.check,
    no_step_back_between_polls.check,
    acked_offsets_are_true.check,
    no_skip_within_a_group.check,
    no_step_back_behind_a_commit.check,
    repeats_within_a_group.check,
    all_or_nothing.check,
    no_zombie_commit.check,
    copies_match_inputs.check,
    money_is_conserved.check,
    committed_offsets_kept.check,
    one_owner_at_a_time.check,
    groups_come_to_the_end.check,
)
"""Those that need nothing else."""


def verdict(
    history: History,
    rules: Rules,
    *,
    replicas: AllReplicas | None = None,
    logs: Iterable[LogLine] = (),
    watermarks: Iterable[Watermark] = (),
    holes: Holes | None = None,
    compacted: Mapping[Key, Compacted] | None = None,
    undecided: Mapping[Key, Sequence[Open]] | None = None,
    rights: Rights | None = None,
) -> list[Violation]:
    """Return every violation, by the number of its anomaly, also those only to be reported.

    :param watermarks: of observers besides the history's own clients.
    :param holes: offsets that hold nothing for readers. None: there are none, except where the
        history has transactions, whose markers nobody listed; holes are then not judged.
    :param compacted: partitions whose logs compact, as they were committed and as they are.
    :param undecided: transactions that leaders have open when all is over.
    :param rights: what users might do, in a secured run.
    """
    found = [violation for check in OF_HISTORY for violation in check(history, rules)]
    found += delivered_where_written.check(history, rules, holes)
    found += no_acked_write_lost.check(history, rules, holes)
    found += every_acked_write_seen.check(history, rules, holes)
    if holes is not None or not any(op.f == "txn" for op in history.ops):
        found += no_unexplained_hole.check(history, rules, holes)
    found += watermarks_never_go_back.check([*history.watermarks, *watermarks], rules)
    found += no_alarm_in_the_logs.check(logs, rules)
    if replicas is not None:
        found += replicas_agree.check(replicas, rules)
        found += leader_epochs_agree.check(replicas, rules)
    if compacted is not None:
        found += newest_values_kept.check(compacted, rules)
    if undecided is not None:
        found += transactions_are_decided.check(undecided, rules)
    if rights is not None:
        found += revoked_rights_are_gone.check(history, rules, rights)
        found += granted_rights_work.check(history, rules, rights)
    return sorted(found, key=_number)


def failures(violations: Iterable[Violation]) -> list[Violation]:
    """Return those that must never be."""
    return [violation for violation in violations if not violation.report_only]


def summary(violations: Iterable[Violation], most: int = 3) -> str:
    """Tell people: a line for each anomaly, and the first few of each."""
    lines: list[str] = []
    for anomaly, group in groupby(sorted(violations, key=_number), key=lambda v: v.anomaly):
        each = list(group)
        note = " (expected, for the record)" if each[0].report_only else ""
        lines.append(f"{anomaly} {each[0].promise}: {len(each)}{note}")
        lines += [f"    {violation}" for violation in each[:most]]
    return "\n".join(lines) or "no anomalies"


def _number(violation: Violation) -> int:
    return int(violation.anomaly[1:])
