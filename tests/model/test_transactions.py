"""The rules of transactions are checked exhaustively, and each is needed.

With all rules on, no reachable state shows a torn transaction, a late write, or an outcome other
than the one that the application was told; and every transaction can still be decided. Without one
of them the search finds a way to harm; its steps are printed when a test fails.
"""

from __future__ import annotations

import pytest

from model.explore import Found, explore
from model.transactions import RULES, ModelRules, State, TransactionModel, without


def check(rules: ModelRules, transactions: int = 2) -> Found[State]:
    model = TransactionModel(rules, transactions)
    return explore(model.start(), model.steps, model.wrong, model.is_end)


def test_the_protocol_holds_for_one_transaction() -> None:
    assert not (found := check(ModelRules(), 1)).problem, found


@pytest.mark.nightly
def test_the_protocol_holds() -> None:
    found = check(ModelRules())
    assert not found.problem, found
    assert found.states > 50_000


WITHOUT = [
    (("bump_epoch_per_txn",), 2, "transaction 1 is visible"),
    (("empty_abort_bumps",), 2, "transaction 0 is visible"),
    (("verify_transactions",), 2, "transaction 0 is visible"),
    (("verify_transactions",), 1, "no end is in reach"),
    (("markers_need_newer_epoch",), 2, "transaction 1 is visible"),
    (("equal_marker_is_acknowledged",), 1, "no end is in reach"),
    (("next_waits_for_markers",), 2, "transaction 0 was committed and is aborted"),
    (("prepare_before_markers",), 1, "transaction 0 was committed and is aborted"),
    (("add_is_durable",), 1, "no end is in reach"),
    (("end_checks_epoch",), 2, "transaction 1 is visible"),
    (("retry_checks_result",), 1, "transaction 0 was committed and is aborted"),
    (("reinit_after_indefinite",), 2, "transaction 1 is visible"),
    # Each of these two does what the other does: it takes both to do harm.
    (("guard_ends_with_marker", "epoch_at_append"), 2, "transaction 0 is visible"),
]


BY_NIGHT = (("end_checks_epoch",), ("guard_ends_with_marker", "epoch_at_append"))
"""Without these the search is longest."""


@pytest.mark.parametrize(
    ("rules", "transactions", "harm"),
    [
        pytest.param(
            rules,
            transactions,
            harm,
            id=f"{'+'.join(rules)}-{transactions}",
            marks=[pytest.mark.nightly] if rules in BY_NIGHT else [],
        )
        for rules, transactions, harm in WITHOUT
    ],
)
def test_without_a_rule_harm_is_done(rules: tuple[str, ...], transactions: int, harm: str) -> None:
    found = check(without(*rules), transactions)
    assert found.problem.startswith(harm), found
    assert found.trace


def test_every_rule_is_shown_to_be_needed() -> None:
    assert {rule for rules, _, _ in WITHOUT for rule in rules} == set(RULES)
