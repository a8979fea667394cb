"""A refusal proves a death only sometimes; else the controller asks."""

from __future__ import annotations

from oncelog_controller.evidence import ASK_AGAIN_MAX_S, QUIET_MAX_S, QUIET_S, Evidence


def test_a_refusal_proves_the_death_of_a_life_that_was_met_and_only_once() -> None:
    evidence = Evidence()
    assert not evidence.proves(1, 10, 0.0)
    evidence.met(1, 10, 0.0)
    assert evidence.proves(1, 10, 1.0)
    assert not evidence.proves(1, 10, 1.0)


def test_another_life_is_another_matter() -> None:
    evidence = Evidence()
    evidence.met(1, 10, 0.0)
    assert not evidence.proves(1, 11, 1.0)
    evidence.met(1, 11, 1.0)
    assert evidence.proves(1, 11, 2.0)
    assert not evidence.proves(2, 11, 2.0)


def test_after_a_false_alarm_nothing_is_proof_for_a_while() -> None:
    evidence, now = Evidence(), 0.0
    for alarms in range(12):
        evidence.met(1, 10, now)
        assert evidence.proves(1, 10, now)
        evidence.met(1, 10, now)  # it lives
        quiet_s = min(QUIET_S * 2**alarms, QUIET_MAX_S)
        assert not evidence.proves(1, 10, now + 0.9 * quiet_s)
        assert evidence.asks(1, 10, now), "but it may be asked at once, having been met"
        evidence.unasked(1, 10)
        now += quiet_s


def test_one_question_at_a_time_and_ever_less_often() -> None:
    evidence, now = Evidence(), 0.0
    for alarms in range(6):
        assert evidence.asks(1, 10, now)
        assert not evidence.asks(1, 10, now)
        evidence.objected(1, 10, now)
        pause_s = min(QUIET_S * 2**alarms, ASK_AGAIN_MAX_S)
        assert not evidence.asks(1, 10, now + 0.9 * pause_s)
        now += pause_s


def test_who_was_silent_and_comes_back_was_a_false_alarm() -> None:
    evidence = Evidence()
    assert evidence.asks(1, 10, 0.0)
    evidence.silent(1, 10)
    evidence.met(1, 10, 5.0)
    assert not evidence.proves(1, 10, 5.5)
    assert evidence.proves(1, 10, 5.0 + QUIET_S)


def test_a_question_that_could_not_be_put_changes_nothing() -> None:
    evidence = Evidence()
    assert evidence.asks(1, 10, 0.0)
    evidence.unasked(1, 10)
    assert evidence.asks(1, 10, 0.0)
