"""The cluster for tests has its own loop here: real brokers, a controller, all in memory.

Owns the clock, and everything about a fleet of brokers that has to be awaited. ``cluster`` gives it
its two faces. Rule: nothing here is called from another thread but through them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from oncelog import (
    AclBinding,
    Admin,
    Consumer,
    NewTopic,
    Producer,
    Record,
    Security,
    TopicPartition,
    UserAlteration,
)
from oncelog.admin.group_results import GroupDescription
from oncelog.errors import ApiError, ClientError
from oncelog_broker.app import Broker
from oncelog_protocol.messages.admin import ElectionTarget, ElectLeadersRequest
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.clock import ClusterClock
from oncelog_testing.faults import OWN_CLIENT, Fault, FaultPlan
from oncelog_testing.fleet import REPLICAS_MAX, TIMEOUT_S, Fleet
from oncelog_testing.loop import ClusterLoop
from oncelog_testing.memory.files import MemoryFiles
from oncelog_testing.secured import ITERATIONS, LISTENERS, SecuredUsers
from oncelog_testing.secured import SETTINGS as SECURED_SETTINGS

__all__ = ["SETTINGS", "ClusterCore", "Value"]

SETTINGS: dict[str, Any] = {
    "zookeeper_session_timeout_ms": 2_000,
    "replica_lag_time_max_ms": 2_000,
    "auto_leader_rebalance_enable": False,
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "log_retention_check_interval_ms": 1_000,
    "offsets_retention_check_interval_ms": 1_000,
    "log_cleaner_backoff_ms": 1_000,
    "log_scrub_interval_ms": 0,
    "controlled_shutdown_timeout_ms": 3_000,
    "connections_max_idle_ms": 0,
}
"""A cluster for tests changes these defaults: shorter times, fewer internal partitions, no
leadership that moves by itself."""

STEP_S_MAX = 4.0
"""The longest leap of ``advance`` with several brokers: a follower that hears nothing for some ten
seconds takes its leader for dead, and a leap is silence too."""

Value = bytes | str | None | tuple[bytes | str | None, bytes | str | None]
"""``produce`` takes this for one record: a value, or a key and a value."""


class ClusterCore(Fleet):
    """See the module. Made on the cluster's loop."""

    def __init__(
        self,
        loop: ClusterLoop,
        *,
        brokers: int,
        directory: Path | None,
        seed: int | str,
        plan: FaultPlan,
        settings: Mapping[str, Any],
        secure: bool = False,
    ) -> None:
        self.clock = ClusterClock(lambda: loop.ahead_s)
        self.dirty = False
        """Whether something was done that ``heal`` does not undo."""
        self._loop = loop
        self._admin: Admin | None = None
        entropy = SeededEntropy(seed)
        self.entropy = entropy.fork("clients")
        self._users = SecuredUsers(entropy.fork("users")) if secure else None
        self.security: Security | None = None if self._users is None else self._users.admin
        """What a client is given that may do everything; None: the cluster is not secured."""
        replicas = min(brokers, REPLICAS_MAX)
        super().__init__(
            brokers,
            clock=self.clock,
            entropy=entropy,
            plan=plan,
            settings={
                **SETTINGS,
                "default_replication_factor": replicas,
                **(SECURED_SETTINGS if secure else {}),
                **settings,
            },
            directory=directory,
            listeners=LISTENERS if secure else None,
        )
        for machine in self.machines.values():
            machine.config()  # a setting that does not hold is said before anything is started
        loop.delay_jobs_by(self._job_delay)

    def mark_dirty(self) -> None:
        """Something happens that ``heal`` does not undo."""
        self.dirty = True

    def _job_delay(self) -> float:
        return sum(m.memory.take_delay() for m in self.machines.values() if m.memory is not None)

    # -- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every broker; return when each knows every other."""
        if self._users is not None:
            await self._users.begin(self.zookeeper)
        await asyncio.gather(*(machine.start() for machine in self.machines.values()))
        await self.converged()

    async def close(self) -> None:
        """Stop everything, at once and not cleanly: nobody will read these logs again."""
        self._repair()
        if self._admin is not None:
            await self._admin.close()
        await super().close()

    # -- brokers -----------------------------------------------------------------------------

    async def start_broker(self, broker: int) -> None:
        """Start a broker that was stopped or killed; returns when all know it.

        :raises NotRunningError: it runs already.
        """
        await self.machine(broker).start()
        await self.converged()

    async def stop_broker(self, broker: int) -> None:
        """Stop a broker as an operator does: its leaderships move, its logs are closed.

        :raises NotRunningError: it is down.
        """
        self.dirty = True
        await self.machine(broker).stop()

    async def kill(self, broker: int, *, power_loss: bool = False) -> None:
        """End a broker at once, as ``kill -9``; with ``power_loss`` what it had not synced is lost.

        The others find its port closed and elect. :raises NotRunningError: it is down.
        """
        self.dirty = True
        await self.machine(broker).kill(power_loss=power_loss)

    async def restart(self, broker: int, *, clean: bool = True) -> None:
        """Stop a broker (kill it, unless ``clean``) and start it again."""
        await (self.stop_broker(broker) if clean else self.kill(broker))
        await self.start_broker(broker)

    async def expire_session(self, broker: int) -> None:
        """End a broker's session with the metadata store, as a long pause does: it is taken for
        dead, and registers anew. Returns when it has.

        :raises NotRunningError: it is down.
        """
        self.dirty = True
        machine = self.machine(broker)
        before = machine.running.broker_epoch
        self.zookeeper.expire(machine.session_id)

        def again() -> bool:
            return machine.running.broker_epoch > before

        await self.until(again, TIMEOUT_S, f"broker {broker} registering anew")
        await self.converged()

    # -- time --------------------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Let time pass on the cluster: its wall clock and its time-outs. Clients, who live on
        loops of their own, have the machine's time and do not notice.

        :raises ValueError: below 0.
        """
        if seconds < 0:
            raise ValueError(f"seconds={seconds}: time goes forward")
        self.dirty = True
        step_s_max = STEP_S_MAX if len(self.machines) > 1 else float("inf")
        await self._loop.advance(seconds, step_s_max=step_s_max)

    # -- topics ------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, Any] | None = None,
    ) -> str:
        """Create a topic and wait until every broker knows its leaders; returns its name.

        :raises ApiError: TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, ...
        """
        texts = {key: _config_text(value) for key, value in (configs or {}).items()}
        new = NewTopic(topic, partitions, replication_factor, texts)
        outcomes = await (await self._clients()).create_topics([new])
        outcomes.raise_for_errors()
        await self.wait_for_leader(topic)
        return topic

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with its records. :raises ApiError: UNKNOWN_TOPIC_OR_PARTITION."""
        (await (await self._clients()).delete_topics([topic])).raise_for_errors()

    async def produce(
        self,
        topic: str,
        values: Iterable[Value],
        *,
        partition: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Write records, text as UTF-8; returns when all are committed.

        :raises PartialSendError: some were not, within ``timeout_s`` of the cluster's time.
        """
        pairs = [value if isinstance(value, tuple) else (None, value) for value in values]
        async with Producer(
            self.bootstrap,
            client_id=OWN_CLIENT,
            clock=self.clock,
            security=self.security,
            linger_ms=0,
            delivery_timeout_ms=int(timeout_s * 1000),
        ) as producer:
            await producer.send_many(
                topic,
                [_bytes(value) for _, value in pairs],
                keys=[_bytes(key) for key, _ in pairs],
                partition=partition,
            )

    async def records(self, topic: str) -> list[Record]:
        """Return what a new consumer of a topic would read now, by partition and offset."""
        return await self._read(topic, None, TIMEOUT_S)

    async def wait_for_records(
        self, topic: str, count: int, *, timeout_s: float = TIMEOUT_S
    ) -> list[Record]:
        """Wait until a topic has at least so many records (committed ones, where they are part of
        transactions), and return them all.

        :raises TimeoutError: they did not come in time; it says how many did.
        """
        return await self._read(topic, count, timeout_s)

    async def _read(self, topic: str, count: int | None, timeout_s: float) -> list[Record]:
        deadline = time.monotonic() + timeout_s
        found: list[Record] = []
        async with Consumer(
            bootstrap_servers=self.bootstrap,
            client_id=OWN_CLIENT,
            auto_offset_reset="earliest",
            security=self.security,
        ) as consumer:
            partitions = await consumer.partitions_for(topic)
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            while True:
                behind = [tp for tp in partitions if await consumer.position(tp) < ends[tp]]
                if not behind and (count is None or len(found) >= count):
                    return sorted(found, key=lambda record: record[1:3])
                if time.monotonic() >= deadline:
                    wanted = "its records" if count is None else f"{count} records"
                    raise self.late(f"{topic} having {wanted}; it has {len(found)}", timeout_s)
                answer = await consumer.getmany(max_records=10_000, timeout_ms=50)
                found += [record for records in answer.values() for record in records]
                if not answer and not behind:
                    ends = await consumer.end_offsets(partitions)

    # -- leaders -----------------------------------------------------------------------------

    async def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of a partition's leader, -1 while nobody leads."""
        return self.state(topic, partition).leader

    async def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """Return the replicas of a partition that are in sync."""
        return tuple(self.state(topic, partition).isr)

    async def move_leader(self, topic: str, partition: int = 0, *, to: int | None = None) -> int:
        """Have the controller give a partition to another replica in sync (to the next one, unless
        told); returns the new leader's id once every broker knows it.

        :raises ValueError: ``to`` has no replica that is in sync.
        """
        state = self.state(topic, partition)
        others = [replica for replica in state.isr if replica != state.leader]
        if to is None:
            if not others:
                raise ValueError(f"{topic}-{partition}: nobody but its leader is in sync")
            to = others[0]
        if to == state.leader:
            return to
        if to not in others:
            raise ValueError(
                f"{topic}-{partition}: broker {to} is not in sync; those in sync: {list(state.isr)}"
            )
        await self._elect(topic, partition, to)
        await self.wait_for_leader(topic, partition, broker=to)
        return to

    async def _elect(self, topic: str, partition: int, leader: int) -> None:
        """Hold a preferred election in which ``leader`` is preferred: nobody else can be named."""
        term = self.controller.runner.term
        assert term is not None
        led = term.machine.cluster.partition(topic, partition)
        assert led is not None
        assigned = led.replicas
        led.place((leader, *(replica for replica in assigned if replica != leader)))
        try:
            request = ElectLeadersRequest(False, [ElectionTarget(topic, partition)])
            response = await term.handle(request)
        finally:
            led.place(assigned)
        for result in response.partitions:
            if result.error_code:
                raise RuntimeError(f"{topic}-{partition}: no election: {result}")

    async def wait_until_caught_up(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every replica of a topic whose broker runs is in sync, and holds what its
        leader holds.

        :raises TimeoutError: some did not come in time.
        """

        def caught_up() -> bool:
            running = {b.broker_id: b for b in self.running()}
            known = self.controller.image.topics.get(topic)
            if known is None:
                return False
            for number, state in known.partitions.items():
                here = [running[replica] for replica in state.replicas if replica in running]
                ends = {_end(broker, topic, number) for broker in here}
                if not {b.broker_id for b in here} <= set(state.isr) or len(ends) != 1:
                    return False
            return True

        await self.until(caught_up, timeout_s, f"replicas of {topic} in sync", topic)

    # -- groups ------------------------------------------------------------------------------

    async def group(self, group: str) -> GroupDescription:
        """Return a group with its members and committed offsets.

        :raises ApiError: GROUP_ID_NOT_FOUND, or the coordinator did not answer.
        """
        described = (await (await self._clients()).describe_groups([group]))[0]
        if described.error is not None:
            raise described.error
        return described

    async def wait_for_group(
        self,
        group: str,
        *,
        members: int | None = None,
        partitions: int | None = None,
        state: str | None = "Stable",
        lag: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> GroupDescription:
        """Wait until a group is in a state, with so many members and at most so much lag.

        :param partitions: how many are assigned, in all. A partition that moves is nobody's for a
            moment in which the group is stable too (KIP-429).
        :param state: "Stable", "Empty", "PreparingRebalance", ...; None: any.
        :raises TimeoutError: it did not get there; it says where it is.
        """
        deadline = time.monotonic() + timeout_s
        seen = "no such group yet"
        while time.monotonic() < deadline:
            try:
                found = await self.group(group)
            except (ApiError, ClientError) as error:
                seen = str(error)
            else:
                assigned = sum(len(member.partitions) for member in found.members)
                seen = (
                    f"state {found.state}, {len(found.members)} members with {assigned} partitions,"
                    f" lag {found.lag}"
                )
                if (
                    state in (None, found.state)
                    and members in (None, len(found.members))
                    and partitions in (None, assigned)
                    and (lag is None or (found.lag is not None and found.lag <= lag))
                ):
                    return found
            await asyncio.sleep(0.005)
        wanted = [f"state {state}"] if state is not None else []
        wanted += [f"{members} members"] if members is not None else []
        wanted += [f"{partitions} partitions assigned"] if partitions is not None else []
        wanted += [f"lag at most {lag}"] if lag is not None else []
        raise self.late(f"group {group} in {', '.join(wanted)}; last seen: {seen}", timeout_s)

    # -- users -------------------------------------------------------------------------------

    async def create_user(self, name: str, *, acls: Iterable[AclBinding] = ()) -> Security:
        """Create a user with a password of its own, and ACLs; return what its clients are given.

        All brokers know of both when this returns. Without ACLs the user may authenticate alone.

        :raises ValueError: the cluster was not made with ``secure=True``.
        :raises ApiError: DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL, or an ACL is refused.
        """
        if self._users is None:
            raise ValueError("a cluster has users if it is made with secure=True")
        password = self._users.new_password()
        admin = await self._clients()
        new = UserAlteration.create(name, password, iterations=ITERATIONS)
        (await admin.alter_users([new])).raise_for_errors()
        entries = list(acls)
        if entries:
            (await admin.create_acls(entries)).raise_for_errors()
        return self._users.security_of(name, password)

    # -- faults ------------------------------------------------------------------------------

    async def wait_for_hits(
        self, fault: Fault, count: int = 1, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until a fault has met so many requests. :raises TimeoutError: it has not."""
        await self.until(lambda: fault.hits >= count, timeout_s, f"{count} hits of {fault}")

    async def heal(self) -> None:
        """Take back every fault, give disks their room, start brokers that are down, and wait until
        all are in sync again. Topics, groups and the clock stay as they are."""
        self._repair()
        for machine in self.machines.values():
            if machine.broker is None:
                await machine.start()
        await self.converged()

    def _repair(self) -> None:
        self.plan.clear()
        for machine in self.machines.values():
            if machine.memory is not None:
                self.heal_disk(machine.memory)
        if not self.zookeeper.running:
            self.zookeeper.start()
        stores = [m.store for m in self.machines.values() if m.broker is not None]
        self.reconnect([store.session_id for store in stores if store is not None])

    def cut_off(self, sessions: Iterable[int]) -> None:
        """Take these sessions' contact with the metadata store, until ``reconnect``."""
        for session_id in sessions:
            self.zookeeper.disconnect(session_id)

    def reconnect(self, sessions: Iterable[int | None]) -> None:
        """Let sessions have contact again, if they are those of living brokers."""
        for session_id in sessions:
            try:
                if session_id is not None:
                    self.zookeeper.reconnect(session_id)
            except KeyError:
                pass  # its broker has died meanwhile, or has begun another session

    def heal_disk(self, files: MemoryFiles) -> None:
        """Take back the faults of a disk; what it was slow to do is done."""
        files.heal()
        self._loop.end_jobs()

    async def reset(self) -> None:
        """Do ``heal``, and then delete every topic and every group without members."""
        await self.heal()
        admin = await self._clients()
        topics = await admin.list_topics()
        if topics:
            (await admin.delete_topics(topics)).raise_for_errors()
        groups = [
            listed.group_id for listed in await admin.list_groups() if not listed.member_count
        ]
        if groups:
            (await admin.delete_groups(groups)).raise_for_errors()

    # -- inside ------------------------------------------------------------------------------

    async def _clients(self) -> Admin:
        if self._admin is None:
            admin = Admin(
                self.bootstrap, client_id=OWN_CLIENT, entropy=self.entropy, security=self.security
            )
            await admin.start()
            self._admin = admin
        return self._admin


def _end(broker: Broker, topic: str, partition: int) -> int:
    log = broker.logs.get(TopicPartition(topic, partition))
    return -1 if log is None else log.log_end_offset


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
