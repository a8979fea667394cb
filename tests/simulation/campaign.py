"""It leads one seed from its first draw to its verdict.

    result = run_seed(17)

A run has a *safety* phase, in which the nemesis breaks things while clients work, and a *liveness*
phase: everything, or only a core of the brokers, is healed and must converge in bounded virtual
time. Then every partition is read from its beginning, and all promises are held against the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from oncelog.history_events import HistoryEvent
from oncelog_broker.coordinator.transaction import ordinary
from oncelog_broker.replication.partition import Partition
from oncelog_controller.znodes import MOVES
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation import dir_faults as _of_dirs  # noqa: F401
from simulation import dir_invariants, move_invariants, retention_invariants, service_faults
from simulation import disk_faults as _of_disks  # noqa: F401
from simulation import gray_faults as _gray  # noqa: F401
from simulation import group_faults as _of_groups  # noqa: F401
from simulation import identity_faults as _identity  # noqa: F401
from simulation import move_faults as _of_moves  # noqa: F401
from simulation import security_strikes as _of_security  # noqa: F401
from simulation import topic_faults as _of_topics  # noqa: F401
from simulation import txn_strikes as _of_transactions  # noqa: F401
from simulation.checkers.verdict import failures, verdict
from simulation.checkers.violation import Rules
from simulation.cluster import SimCluster
from simulation.coverage import Coverage
from simulation.forgeries import forged_order as _of_orders  # noqa: F401
from simulation.group_workload import GroupWorkload
from simulation.history import History
from simulation.invariants import Invariants, InvariantViolation
from simulation.knobs import Knobs
from simulation.loop import SimLoop, SimulationError, until
from simulation.nemesis import Nemesis
from simulation.security_workload import SecurityWorkload
from simulation.shared_txn_workload import Owner
from simulation.shunning import shunned as _of_evidence  # noqa: F401
from simulation.stall_invariants import StallInvariants
from simulation.strikes import wipe_a_joiner as _registered  # noqa: F401
from simulation.txn_workload import TxnWorkload
from simulation.workload import COMPACTED, TOPIC, Workload

logger = logging.getLogger("simulation")

SAFETY_S = 60.0
CONVERGE_S = 60.0
"""After healing: all brokers serve, all replicas are in sync, writes are acknowledged."""

CHECK_EVERY_S = 0.03

ALLOWED_LOG_LINES = (
    r"^log_dir_(offline|full) ",
    r"^log_away ",
    r"^broker_failed .*no log directory is usable",
    r"^follower_cannot_write .*(is full|failed)",
    r"^follower_stopped ",
    r"^replica_not_deleted .*\[Errno",
    r"^replica_without_log .*(in a directory that is offline|no log directory is online|Errno)",
    r"no poll for \d+ ms, so this member has left the group",
    r"another member has taken over the instance id",
)
"""Alarms that disks which fail explain, and members that dawdle."""

FENCED_LOG_LINES = (
    r"no more transactions here: .*the present producer is",
    r"no more transactions here: .*a newer (producer|instance)",
    r"producer closed after an error: .*a newer producer",
)
"""Alarms that somebody else with the same transactional id explains, or that a transaction which
ends by number has timed out: such a client is fenced by that, as by Kafka."""

CLONE_LOG_LINES = (r"is registered by another process",)
"""The alarm of a broker that lost its session while a clone of its directories waited for that: it
ends, for the other one has its id."""

SECURED_LOG_LINES = (
    r"^clients_refused ",
    r"(AuthorizationFailed|AuthenticationFailed)Error",
)
"""Alarms of a broker that cannot know what was revoked, and of clients that are refused."""

FENCING = frozenset({"hijack", "pause_txn_client", "late_requests"})

ROTTING = ("rot", "rot_of_donor")
"""Faults that flip bits."""

HARMLESS = frozenset({"move_some", "retarget", "cancel_some", "move_to_and_fro", "slow_lane"})
"""These faults keep no replica from being in sync, where they are the only ones."""

ROT_LOG_LINES = (
    r"^(log|replica|segment)_damaged ",
    r"is damaged: ",
    r"^role_not_changed .*the log is damaged",
    r"^follower_cannot_write .* at byte \d+",
    r"^follower_data_refused ",
    r"^follower_lost_records ",
)
"""Alarms that rot explains."""


@dataclass(slots=True)
class Options:
    """A run may be told these besides its seed."""

    safety_s: float = SAFETY_S
    faults: Sequence[str] | None = None
    """Only these, instead of those that the seed draws."""
    skip: Collection[str] = ()
    """Ids of faults that are left out: see ``Nemesis``."""
    knobs: Knobs | None = None
    forced: Mapping[str, Any] = field(default_factory=dict)
    """These knobs instead of what the seed draws."""
    safeguards: dict[str, Any] = field(default_factory=dict)
    """More arguments for every ``Broker``: rules to switch off."""
    trace: Callable[[str], object] | None = None
    """Takes every line of the trace."""
    logs: Callable[[str], None] | None = None
    """Takes every line that the product logs, with virtual time and host."""


@dataclass(slots=True)
class Result:
    """It is what became of a seed."""

    seed: int | str
    problems: list[str]
    """Empty: clean. The first line of each names the promise."""
    trace_hash: str
    simulated_s: float
    steps: int
    coverage: Counter[str]
    faults: Counter[str]
    fault_ids: list[str]
    knobs: str
    events: list[HistoryEvent]
    trace_tail: str = ""

    @property
    def clean(self) -> bool:
        """Return whether every promise was kept."""
        return not self.problems


def run_seed(seed: int | str, options: Options | None = None) -> Result:
    """Run one seed to its end."""
    run = Run(seed, options or Options())
    with (
        run.logging(),
        run.epochs(),
        run.coverage.listening(lambda: run.loop.now_s, lambda: run.loop.current.name),
    ):
        try:
            run.loop.run(run.main())
        except InvariantViolation as error:
            run.problems.append(f"{error}")
        except (SimulationError, TimeoutError) as error:
            run.problems.append(f"liveness: {error}")
        except Exception as error:  # must not pass as clean, nor end a campaign
            logger.exception("the simulator failed")
            run.problems.append(f"simulator: {error!r}")
    return run.result()


def run_quietly(seed: int | str, seconds: float, forced: Mapping[str, Any] | None = None) -> Result:
    """Return a result without its events, for those who run many in other processes."""
    result = run_seed(seed, Options(safety_s=seconds, forced=forced or {}))
    result.events.clear()
    return result


class Run:
    """It has the parts of one run, and its course."""

    def __init__(self, seed: int | str, options: Options) -> None:
        self.seed = seed
        self.options = options
        self.entropy = SeededEntropy(seed)
        self.knobs = options.knobs or Knobs.draw(self.entropy.fork("knobs"), options.forced)
        self.loop = SimLoop(seed)
        self.loop.keep_trace = True
        self.loop.trace_sink = options.trace
        self.coverage = Coverage()
        self.events: list[HistoryEvent] = []
        self.problems: list[str] = []
        self.stalls = StallInvariants()
        self.nemesis: Nemesis | None = None

    async def main(self) -> None:
        """Run the course."""
        self.cluster = cluster = SimCluster(
            self.loop, self.knobs, self.entropy, safeguards=self.options.safeguards
        )
        self.invariants = Invariants(cluster, self.coverage, sound_members=cluster.sound_members)
        workload = Workload(cluster, self.entropy.fork("workload"), self._note)
        groups = GroupWorkload(cluster, self.entropy.fork("groups"), self._note, [*workload.topics])
        txns = TxnWorkload(
            cluster,
            self.entropy.fork("transactions"),
            self._note,
            source=TOPIC,
            others=workload.partitions,
            keyed=COMPACTED,
        )
        for number in range(1, self.knobs.owners + 1):
            name = f"client-owner-{number}"
            chance = self.entropy.fork("transactions").fork(name)
            txns.clients.append(Owner(txns, name, f"shared-{number}", chance))
        self.security = SecurityWorkload(
            cluster, self.entropy.fork("security"), self._note, workload.partitions_of(TOPIC)
        )
        await cluster.start()
        await workload.create_topic()
        await txns.create_topics()
        if groups.members and self.entropy.fork("early").random() < 0.7:
            await groups.find_coordinator(timeout_s=CONVERGE_S)
        checking = self.loop.create_task(self._check(), name="invariants")
        self.nemesis = Nemesis(
            cluster,
            self.entropy.fork("nemesis"),
            self.invariants,
            only=self.options.faults,
            skip=self.options.skip,
            groups=groups,
            txns=txns,
            security=self.security,
        )
        workload.start()
        groups.start()
        txns.start()
        self.security.start()
        self.nemesis.start()
        await self._while_safe(checking, asyncio.sleep(self.options.safety_s))
        await self.nemesis.stop()
        if self.nemesis.applied["clock_jump"]:
            self.invariants.rules.deletions_may_be_missed = True
        await self._while_safe(checking, self._end(workload, groups, txns))
        checking.cancel()
        self._judge(workload, groups, txns)

    async def _while_safe(self, checking: asyncio.Task[None], course: Any) -> None:
        """Go on, unless an invariant breaks."""
        task = asyncio.ensure_future(course)
        await asyncio.wait([task, checking], return_when=asyncio.FIRST_COMPLETED)
        if checking.done():
            task.cancel()
            checking.result()
        await task

    async def _check(self) -> None:
        while True:
            retention_invariants.check(self.cluster.brokers)
            self.stalls.check(self.cluster, self.loop.now_s)
            self.invariants.check(self.loop.now_s)
            await asyncio.sleep(CHECK_EVERY_S)

    def _note(self, event: HistoryEvent) -> None:
        self.events.append(event)
        self.loop.trace(f"{event.process} {event.client} {event.f} {event.type} {event.number}")
        self.invariants.note(event)

    @contextmanager
    def epochs(self) -> Iterator[None]:
        """Producer epochs come to their end as soon as the knobs say."""
        before = ordinary.PRODUCER_EPOCH_MAX
        ordinary.PRODUCER_EPOCH_MAX = self.knobs.producer_epoch_max
        try:
            yield
        finally:
            ordinary.PRODUCER_EPOCH_MAX = before

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Hand the product's log lines to whoever wants them."""
        if self.options.logs is None:
            yield
            return
        handler = _LogLines(self.loop, self.options.logs)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)

    # -- the end -----------------------------------------------------------------------------

    async def _end(self, workload: Workload, groups: GroupWorkload, txns: TxnWorkload) -> None:
        cluster, nemesis = self.cluster, self.nemesis
        assert nemesis is not None
        chance = self.entropy.fork("core")
        if any(nemesis.applied[name] for name in ROTTING):
            # Also before the core is alone: who has rot may need just the one that is not there.
            await until(
                nemesis.rots.mended, timeout_s=CONVERGE_S, what="rot found and mended", every_s=0.5
            )
        if nemesis.applied["hung_disk"] or nemesis.applied["disk_full"]:
            # Its broker gave the directory up long after the fault began, or gave way since it had
            # no room. Another replica may have been behind by then, so that for a while one broker
            # is the last whole copy.
            await until(
                self._vouched_for_by_two, timeout_s=CONVERGE_S, what="two whole copies of each"
            )
        if self._core_suffices() and chance.random() < 0.4:
            dead = chance.choice(cluster.ids)
            self.loop.trace(f"core without broker-{dead}")
            cluster.crash_broker(dead)
            await workload.probe(timeout_s=CONVERGE_S)
            self.coverage.hit("core_of_two")
            cluster.start_broker(dead)
        await cluster.converged(timeout_s=CONVERGE_S)
        await service_faults.back_in_service(nemesis, timeout_s=CONVERGE_S)
        await self.security.restore(timeout_s=CONVERGE_S)
        await self.security.stop(timeout_s=CONVERGE_S)
        await workload.stop(timeout_s=CONVERGE_S)
        await self._end_transactions(workload, txns)
        await workload.probe(timeout_s=CONVERGE_S)
        await until(self._at_rest, timeout_s=CONVERGE_S, what="all replicas in sync")
        ends = self._ends([*workload.partitions, *txns.partitions])
        await groups.catch_up(ends, timeout_s=CONVERGE_S)
        await groups.stop(timeout_s=CONVERGE_S)
        await workload.final_polls(ends, timeout_s=CONVERGE_S)
        # Leaderships may just have gone back to the preferred replicas.
        await until(self._at_rest_now, timeout_s=CONVERGE_S, what="all replicas in sync")
        self.invariants.quiescent_check()

    async def _end_transactions(self, workload: Workload, txns: TxnWorkload) -> None:
        """Let what is open be ended or run out; let what is left be copied."""
        timeout_s = CONVERGE_S + self.knobs.transaction_timeout_ms / 1000
        await txns.quieten(timeout_s=timeout_s)
        await until(self._decided, timeout_s=timeout_s, what="every transaction decided")
        await until(self._at_rest, timeout_s=CONVERGE_S, what="all replicas in sync")
        await txns.catch_up(self._ends_of_data(workload.partitions), timeout_s=timeout_s)
        await txns.stop(timeout_s=timeout_s)
        await until(self._decided, timeout_s=timeout_s, what="every transaction decided")

    def _decided(self) -> bool:
        """No partition has an open transaction."""
        return not any(self.invariants.txns.undecided().values())

    def _ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {name: self._leader_log_end(name) for name in partitions}

    def _ends_of_data(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Behind the last record for readers: a transaction commits what it was handed."""
        holes = self.invariants.txns.holes()
        ends = self._ends(partitions)
        for name in ends:
            while ends[name] - 1 in holes.get((name.topic, name.partition), ()):
                ends[name] -= 1
        return ends

    def _core_suffices(self) -> bool:
        """Return whether what any two brokers hold is all that was committed. Where partitions
        move, one may have just two replicas."""
        same = self.knobs.min_insync_replicas == 2 and self.knobs.flush == "commit"
        return same and not self.knobs.moves

    def _vouched_for_by_two(self) -> bool:
        """Return whether two brokers may lead each partition that has more than one replica."""
        self.invariants.check(self.loop.now_s)
        return all(
            len({*stored.state.isr, *stored.state.elr}) >= min(2, len(stored.replicas))
            for stored in self.invariants.store.partitions.values()
        )

    def _at_rest_now(self) -> bool:
        """Return the same by what the store holds at this moment, and not when it was last looked
        at: a leader may have been chosen since who has not heard of it."""
        self.invariants.check(self.loop.now_s)
        return self._at_rest()

    def _at_rest(self) -> bool:
        """Every partition has a leader, all replicas in sync, nothing uncommitted."""
        if not self.cluster.settled():
            return False
        plans = self.cluster.zookeeper.tree(MOVES)
        partitions = self.invariants.store.partitions
        if move_invariants.unrest(partitions, self.cluster.brokers, plans):
            return False
        if dir_invariants.unrest(self.cluster.brokers):
            return False
        for name, stored in self.invariants.store.partitions.items():
            state = stored.state
            if len(state.isr) < len(stored.replicas) or state.leader < 0:
                return False
            leader = self._replica(state.leader, name)
            if leader is None or not leader.is_leader:
                return False
            ends = set()
            for broker_id in stored.replicas:
                replica = self._replica(broker_id, name)
                if replica is None:
                    return False
                ends.add((replica.log.log_end_offset, replica.high_watermark))
            if len(ends) != 1 or len(set(ends.pop())) != 1:
                return False
        return True

    def _replica(self, broker_id: int, name: TopicPartition) -> Partition | None:
        """A broker that has just begun may not have heard of its replicas yet."""
        replicas = self.cluster.brokers[broker_id].replicas.partitions()
        return next((replica for replica in replicas if replica.topic_partition == name), None)

    def _leader_log_end(self, name: TopicPartition) -> int:
        leader = self._replica(self.invariants.store.partitions[name].state.leader, name)
        assert leader is not None
        return leader.high_watermark

    # -- judging -----------------------------------------------------------------------------

    def _judge(self, workload: Workload, groups: GroupWorkload, txns: TxnWorkload) -> None:
        rules = Rules(
            idempotent=self.knobs.idempotent,
            ordered=self.knobs.idempotent,
            offsets_told=self.knobs.idempotent,
            # A leader that does not know that it is deposed sends readers back: its log is short.
            resets_permitted=True,
            allowed_log_lines=self._allowed_log_lines(),
            groups={
                group: [(name.topic, name.partition) for name in workload.partitions]
                for group in groups.groups
            },
            offsets_expire_after_s=self._offsets_expire_after_s(),
            sessions_expire_after_s=self.knobs.session_timeout_ms / 1000,
            superseded=self.invariants.superseded(),
            deletions_may_be_missed=self.invariants.rules.deletions_may_be_missed,
        )
        history = History.from_events(self.events)
        self.security.judge_logs(self.coverage.lines)
        found = verdict(
            history,
            rules,
            replicas=self.invariants.replicas(),
            logs=self.coverage.lines,
            compacted=self.invariants.compacted(),
            holes=self.invariants.txns.holes(),
            undecided=self.invariants.txns.undecided(),
            rights=self.security.rights,
        )
        self.problems += [str(violation) for violation in failures(found)]
        lagged = self.coverage.counts["follower_lags"]
        if lagged and self.nemesis is not None and HARMLESS.issuperset(self.nemesis.faults):
            self.problems.append(f"N104: {lagged} ISRs shrank without a fault, as members lagged")
        if self.nemesis is not None:
            self.problems += self.nemesis.skipped
        self.problems += [f"client raised {error!r}" for error in workload.failures]
        self.problems += [f"member raised {error!r}" for error in groups.failures]
        self.problems += [f"subject raised {error!r}" for error in self.security.failures]
        self.problems += [f"transactional client raised {error!r}" for error in txns.failures]
        self.coverage.hit("txn_markers_commit", self.invariants.txns.committed)
        self.coverage.hit("txn_markers_abort", self.invariants.txns.aborted)
        if txns.late is not None:
            self.coverage.hit("txn_requests_again", txns.late.sent)
        for what, times in self.security.counts.items():
            self.coverage.hit(what, times)
        for what, times in txns.counts.items():
            self.coverage.hit(f"txn_{what}", times)
        self.problems += [
            f"unhandled in the loop: {each.get('message')}: {each.get('exception')!r}"
            for each in self.loop.unhandled
        ]

    def _allowed_log_lines(self) -> tuple[str, ...]:
        applied = self.nemesis.applied if self.nemesis is not None else Counter()
        allowed: tuple[str, ...] = ALLOWED_LOG_LINES
        if any(applied[name] for name in ROTTING):
            allowed += ROT_LOG_LINES
        if applied["clone"]:
            allowed += CLONE_LOG_LINES
        if FENCING.intersection(applied) or self.knobs.older:
            allowed += FENCED_LOG_LINES
        if self.knobs.secured:
            allowed += SECURED_LOG_LINES
        return allowed

    def _offsets_expire_after_s(self) -> float | None:
        """Return how long a group must be silent until it may lose its offsets. A broker whose
        clock jumps may believe any time that; one that is ahead of who stamped the commit, that
        much less."""
        if self.nemesis is not None and self.nemesis.applied["clock_jump"]:
            return 0.0 if self.knobs.offsets_retention_ms < 604_800_000 else None
        kept_ms = self.knobs.offsets_retention_ms * (1 - self.knobs.clock_rate_spread)
        return (kept_ms - self.cluster.clocks_differ_ms) / 1000

    def result(self) -> Result:
        return Result(
            self.seed,
            self.problems,
            self.loop.trace_hash(),
            self.loop.now_s,
            self.loop.steps,
            self.coverage.counts,
            self.nemesis.applied if self.nemesis is not None else Counter(),
            self.nemesis.ids if self.nemesis is not None else [],
            self.knobs.describe(),
            self.events,
            "" if not self.problems else self.loop.recent(),
        )


class _LogLines(logging.Handler):
    """Its lines have virtual time and host."""

    def __init__(self, loop: SimLoop, sink: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._loop = loop
        self._sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        where = f"{self._loop.now_s:10.4f} {self._loop.current.name or '-':<9}"
        name = record.name.rpartition(".")[2]
        self._sink(f"{where} {record.levelname:<7} {name}: {record.getMessage()}")
