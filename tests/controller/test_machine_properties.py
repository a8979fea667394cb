"""Any sequence of events: the machine keeps its invariants, and heals when everybody is back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.messages import replication
from support.controller_driver import Driver

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["join", "lose", "suspect", "clear", "shrink", "grow", "wait", "stop", "heir", "cut"]
        ),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
    max_size=40,
)


def take_step(driver: Driver, step: str, broker_id: int, partition: int) -> Driver:
    """One thing that may happen, if it can."""
    there = broker_id in driver.brokers
    state = driver.partition("t", partition).state
    assert state is not None
    if step == "join":
        driver.join(broker_id)
    elif step == "lose" and there:
        driver.lose(broker_id)
    elif step == "suspect" and there:
        driver.suspect(broker_id)
    elif step == "clear" and there:
        driver.clear(broker_id)
    elif step == "wait":
        driver.pass_time(1.5)
    elif step == "stop" and there:
        driver.ask(
            replication.ControlledShutdownRequest(broker_id, driver.brokers[broker_id].broker_epoch)
        )
    elif step == "heir":
        return driver.take_over()
    elif step == "cut":
        driver.disconnect_once(applied=bool(partition))
    elif step in ("shrink", "grow") and state.leader in driver.brokers:
        isr = set(state.isr) - {broker_id} if step == "shrink" else {*state.isr, broker_id}
        wanted = sorted({*isr, state.leader} & {*driver.brokers, *state.isr})
        if set(wanted) <= driver.brokers.keys():
            driver.alter_isr("t", *wanted, partition=partition)
    if driver.lost_track:
        driver.load()
    return driver


@given(steps, st.integers(1, 3))
def test_any_sequence_keeps_the_invariants_and_heals(
    sequence: list[tuple[str, int, int]], min_isr: int
) -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], [2, 3, 1], [3, 1, 2], min_insync_replicas=str(min_isr))
    before = [driver.state("t", p) for p in range(3)]
    for step, broker_id, partition in sequence:
        driver = take_step(driver, step, broker_id, partition)
        after = [driver.state("t", p) for p in range(3)]
        for old, new in zip(before, after, strict=True):
            assert new.isr
            assert new.leader_epoch >= old.leader_epoch
            assert new.version >= old.version
            assert new.leader in (-1, *new.isr)
            if new.leader != old.leader:
                assert new.leader_epoch > old.leader_epoch
            if new != old:
                assert new.version > old.version
            members = set(new.isr) - set(old.isr)
            assert not members or step == "grow", "only a leader lets members in"
        before = after
    driver.fail_write = lambda ops: None
    driver.join(*(b for b in (1, 2, 3) if b not in driver.brokers))
    for broker_id in (1, 2, 3):
        driver.clear(broker_id)
        if broker_id in driver.machine.cluster.shutting_down:
            driver.join(broker_id)
    for partition in range(3):
        assert driver.state("t", partition).leader > 0, "all are back: every partition is led"
        assert driver.alter_isr("t", 1, 2, 3, partition=partition).error_code == 0
    driver.pass_time(2)
    assert [driver.state("t", p).leader for p in range(3)] == [1, 2, 3]
    told = driver.requests[-1][1]
    assert [b.broker_id for b in told.live_brokers] == [1, 2, 3]
