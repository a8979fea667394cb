"""Each fault proves its effect on a small cluster, and is taken back.

A fault runs until its proof holds; in a calm cluster no proof holds.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from oncelog.history_events import HistoryEvent
from oncelog_controller.store import SessionState, StoreDisconnectedError
from oncelog_runtime.entropy import SeededEntropy
from simulation.campaign import CHECK_EVERY_S, CONVERGE_S
from simulation.cluster import SimCluster
from simulation.coverage import Coverage
from simulation.gray_faults import DAY_MS
from simulation.group_workload import GroupWorkload
from simulation.invariants import Invariants
from simulation.knobs import Knobs
from simulation.loop import Process, SimLoop, until
from simulation.nemesis import FAULTS, Nemesis
from simulation.play import play
from simulation.security_workload import SecurityWorkload
from simulation.store import SimMetadataStore
from simulation.txn_workload import TxnWorkload
from simulation.workload import TOPIC, Workload
from support.room_settings import replica_settings

PROOF_S = 120.0
"""Virtual time; most faults prove themselves in less than ten seconds."""

SLOW_COPY_BYTES = 2000
"""A second brings a slow copy so much."""

KNOBS = Knobs(
    partitions=2,
    clients=2,
    zookeeper_session_timeout_ms=600,
    replica_lag_time_max_ms=300,
    replica_fetch_wait_max_ms=100,
    controlled_shutdown_timeout_ms=1000,
    log_checkpoint_interval_ms=500,
    request_timeout_ms=1000,
    delivery_timeout_ms=4000,
    segment_bytes=8192,
    log_dir_sync_timeout_ms=6000,
)


MORE: dict[str, Any] = {
    "groups": 1,
    "compacted": 1,
    "compacted_segment_bytes": 1024,
    "log_cleaner_backoff_ms": 100,
}
"""Settings for faults that need groups or compaction."""


class Seen:
    """An observer of a cluster has seen this: it looks every 10 ms and reads the trace."""

    def __init__(self, cluster: SimCluster, coverage: Coverage) -> None:
        self.cluster = cluster
        self.coverage = coverage.counts
        self.lines: list[str] = []
        """Of the trace, without time and step, but for the bytes on wires."""
        self.broken = 0
        """Ends of connections that were reset."""
        self.trouble = 0
        """Operations of clients that failed, or of which nobody knows."""
        self.slowest_send_s = 0.0
        self.slowest_read_s = 0.0
        """From the metadata store."""
        self.most_down = 0
        self.most_dark = 0
        """Hosts without power, at one moment."""
        self.paused: dict[int, None] = {}
        self.sessions: dict[int, list[int]] = {broker_id: [] for broker_id in cluster.ids}
        self.lost_contact: dict[int, None] = {}
        self.all_lost_contact = False
        self.store_was_down = False
        self.isr_min = len(cluster.ids)
        self.leaders: list[list[int]] = [[] for _ in range(cluster.knobs.partitions)]
        self.held: Counter[tuple[str, str]] = Counter()
        """How often each wire has become held."""
        self.patterns: dict[tuple[tuple[str, str], ...], None] = {}
        """Which wires were held at one moment."""
        self.refused: dict[tuple[str, str], None] = {}
        self.longest_way_s = 0.0
        """Of bytes under way."""
        self.clock_errors = {i: {clock.error_ms} for i, clock in cluster.clocks.items()}
        self._sent_s: dict[int, float] = {}
        self._held_now: tuple[tuple[str, str], ...] = ()

    # ---- looking

    def line(self, line: str) -> None:
        """Take one of the trace."""
        text = line.split(" ", 2)[2].rstrip("\n")
        if not text.startswith("net "):
            self.lines.append(text)
        elif text.endswith(" broken"):
            self.broken += 1

    def event(self, event: HistoryEvent) -> None:
        """Take one of a client."""
        now_s = self.cluster.loop.now_s
        key = hash((event.process, event.client, event.number))
        if event.type == "invoke":
            self._sent_s[key] = now_s
        elif event.type in ("info", "fail"):
            self.trouble += 1
        elif event.f == "send" and key in self._sent_s:
            self.slowest_send_s = max(self.slowest_send_s, now_s - self._sent_s.pop(key))

    def look(self) -> None:
        """Look at everything."""
        cluster = self.cluster
        hosts = [cluster.network.hosts[cluster.host(broker_id)] for broker_id in cluster.ids]
        self.most_dark = max(self.most_dark, sum(not host.up for host in hosts))
        processes = {broker_id: cluster.process(broker_id) for broker_id in cluster.ids}
        down = sum(process is None for process in processes.values())
        self.most_down = max(self.most_down, down)
        self.paused |= {i: None for i, process in processes.items() if process and process.paused}
        self._look_at_sessions()
        self._look_at_wires()
        for number, leaders in enumerate(self.leaders):
            data = cluster.partition_state(TOPIC, number)
            if data is None:
                continue
            state = json.loads(data)
            self.isr_min = min(self.isr_min, len(state["isr"]))
            if leaders[-1:] != [state["leader"]]:
                leaders.append(state["leader"])
        for broker_id, clock in cluster.clocks.items():
            self.clock_errors[broker_id].add(clock.error_ms)

    def _look_at_sessions(self) -> None:
        cluster = self.cluster
        lost = []
        for broker_id, store in cluster.stores.items():
            session = store.session_id
            if session is not None and session not in self.sessions[broker_id]:
                self.sessions[broker_id].append(session)
            if store.state is SessionState.DISCONNECTED and store.session is not None:
                lost.append(broker_id)
        self.lost_contact |= dict.fromkeys(lost)
        self.all_lost_contact = self.all_lost_contact or len(lost) == len(cluster.ids)
        self.store_was_down = self.store_was_down or not cluster.zookeeper.running

    def _look_at_wires(self) -> None:
        network = self.cluster.network
        held = tuple(sorted(key for key, wire in network._wires.items() if wire.held))
        for key in held:
            if key not in self._held_now:
                self.held[key] += 1
        self._held_now = held
        self.patterns[held] = None
        self.refused |= {key: None for key, wire in network._wires.items() if wire.refused}
        now_s = self.cluster.loop.now_s
        for connection in network.connections.values():
            for end in connection.ends:
                if end._under_way:
                    self.longest_way_s = max(self.longest_way_s, end._last_arrival_s - now_s)

    # ---- judging

    def count(self, word: str) -> int:
        """Count how often the trace says a word of a broker."""
        return sum(line.startswith(f"{word} broker-") for line in self.lines)

    def came_back(self, word: str) -> bool:
        """Return whether a broker of which the trace says a word served again."""
        return any(
            f"serving {line.split()[1]}" in self.lines[number:]
            for number, line in enumerate(self.lines)
            if line.startswith(f"{word} broker-")
        )

    def within_a_fault(self, word: str, whom: str = "broker-") -> int:
        """Count the different brokers that the trace says a word of during one fault."""
        most = 0
        names: set[str] = set()
        for line in self.lines:
            if line.startswith("fault "):
                names = set()
            elif line.startswith(f"{word} {whom}"):
                names.add(line.split()[1])
                most = max(most, len(names))
        return most

    def refused_users(self, *rights: str) -> set[str]:
        """Return the subjects who were refused for want of one of these rights."""
        words = [line.split() for line in self.lines if line.startswith("refused ")]
        return {each[1] for each in words if each[2] in rights}

    @property
    def nobody_died(self) -> bool:
        """Return whether all effects are on processes that lived."""
        return self.most_down == 0 and not self.count("kill") and not self.count("power")

    @property
    def renewed(self) -> list[int]:
        """Return brokers that have had another session."""
        return [broker_id for broker_id, sessions in self.sessions.items() if len(sessions) > 1]

    @property
    def elections(self) -> int:
        """Count how often another broker became leader."""
        return sum(len(leaders) - 1 for leaders in self.leaders)

    def was_held(self, shape: Callable[[list[tuple[str, str]]], bool]) -> bool:
        """Return whether at one moment the held wires had that shape."""
        return any(shape(list(pattern)) for pattern in self.patterns if pattern)


def between_brokers(wires: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [wire for wire in wires if all(name.startswith("broker") for name in wire)]


def to_clients(wires: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [wire for wire in wires if any(name.startswith("client") for name in wire)]


def is_star(wires: list[tuple[str, str]]) -> bool:
    """Return whether one broker is apart from both others, both ways, and nobody else."""
    names = Counter(name for wire in wires for name in wire)
    return len(wires) == len(between_brokers(wires)) == 4 and sorted(names.values()) == [2, 2, 4]


def is_island(wires: list[tuple[str, str]]) -> bool:
    """Return whether a broker and a client are apart from two brokers and a client."""
    return len(between_brokers(wires)) == 4 and len(wires) == 12


def is_pair(wires: list[tuple[str, str]]) -> bool:
    """Return whether two brokers are apart, both ways."""
    return len(wires) == len(between_brokers(wires)) == 2 and wires[0] == wires[1][::-1]


HOSTS = ("broker-1", "broker-2", "broker-3")

Proof = Callable[[Seen], bool]

PROOFS: dict[str, Proof] = {
    "topic_made_again": lambda seen: any(line.startswith("made again ") for line in seen.lines),
    "kill_one": lambda seen: seen.came_back("kill") and not seen.most_dark,
    "kill_chasing": lambda seen: seen.within_a_fault("kill") >= 2 and seen.elections >= 2,
    "kill_all": lambda seen: seen.most_down == 3 and seen.came_back("kill"),
    "power_one": lambda seen: seen.came_back("power") and 0 < seen.most_dark < 3,
    "power_all": lambda seen: seen.most_dark == 3 and seen.came_back("power"),
    "wipe": lambda seen: seen.came_back("wipe") and seen.isr_min < 3,
    "pause": lambda seen: (
        bool(seen.paused) and bool(seen.renewed) and seen.elections > 0 and seen.nobody_died
    ),
    "restart": lambda seen: seen.came_back("stop") and seen.coverage["controlled_shutdown"] > 0,
    "rolling_restart": lambda seen: seen.within_a_fault("stop") == 3 and seen.most_down == 1,
    "isolate_from_followers": lambda seen: (
        seen.was_held(is_star) and seen.isr_min == 1 and seen.nobody_died
    ),
    "isolate_from_zookeeper": lambda seen: (
        bool(seen.renewed) and not seen.held and seen.nobody_died
    ),
    "isolate_with_client": lambda seen: (
        seen.was_held(is_island) and seen.isr_min < 3 and bool(seen.lost_contact)
    ),
    "isolate_from_clients": lambda seen: (
        seen.was_held(lambda wires: len(wires) == len(to_clients(wires)) == 4)
        and not between_brokers(list(seen.held))
        and seen.slowest_send_s > 0.5
        and seen.isr_min == 3
    ),
    "bridge": lambda seen: seen.was_held(is_pair) and seen.isr_min < 3 and seen.nobody_died,
    "one_way": lambda seen: (
        seen.was_held(lambda wires: len(wires) == 1) and seen.isr_min < 3 and seen.nobody_died
    ),
    "flap": lambda seen: seen.was_held(is_pair) and max(seen.held.values()) >= 3,
    "reset": lambda seen: (
        seen.broken >= 10 and seen.coverage["consumer_fetch_failed"] > 0 and seen.nobody_died
    ),
    "slow_wires": lambda seen: seen.longest_way_s > 0.1 and not seen.held,
    "false_suspicion": lambda seen: (
        seen.coverage["broker_suspected"] > 0
        and seen.coverage["false_suspicion_cleared"] > 0
        and bool(seen.refused)
        and seen.elections > 0
        and seen.nobody_died
    ),
    "shunned": lambda seen: (
        any(len({peer for host, peer in seen.refused if host == name}) == 2 for name in HOSTS)
        and seen.coverage["accusation_refuted"] > 0
        and seen.coverage["controller_sat_out"] > 0
        and seen.nobody_died
    ),
    "forged_order": lambda seen: (
        seen.coverage["controller_disbelieved"] > 0 and seen.nobody_died and seen.trouble == 0
    ),
    "zookeeper_outage": lambda seen: (
        seen.store_was_down and seen.all_lost_contact and seen.cluster.zookeeper.running
    ),
    "expire_one": lambda seen: (
        len(seen.renewed) == 1 and seen.coverage["registered_again"] > 0 and seen.nobody_died
    ),
    "expire_all": lambda seen: len(seen.renewed) == 3 and seen.nobody_died,
    "lose_store_reply": lambda seen: seen.coverage["write_outcome_unknown"] > 0,
    "slow_zookeeper": lambda seen: seen.slowest_read_s > 0.2 and seen.nobody_died,
    "slow_disk": lambda seen: seen.slowest_send_s > 0.5 and seen.nobody_died,
    "failed_sync": lambda seen: (
        seen.coverage["failed_sync"] > 0
        and seen.coverage["directory_offline"] > 0
        and seen.came_back("kill")
    ),
    "hung_disk": lambda seen: seen.coverage["hung_sync"] > 0 and seen.came_back("kill"),
    "replace_disk": lambda seen: (
        any(line.startswith("replace broker-") for line in seen.lines) and seen.came_back("kill")
    ),
    "remount": lambda seen: (
        seen.count("remount") > 0
        and seen.coverage["directory_offline"] > 0
        and seen.came_back("remount")
    ),
    "failed_append": lambda seen: (
        seen.coverage["failed_append"] > 0 and seen.coverage["directory_offline"] > 0
    ),
    "disk_full": lambda seen: (
        seen.coverage["disk_full"] > 0 and seen.coverage["disk_has_room_again"] > 0
    ),
    "disk_read_only": lambda seen: (
        seen.coverage["directory_offline"] > 0 and seen.came_back("kill")
    ),
    "rot": lambda seen: (
        any(line.startswith("rot ") for line in seen.lines)
        and seen.coverage["rot_found"] + seen.coverage["log_damaged"] > 0
    ),
    "clock_jump": lambda seen: any(
        max(errors) - min(errors) >= 3_600_000 for errors in seen.clock_errors.values()
    ),
    "clock_leap": lambda seen: (
        seen.coverage["clock_leapt"] > 0
        and any(max(errors) - min(errors) >= DAY_MS for errors in seen.clock_errors.values())
    ),
    "wrong_address": lambda seen: (
        any(line.endswith(" stranger") for line in seen.lines if line.startswith("astray "))
        and any("broker" in line.split()[2] for line in seen.lines if line.startswith("astray "))
        and seen.coverage["led_astray"] > 0
    ),
    "clone": lambda seen: (
        any(line.startswith("refused clone-of-") for line in seen.lines)
        and not seen.count("deposed")
        and seen.nobody_died
    ),
    "hung_loop": lambda seen: (
        seen.count("hang") > 0 and bool(seen.renewed) and seen.elections > 0 and seen.nobody_died
    ),
    "wipe_a_joiner": lambda seen: seen.came_back("wipe") and seen.isr_min < 3,
}

GROUP_PROOFS: dict[str, Proof] = {
    "kill_coordinator": lambda seen: (
        seen.coverage["coordinator_loaded_records"] > 0
        and seen.coverage["coordinator_moved"] > 0
        and seen.most_down > 0
    ),
    "move_coordinator": lambda seen: (
        seen.coverage["coordinator_given_up"] > 0 and seen.elections > 0 and seen.nobody_died
    ),
    "bounce_members": lambda seen: (
        seen.within_a_fault("crash", "client-g") == 2
        and seen.coverage["member_died"] + seen.coverage["member_missed_round"] > 0
    ),
    "pause_member": lambda seen: (
        seen.within_a_fault("pause", "client-g") == 1 and seen.coverage["member_died"] > 0
    ),
    "slow_member": lambda seen: seen.coverage["poll_too_late"] > 0,
    "rebalance_storm": lambda seen: seen.coverage["member_joined"] > 3,
    "end_in_a_swap": lambda seen: (
        any(line.startswith("swap in ") for line in seen.lines) and seen.most_down > 0
    ),
    "empty_group": lambda seen: seen.coverage["group_emptied"] > 0,
}
"""With a group in the run, and a topic that compacts."""


TXN_PROOFS: dict[str, Proof] = {
    "kill_txn_coordinator": lambda seen: (
        any(line.startswith("moment ") for line in seen.lines)
        and seen.coverage["coordinator_loaded_records"] > 0
        and seen.most_down > 0
    ),
    "move_txn_coordinator": lambda seen: (
        seen.coverage["coordinator_given_up"] > 0 and seen.elections > 0 and seen.nobody_died
    ),
    "strike_at_open_data": lambda seen: seen.most_down > 0 or bool(seen.paused),
    "pause_txn_client": lambda seen: seen.within_a_fault("pause", "client-") > 0,
    "hijack": lambda seen: seen.coverage["producer_fenced"] > 0,
    "bounce_txn_clients": lambda seen: seen.within_a_fault("crash", "client-teller") > 0,
    "late_requests": lambda seen: sum(line.startswith("again ") for line in seen.lines) > 10,
    "long_transaction": lambda seen: seen.coverage["txn_timed_out"] > 0,
    "decide_alone": lambda seen: (
        seen.within_a_fault("crash", "client-teller") == 1 and seen.came_back("kill")
    ),
    "stale_image": lambda seen: (
        any(line.startswith("stale broker-") for line in seen.lines)
        and seen.coverage["coordinator_loaded_records"] > 0
        and seen.came_back("kill")
    ),
    "late_markers": lambda seen: (
        seen.was_held(lambda wires: len(wires) == 1) and seen.coverage["member_left"] > 0
    ),
}
"""With transactional clients in the run."""

SECURITY_PROOFS: dict[str, Proof] = {
    "revoke": lambda seen: bool(seen.refused_users("READ", "WRITE") & {"ann", "bob"}),
    "grant": lambda seen: any(line.startswith("acknowledged eve ") for line in seen.lines),
    "delete_user": lambda seen: (
        seen.coverage["connection_of_changed_user"] > 0 and bool(seen.refused_users("PASSWORD"))
    ),
    "isolate_from_security": lambda seen: seen.coverage["clients_refused"] > 0,
    "late_security_order": lambda seen: any(
        line.startswith("again version ") for line in seen.lines
    ),
    "borrowed_identity": lambda seen: seen.coverage["broker_not_believed"] > 0,
    "change_password": lambda seen: (
        seen.coverage["connection_of_changed_user"] > 0
        and any(line.startswith("acknowledged ") and ".2 " in line for line in seen.lines)
    ),
}
"""They hold in a secured run."""

MOVE_PROOFS: dict[str, Callable[[Seen], bool]] = {
    "move_some": lambda seen: seen.coverage["move_finished"] > 0,
    "retarget": lambda seen: seen.coverage["move_retargeted"] > 0,
    "cancel_some": lambda seen: seen.coverage["move_turned_back"] > 0,
    "move_to_and_fro": lambda seen: seen.coverage["back_while_leaving"] > 0,
    "slow_lane": lambda seen: seen.coverage["replica_came_near"] > 0,
    "kill_receiver": lambda seen: seen.coverage["move_begun"] > 0 and seen.came_back("kill"),
    "pause_receiver": lambda seen: seen.coverage["move_begun"] > 0 and bool(seen.paused),
    "isolate_receiver": lambda seen: seen.coverage["move_begun"] > 0 and bool(seen.held),
    "wipe_receiver": lambda seen: seen.coverage["move_begun"] > 0 and seen.came_back("wipe"),
    "full_receiver": lambda seen: (
        seen.coverage["move_begun"] > 0 and seen.coverage["disk_full"] > 0
    ),
    "kill_leader_of_moving": lambda seen: (
        seen.coverage["move_begun"] > 0 and seen.came_back("kill")
    ),
    "controller_dies_between_writes": lambda seen: (
        seen.coverage["move_begun"] > 0 and seen.coverage["controller_elected"] > 1
    ),
    "lose_reply_of_a_step": lambda seen: (
        seen.coverage["move_begun"] > 0 and seen.coverage["write_outcome_unknown"] > 0
    ),
    "delete_moving_topic": lambda seen: seen.coverage["move_begun"] > 0,
    "drain_and_back": lambda seen: (
        seen.coverage["broker_drained"] > 0 and seen.coverage["broker_active_again"] > 0
    ),
    "decommission_cycle": lambda seen: (
        seen.coverage["broker_decommissioned"] > 0 and seen.came_back("wipe")
    ),
    "raise_min_isr": lambda seen: (
        seen.coverage["move_begun"] > 0
        and any(line.startswith("writes need 3") for line in seen.lines)
        and any(line == "writes need what they did" for line in seen.lines)
    ),
    "move_log_dir": lambda seen: (
        seen.coverage["log_moved"] > 20
        and seen.coverage["log_move_ended"] + seen.coverage["move_begun"] == 0
        and seen.nobody_died
    ),
    "power_in_a_swap": lambda seen: (
        any(line.startswith("swap of ") for line in seen.lines)
        and any(line.startswith("hide broker-") for line in seen.lines)
        and seen.came_back("power")
    ),
    "rot_of_donor": lambda seen: (
        seen.coverage["move_begun"] > 0 and any(line.startswith("rot ") for line in seen.lines)
    ),
}
"""They hold where partitions move; nobody else moves any there."""

TRANSACTIONAL: dict[str, Any] = {
    "tellers": 2,
    "copiers": 1,
    "transaction_timeout_ms": 1500,
    "transaction_state_log_num_partitions": 1,
}
ALL_PROOFS = {**PROOFS, **GROUP_PROOFS, **TXN_PROOFS, **SECURITY_PROOFS, **MOVE_PROOFS}


class Stage:
    """It has a cluster at work, a nemesis that has not begun, and an observer."""

    def __init__(self, loop: SimLoop, coverage: Coverage, faults: list[str]) -> None:
        entropy = SeededEntropy("nemesis")
        grouped = bool(GROUP_PROOFS.keys() & faults)
        knobs = replace(KNOBS, **MORE) if grouped else KNOBS
        if TXN_PROOFS.keys() & faults:
            knobs = replace(knobs, **TRANSACTIONAL)
        if SECURITY_PROOFS.keys() & faults:
            knobs = replace(knobs, secured=True, security_stale_max_ms=1000)
        if MOVE_PROOFS.keys() & faults:
            knobs = replace(knobs, moves=True, brokers=4)
        if {"replace_disk", "move_log_dir", "power_in_a_swap"} & set(faults):
            knobs = replace(knobs, log_dirs=2)
        self.cluster = SimCluster(loop, knobs, entropy)
        self.seen = Seen(self.cluster, coverage)
        self.invariants = Invariants(
            self.cluster, coverage, sound_members=self.cluster.sound_members
        )
        self.workload = Workload(self.cluster, entropy.fork("workload"), self._note)
        self.groups = GroupWorkload(self.cluster, entropy.fork("groups"), self._note, [TOPIC])
        self.groups.calm = True
        self.txns = TxnWorkload(
            self.cluster,
            entropy.fork("transactions"),
            self._note,
            source=TOPIC,
            others=self.workload.partitions,
        )
        self.security = SecurityWorkload(
            self.cluster,
            entropy.fork("security"),
            self._note,
            self.workload.partitions_of(TOPIC),
        )
        self.nemesis = Nemesis(
            self.cluster,
            entropy.fork("nemesis"),
            self.invariants,
            only=faults,
            groups=self.groups,
            txns=self.txns,
            security=self.security,
        )
        self.loop = loop
        loop.keep_trace = True
        loop.trace_sink = self.seen.line

    def _note(self, event: HistoryEvent) -> None:
        self.invariants.note(event)
        self.seen.event(event)

    async def start(self) -> None:
        """Let clients work and the observer look."""
        await self.cluster.start()
        await self.workload.create_topic()
        await self.txns.create_topics()
        self.workload.start()
        self.groups.start()
        self.txns.start()
        self.security.start()
        self.loop.create_task(self._look(), name="look")
        self.loop.create_task(self._read(), name="read")

    def slow_copies(self, slow: bool) -> None:
        """Let moves stay open, or copy at any pace again."""
        near_bytes = 1 if slow else replica_settings().replica_near_bytes
        for broker in self.cluster.brokers.values():
            replicas = broker.live.replicas
            replicas.replica_catch_up_max_bytes_per_second = SLOW_COPY_BYTES if slow else 0
            replicas.replica_near_bytes = near_bytes

    async def _look(self) -> None:
        while True:
            self.invariants.check(self.loop.now_s)
            self.seen.look()
            await asyncio.sleep(min(0.01, CHECK_EVERY_S))

    async def _read(self) -> None:
        """See how long the metadata store takes for somebody whom no fault is after."""
        process: Process = self.cluster.client_process("reader of the store")
        store = SimMetadataStore(
            self.cluster.zookeeper,
            process=process,
            server_process=self.cluster.zookeeper_process,
            session_timeout_ms=1_000_000,
        )
        await process.call(store.start())
        while True:
            await asyncio.sleep(0.1)
            began_s = self.loop.now_s
            try:
                await process.call(store.get("/"))
            except StoreDisconnectedError:
                continue
            self.seen.slowest_read_s = max(self.seen.slowest_read_s, self.loop.now_s - began_s)

    def assert_all_is_taken_back(self) -> None:
        """Nothing of a fault is left."""
        cluster = self.cluster
        for wire in cluster.network._wires.values():
            assert not wire.held
            assert not wire.refused
            assert not wire.waiting
            assert wire.latency_s == 0.0
        for broker_id in cluster.ids:
            process = cluster.process(broker_id)
            assert process is not None
            assert not process.paused
        assert all(abs(clock.error_ms) <= 500 for clock in cluster.clocks.values())
        assert cluster.zookeeper.running
        assert cluster.zookeeper_delays == []
        assert cluster.deaf == {}
        assert cluster.network.astray == {}
        assert cluster.sync_stall_s == {}
        for broker in cluster.brokers.values():
            unbounded = replica_settings()
            replicas = broker.live.replicas
            assert replicas.replica_near_bytes == unbounded.replica_near_bytes
            assert replicas.replica_catch_up_max_bytes_per_second == 0


def _whole(state: dict[str, Any]) -> bool:
    """All replicas are in sync, and nothing moves."""
    return len(state["isr"]) == len(state["replicas"]) >= 2 and not state.get("origin")


def on_stage(scene: Callable[[Stage], Coroutine[Any, Any, None]], faults: list[str]) -> None:
    coverage = Coverage()

    async def main(loop: SimLoop) -> None:
        stage = Stage(loop, coverage, faults)
        await stage.start()
        await scene(stage)

    with coverage.listening():
        play(main, "nemesis")


def test_every_fault_has_a_proof() -> None:
    assert sorted(ALL_PROOFS) == sorted(FAULTS)


def test_nothing_is_proven_where_nothing_breaks() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(15)
        assert [name for name, holds in ALL_PROOFS.items() if holds(stage.seen)] == []
        assert stage.seen.trouble == 0
        stage.assert_all_is_taken_back()

    on_stage(scene, [])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_effect_and_is_taken_back(name: str) -> None:
    async def scene(stage: Stage) -> None:
        seen = stage.seen
        if name in ("retarget", "cancel_some"):
            stage.slow_copies(True)  # a move that is over at once gives them nothing to strike
        stage.nemesis.start()
        proof = ALL_PROOFS[name]
        await until(lambda: proof(seen), timeout_s=PROOF_S, what=f"proof of {name}")
        if name in ("retarget", "cancel_some"):
            stage.slow_copies(False)
        assert list(stage.nemesis.applied) == [name]
        await stage.nemesis.stop()
        await stage.cluster.converged(timeout_s=CONVERGE_S)
        stage.assert_all_is_taken_back()
        await stage.security.restore(timeout_s=CONVERGE_S)
        await stage.security.stop(timeout_s=CONVERGE_S)
        await stage.workload.stop(timeout_s=CONVERGE_S)
        await stage.groups.stop(timeout_s=CONVERGE_S)
        await stage.txns.stop(timeout_s=CONVERGE_S)

        def whole() -> bool:
            states = [stage.cluster.partition_state(TOPIC, n) for n in range(KNOBS.partitions)]
            return all(data is not None and _whole(json.loads(data)) for data in states)

        await until(whole, timeout_s=CONVERGE_S, what="all replicas in sync")

    on_stage(scene, [name])
