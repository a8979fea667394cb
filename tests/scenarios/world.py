"""One scenario has a world: a calm simulated cluster, its clients, and the promises it must keep.

Rules: one seed, calm knobs, no drawn faults: what a scenario prints follows from its commands. The
invariants are checked all the time and after every command. At the end all promises are held
against the run, as after a seed of the campaign, and whatever is alarming must have been shown by
the scenario itself: log lines of ERROR and worse by ``alarms``, permitted loss by ``lost``.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields, replace
from typing import Any, TypeVar

from oncelog.history_events import HistoryEvent, HistoryRecorder
from oncelog_broker.app import Broker
from oncelog_broker.config import BrokerConfig
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_controller.store import BadVersionError, CheckVersion, Op
from oncelog_controller.znodes import CONTROLLER_EPOCH
from oncelog_protocol.errors import StaleBrokerEpochError, StaleControllerEpochError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from scenarios.grammar import CommandError
from simulation.ablations import arguments
from simulation.campaign import ALLOWED_LOG_LINES, CHECK_EVERY_S
from simulation.checkers.no_alarm_in_the_logs import check as alarms_in
from simulation.checkers.verdict import failures, verdict
from simulation.checkers.violation import Rules
from simulation.cluster import DATA, SimCluster
from simulation.coverage import Coverage
from simulation.history import History
from simulation.invariants import Invariants
from simulation.knobs import Knobs
from simulation.log_view import DiskLog, LogView, RunningLog, names_on_disk
from simulation.loop import Process, SimLoop, until
from simulation.store_view import StoredPartition

T = TypeVar("T")

SEED = "scenario"
PATIENCE_S = 30.0
"""How long a wait waits, in virtual time, unless it says otherwise."""

CALM = Knobs(zookeeper_session_timeout_ms=3000, replica_lag_time_max_ms=1500)
SETTINGS: dict[str, str] = {"auto_leader_rebalance_enable": "false"}
"""Unless a scenario says otherwise leaders move only when its commands move them."""


class ScenarioCluster(SimCluster):
    """Every setting of its brokers can be set."""

    def __init__(
        self,
        loop: SimLoop,
        knobs: Knobs,
        settings: dict[str, Any],
        safeguards: dict[str, Any],
        seed: str,
    ) -> None:
        super().__init__(loop, knobs, SeededEntropy(seed), safeguards=safeguards)
        self.settings = settings

    def config(self, broker_id: int) -> BrokerConfig:
        """Return the calm settings with those of the scenario."""
        known = super().config(broker_id).model_dump()
        return BrokerConfig.model_validate({**known, **self.settings})

    async def start_in_order(self, first: int) -> None:
        """Start them one after the other, so that it is known who becomes controller."""
        for broker_id in sorted(self.ids, key=lambda each: (each != first, each)):
            self.loop.create_task(self._supervise(broker_id), name=f"supervisor-{broker_id}")
            self.start_broker(broker_id)
            await until(
                lambda started=broker_id: started in self.serving,  # type: ignore[misc]
                timeout_s=PATIENCE_S,
                what=f"broker {broker_id} serving",
            )
        await self.converged(timeout_s=PATIENCE_S)


class World:
    """The commands act on this. One for each run of a scenario."""

    def __init__(self, without: str = "", seed: str = SEED) -> None:
        """:param without: a rule to switch off (see ``ablations``), to see the scenario fail.
        :param seed: everything that is drawn follows from it: delays, ids, keys.
        """
        self.loop = SimLoop(seed)
        self.seed = seed
        self.without = without
        self.coverage = Coverage()
        self.events: list[HistoryEvent] = []
        self.begun: dict[str, asyncio.Task[str]] = {}
        """What goes on beside the scenario's commands, by its name."""
        self.readers: dict[str, Any] = {}
        """Open consumers: see ``clients``."""
        self.members: dict[str, Any] = {}
        """Members of groups: see ``commands_groups``."""
        self.tellers: dict[str, Any] = {}
        """Producers with a transactional id: see ``commands_txns``."""
        self.told_events = 0
        """How many events the command ``story`` has told."""
        self.killed_coordinator = 0
        self.refusals: dict[int, list[str]] = {}
        """Orders that each broker has refused as stale."""
        self.fenced: dict[int, list[str]] = {}
        """By session, what was to be written when the store refused it for its controller epoch."""
        self.on_write: list[Callable[[int, list[Op]], None]] = []
        """Told of every write that the store has applied, before anybody else is."""
        self.outside = False
        """Somebody writes who is not in the history."""
        self.broken_up = False
        """Something is cut, held or paused that no command has taken back."""
        self._cluster: ScenarioCluster | None = None
        self._invariants: Invariants | None = None
        self._checking: asyncio.Task[None] | None = None
        self._told_alarms = 0
        self._lost_told = False
        self._clients = 0
        self._deletions: Counter[str] = Counter()

    @property
    def cluster(self) -> ScenarioCluster:
        """Return the cluster. :raises CommandError: there is none yet."""
        if self._cluster is None:
            raise CommandError("there is no cluster yet: begin with the command cluster")
        return self._cluster

    @property
    def invariants(self) -> Invariants:
        assert self._invariants is not None
        return self._invariants

    # ---- the beginning

    async def start(self, settings: dict[str, str]) -> None:
        """Build the cluster and start it. :raises CommandError: an unknown setting."""
        if self._cluster is not None:
            raise CommandError("there is a cluster already")
        first = int(settings.pop("controller", "1"))
        knobs, others = _knobs(settings)
        safeguards = arguments(self.without) if self.without else {}
        self._cluster = cluster = ScenarioCluster(
            self.loop, knobs, {**SETTINGS, **others}, safeguards, self.seed
        )
        cluster.on_broker.append(self._hear_refusals)
        self._hear_writes()
        self._invariants = Invariants(cluster, self.coverage, sound_members=cluster.sound_members)
        await cluster.start_in_order(first)
        self._checking = self.loop.create_task(self._check(), name="invariants")

    def _hear_refusals(self, broker_id: int, broker: Broker) -> None:
        check, told = broker.fence.check, self.refusals.setdefault(broker_id, [])

        def hear(controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
            try:
                check(controller_id, controller_epoch, broker_epoch)
            except (StaleControllerEpochError, StaleBrokerEpochError) as error:
                text = f"controller {controller_id} of epoch {controller_epoch}: {error.name}"
                if text not in told:
                    told.append(text)
                raise

        broker.fence.check = hear  # type: ignore[method-assign]

    def _hear_writes(self) -> None:
        zookeeper = self.cluster.zookeeper
        write = zookeeper.write

        def hear(session: Any, ops: list[Op], *, multi: bool) -> Any:
            try:
                results = write(session, ops, multi=multi)
            except BadVersionError as error:
                if error.op_index is not None and ops[error.op_index].path == CONTROLLER_EPOCH:
                    written = next(op.path for op in ops if not isinstance(op, CheckVersion))
                    self.fenced.setdefault(session.session_id, []).append(written)
                raise
            for listener in list(self.on_write):
                listener(session.session_id, ops)
            return results

        zookeeper.write = hear  # type: ignore[method-assign]

    # ---- while it runs

    async def _check(self) -> None:
        while True:
            self.invariants.check(self.loop.now_s)
            await asyncio.sleep(CHECK_EVERY_S)

    async def safely(self, course: Awaitable[T]) -> T:
        """Wait for something, unless an invariant breaks meanwhile; check them again after it.

        :raises InvariantViolation:
        """
        task = asyncio.ensure_future(course)
        watched = [task] if self._checking is None else [task, self._checking]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if self._checking is not None and self._checking.done():
            task.cancel()
            self._checking.result()
        result = await task
        if self._invariants is not None:
            self._invariants.check(self.loop.now_s)
        return result

    async def until(self, condition: Callable[[], bool], what: str, within: float | None) -> None:
        """Wait for something to become true. :raises CommandError: it does not."""
        patience_s = PATIENCE_S if within is None else within
        try:
            await until(condition, timeout_s=patience_s, what=what, every_s=0.01)
        except TimeoutError as error:
            raise CommandError(str(error)) from None

    # ---- clients

    def client(self, name: str = "") -> Process:
        """Start a new client process on a host of its own."""
        self._clients += 1
        return self.cluster.client_process(name or f"client-{self._clients}")

    def recorder(self, process: Process, kind: str) -> HistoryRecorder:
        """Return what takes down what a client tells the history."""
        return HistoryRecorder(process.name, self._note, lambda: self.loop.now_s, client=kind)

    async def as_client(
        self, work: Callable[[Process], Coroutine[Any, Any, T]], name: str = ""
    ) -> T:
        """Do something as a client process that lives only for it."""
        process = self.client(name)
        try:
            return await process.call(work(process), process.name)
        finally:
            process.kill()

    def deleted(self, topic: str) -> None:
        """A topic is gone: what is written under its name from now on is in another one."""
        self._deletions[topic] += 1

    def _note(self, event: HistoryEvent) -> None:
        self.invariants.note(event)
        mops = tuple(
            mop._replace(topic=mop.topic + "'" * self._deletions[mop.topic]) for mop in event.mops
        )
        self.events.append(event._replace(mops=mops))

    def bury(self) -> None:
        """The run is over: nobody closes what is open."""
        for teller in self.tellers.values():
            teller.bury()
        self.tellers.clear()

    # ---- looking

    def stored(self, name: TopicPartition) -> StoredPartition:
        """Return what the store says of a partition. :raises CommandError: there is none."""
        self.invariants.store.update()
        found = self.invariants.store.partitions.get(name)
        if found is None:
            raise CommandError(f"there is no partition {name}")
        return found

    def session_of(self, broker_id: int) -> int:
        """Return the broker's session with the store. :raises CommandError: it has none."""
        store = self.cluster.stores.get(broker_id)
        if store is None or store.session is None:
            raise CommandError(f"broker {broker_id} has no session with the store")
        return store.session.session_id

    def running(self, broker_id: int) -> Broker:
        """Return a broker that runs. :raises CommandError: it does not."""
        broker = self.cluster.brokers.get(broker_id)
        if broker is None:
            raise CommandError(f"broker {broker_id} does not run")
        return broker

    def log_of(self, broker_id: int, name: TopicPartition) -> LogView | None:
        """Return the log of a replica, of a running broker or on the disk of one that is down."""
        files = self.cluster.disks[broker_id]
        log = self.running_log(broker_id, name)
        if log is not None:
            view = RunningLog(files, log)
            view.update()
            return view
        if broker_id in self.cluster.brokers:
            return None
        for directory in names_on_disk(files, DATA):
            path = f"{DATA}/{directory}/{name}"
            if names_on_disk(files, path):
                disk = DiskLog(files)
                disk.load(path)
                return disk
        return None

    def running_log(self, broker_id: int, name: TopicPartition) -> PartitionLog | None:
        """Return the log object of a replica whose broker runs."""
        broker = self.cluster.brokers.get(broker_id)
        return None if broker is None else broker.logs.get(name)

    # ---- the end

    def alarms(self) -> list[str]:
        """Return log lines of ERROR and worse since this was asked last."""
        lines = self.coverage.lines[self._told_alarms :]
        self._told_alarms = len(self.coverage.lines)
        rules = Rules(allowed_log_lines=ALLOWED_LOG_LINES)
        found = [line for line in lines if alarms_in([line], rules)]
        return [f"{line.host}: {line.text}" for line in found]

    def lost(self) -> list[str]:
        """Return partitions that have lost committed records, which their settings permit."""
        self._lost_told = True
        truths = self.invariants._truths
        return [str(name) for name, truth in sorted(truths.items()) if truth.lossy]

    async def finish(self) -> list[str]:
        """Hold all promises against the run; what was broken, in words.

        :raises InvariantViolation:
        """
        for name in self.begun:
            raise CommandError(f"{name!r} was begun and not ended")
        for member in self.members.values():
            member.process.kill()
        self.bury()
        cluster, invariants = self.cluster, self.invariants
        if cluster.settled() and not self.broken_up and not self.lossy:
            await self.until(self._at_rest, "at the end: all replicas in sync", None)
            invariants.quiescent_check()
        else:
            invariants.quiescent_check(converged=False)
        problems = [f"not shown by the scenario: {line}" for line in self.alarms()]
        if self.lost_and_untold():
            problems.append("records were lost, and the scenario does not ask what is lost")
        problems += [
            f"unhandled in the loop: {each.get('message')}: {each.get('exception')!r}"
            for each in self.loop.unhandled
        ]
        rules = Rules(
            ordered=False,
            resets_permitted=True,
            final_polls=False,
            loss_permitted=self.lossy,
            complete=not self.outside,
        )
        replicas = None if self.lossy else invariants.replicas()
        compacted = None if self.lossy else invariants.compacted()
        history = History.from_events(self.events)
        holes = invariants.txns.holes()
        found = verdict(history, rules, replicas=replicas, compacted=compacted, holes=holes)
        return problems + [str(violation) for violation in failures(found)]

    @property
    def lossy(self) -> bool:
        """Return whether some partition has lost committed records, as its settings permit."""
        return self.invariants.losses > 0

    def lost_and_untold(self) -> bool:
        """Return whether records were lost, and the scenario has not said so since."""
        return self.lossy and not self._lost_told

    def _at_rest(self) -> bool:
        """Every partition has all its replicas in sync, and nothing uncommitted."""
        self.invariants.store.update()
        for stored in self.invariants.store.partitions.values():
            state, ends = stored.state, set()
            if len(state.isr) < len(stored.replicas):
                return False
            for broker_id in stored.replicas:
                partition = self.cluster.brokers[broker_id].replicas._partitions.get(stored.name)
                if partition is None or partition.leader_epoch != state.leader_epoch:
                    return False
                ends.add((partition.log.log_end_offset, partition.high_watermark))
            if len(ends) != 1 or len(set(ends.pop())) != 1:
                return False
        return True


def _knobs(settings: dict[str, str]) -> tuple[Knobs, dict[str, str]]:
    """Return the calm knobs with those that are named, and broker settings that are no knobs."""
    kinds = {field.name: type(getattr(CALM, field.name)) for field in fields(Knobs)}
    named: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name, text in settings.items():
        if name in kinds:
            named[name] = _of_kind(name, kinds[name], text)
        elif name in BrokerConfig.model_fields:
            others[name] = text
        else:
            raise CommandError(f"there is no setting {name!r}")
    return replace(CALM, **named), others


def _of_kind(name: str, kind: type, text: str) -> Any:
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind is str:
        return text
    if kind in (int, float) and re.fullmatch(r"\d+(\.\d+)?", text):
        return kind(float(text))
    raise CommandError(f"{name}: {text!r} is no {kind.__name__}")
