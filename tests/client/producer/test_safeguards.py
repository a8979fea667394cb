"""Each rule of a producer is left out by one of those that lack one."""

from __future__ import annotations

from oncelog.producer.safeguards import ProducerSafeguards
from support.safeguards import decisions, left_out
from unsafe.producer import UNSAFE


def test_every_rule_can_be_left_out() -> None:
    assert left_out(UNSAFE.values()) == decisions(ProducerSafeguards)
