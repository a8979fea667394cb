"""Any sequence of events: the machine keeps its invariants, nothing committed is lost while a
complete replica can be had, and all heals when everybody is back."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller.state import DataClaim, PartitionState
from oncelog_protocol.messages import admin, replication
from support.controller_driver import Driver

IDS = (1, 2, 3)

CALM_STEPS = ["join", "lose", "suspect", "clear", "shrink", "grow", "wait", "stop", "heir", "cut"]
DATA_STEPS = ["write", "write", "fetch", "fetch", "wipe", "wipe", "lower", "raise"]


def steps_of(names: list[str]) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    return st.lists(
        st.tuples(st.sampled_from(names), st.integers(1, 3), st.integers(0, 2)), max_size=40
    )


@dataclass
class Disk:
    """It is one partition as it lies on the disks: how much each broker holds of the true log, and
    how much of that is committed. The leader is believed to know each state as soon as it is
    stored."""

    held: dict[int, int] = field(default_factory=lambda: dict.fromkeys(IDS, 0))
    fetched_in: dict[int, int] = field(default_factory=dict)
    """Leader epoch of the last fetch, by follower."""
    committed: int = 0

    def fetch(self, state: PartitionState, broker_id: int) -> None:
        self.held[broker_id] = self.held[state.leader]
        self.fetched_in[broker_id] = state.leader_epoch

    def commit(self, state: PartitionState, min_isr: int) -> None:
        """The high watermark moves: over all of the ISR, by fetches of this epoch, and only while
        it is large enough."""
        followers = [b for b in state.isr if b != state.leader]
        current = all(self.fetched_in.get(b) == state.leader_epoch for b in followers)
        if current and len(state.isr) >= min_isr and not state.elr:
            self.committed = max(self.committed, min(self.held[b] for b in state.isr))

    def check(self, state: PartitionState, registered: set[int]) -> None:
        """Check [I4] and [I5]: whoever leads, or may lead, holds all that is committed."""
        for broker_id in (*state.isr, *state.elr):
            if broker_id in registered:
                assert self.held[broker_id] >= self.committed, f"{broker_id} is not complete"


def take_step(
    driver: Driver, step: str, broker_id: int, partition: int, disks: list[Disk]
) -> Driver:
    """Take one step that may happen, if it can."""
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
        driver = driver.take_over()
    elif step == "cut":
        driver.disconnect_once(applied=bool(partition))
    elif step in ("shrink", "grow") and state.leader in driver.brokers:
        change_isr(driver, step, broker_id, partition, state, disks[partition])
    elif step in ("write", "fetch") and state.leader in driver.brokers:
        if step == "write":
            disks[partition].held[state.leader] += 1
        if there and broker_id != state.leader:
            disks[partition].fetch(state, broker_id)
        min_isr = driver.partition("t").min_isr
        disks[partition].commit(state, min_isr)
    elif step == "wipe":
        driver = wipe(driver, broker_id, partition, disks)
    elif step in ("lower", "raise"):
        entry = admin.ConfigEntry("min_insync_replicas", "1" if step == "lower" else "2")
        wish = admin.ConfigAlteration(admin.RESOURCE_TOPIC, "t", [entry])
        driver.ask(admin.AlterConfigsRequest([wish]))
    if driver.lost_track:
        driver.load()
    return driver


def change_isr(
    driver: Driver, step: str, broker_id: int, partition: int, state: PartitionState, disk: Disk
) -> None:
    """Ask as a leader does; who joins has fetched all of its log."""
    isr = set(state.isr) - {broker_id} if step == "shrink" else {*state.isr, broker_id}
    wanted = sorted({*isr, state.leader} & {*driver.brokers, *state.isr})
    if set(wanted) <= driver.brokers.keys():
        for joining in set(wanted) - set(state.isr):
            disk.fetch(state, joining)
        driver.alter_isr("t", *wanted, partition=partition)


def wipe(driver: Driver, broker_id: int, how: int, disks: list[Disk]) -> Driver:
    """A broker comes back without its data: at once, later, or unseen, under a new controller."""
    for disk in disks:
        disk.held[broker_id] = 0
        disk.fetched_in.pop(broker_id, None)
    if how == 0 and broker_id in driver.brokers:
        driver.lose_data(broker_id)
    elif how == 1 and broker_id in driver.brokers:
        driver.register(broker_id, data=DataClaim())
        driver = driver.take_over()
    else:
        driver.claims[broker_id] = DataClaim()
        if broker_id in driver.brokers:
            driver.lose(broker_id)
    return driver


def check_succession(old: PartitionState, new: PartitionState, step: str) -> None:
    """Check that a step has done nothing to a state that none may do."""
    assert new.leader_epoch >= old.leader_epoch
    assert new.version >= old.version
    assert new.leader in (-1, *new.isr)
    if new.leader not in (old.leader, -1):
        assert new.leader_epoch > old.leader_epoch
    if new != old:
        assert new.version > old.version
    members = set(new.isr) - {*old.isr, *old.elr, *old.last_known_elr}
    assert not members or step == "grow", "only a leader lets members in"
    assert new.unclean_epoch == -1


def run_steps(sequence: list[tuple[str, int, int]], min_isr: int) -> tuple[Driver, list[Disk]]:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], [2, 3, 1], [3, 1, 2], min_insync_replicas=str(min_isr))
    disks = [Disk() for _ in range(3)]
    before = [driver.state("t", p) for p in range(3)]
    for step, broker_id, partition in sequence:
        driver = take_step(driver, step, broker_id, partition, disks)
        after = [driver.state("t", p) for p in range(3)]
        for old, new, disk in zip(before, after, disks, strict=True):
            check_succession(old, new, step)
            disk.check(new, set(driver.brokers))
        before = after
    driver.fail_write = lambda ops: None
    driver.join(*(b for b in IDS if b not in driver.brokers))
    for broker_id in IDS:
        driver.clear(broker_id)
        if broker_id in driver.machine.cluster.shutting_down:
            driver.join(broker_id)
    return driver, disks


def check_healed(driver: Driver) -> None:
    for partition in range(3):
        assert driver.alter_isr("t", 1, 2, 3, partition=partition).error_code == 0
    driver.pass_time(2)
    assert [driver.state("t", p).leader for p in range(3)] == [1, 2, 3]
    assert all(not driver.state("t", p).elr for p in range(3))
    told = driver.requests[-1][1]
    assert [b.broker_id for b in told.live_brokers] == [1, 2, 3]


@given(steps_of(CALM_STEPS), st.integers(1, 3))
def test_any_sequence_keeps_the_invariants_and_heals(
    sequence: list[tuple[str, int, int]], min_isr: int
) -> None:
    driver, _ = run_steps(sequence, min_isr)
    for partition in range(3):
        assert driver.state("t", partition).leader > 0, "all are back: every partition is led"
    check_healed(driver)


@given(steps_of([*CALM_STEPS, *DATA_STEPS]), st.integers(1, 3))
def test_any_sequence_with_disks_that_are_lost(
    sequence: list[tuple[str, int, int]], min_isr: int
) -> None:
    driver, disks = run_steps(sequence, min_isr)
    for partition, disk in enumerate(disks):
        state = driver.state("t", partition)
        disk.check(state, set(IDS))
        if state.leader > 0:
            continue
        assert not state.isr, "whoever is complete leads when all are back"
        assert not state.elr
        assert state.last_known_elr
        target = admin.ElectionTarget("t", partition)
        response = driver.ask(admin.ElectLeadersRequest(True, [target]))
        assert response.partitions[0].error_code == 0
        state = driver.state("t", partition)
        assert state.unclean_epoch == state.leader_epoch
    check_healed(driver)
