"""Invariants with global knowledge are checked between the events of a simulated cluster.

They come from Vanlightly's TLA+ of Kafka's replication (KIP-966).
``check`` costs next to nothing while nothing changes; it compares what is new since the last call.

What is flagged, and why it can be flagged at *any* moment between two events
------------------------------------------------------------------------------
Everything leans on one fact: a leader moves its high watermark only past what every member of its
maximal ISR has reported as synced, and its maximal ISR contains the store's ISR of its epoch. So
whatever any leader ever showed as committed (the *canon*, see ``truth``) is on every member of the
store's ISR, now and after every election. Delays do not change that:

* An order that has not arrived: the elected broker is in the ISR, so it holds the canon already.
* A deposed leader that has not heard: what it still commits was reported by every member of its
  ISR, among them the members of the new one, before they took up the new epoch. So its high
  watermark counts for the canon and for [I2]. It need not know the newest ISR and need not hold
  what its successor commits, so [I3], [I4] and [I5] do not apply to it; below its own high
  watermark its log must be the canon like everybody's [I6].
* A truncation under way: followers cut only what is not committed; a log that is shorter than the
  canon on a member of ISR or ELR is never a passing state.
* A replica outside of ISR and ELR may hold anything above its own high watermark, for as long as
  it likes; below, it must be the canon [I6].
* A fetch under way carries an offset that is synced at its sender already.

Exempt are replicas that know of their damage (``needs_refetch``, ``refetching``: they refuse to
lead and are taken from the ISR) or whose directory failed. A replica that was *harmed* (a new disk,
a note of the nemesis, or any restart while ``flush`` is not "commit") may be vouched for by a state
from before: the controller must hear of the registration first. But being admitted in its new life,
or leading in it, while records are missing is [I9].

When loss is permitted (``Rules.loss_permitted``, or an unclean election that the rules allow), a
breach of [I2], [I4] to [I9] or [I23] makes a new canon begin, and is counted in ``losses``.

Leader epochs are fenced by order, terms of controllers by the store: [I11], [I12] (see
``store_view``).
"""

from __future__ import annotations

from itertools import pairwise

from oncelog.history_events import HistoryEvent
from oncelog_broker.app import Broker
from oncelog_broker.replication.isr import IsrState
from oncelog_broker.replication.partition import Partition
from oncelog_protocol.types import NO_BROKER, NO_LEADER, TopicPartition
from simulation import at_rest
from simulation.checkers import (
    leader_epochs_agree,
    newest_values_kept,
    replicas_agree,
    violation,
)
from simulation.checkers.newest_values_kept import Compacted
from simulation.checkers.replicas import Replicas
from simulation.compacted_canon import CompactedCanon
from simulation.coverage import Coverage
from simulation.election_rate import ElectionRate
from simulation.group_invariants import GroupInvariants
from simulation.knobs import Knobs
from simulation.log_view import LogView, Rots
from simulation.move_invariants import MoveInvariants, check_known, check_originals
from simulation.producer_invariants import ProducerInvariants
from simulation.promises import holds, keep_promises
from simulation.sound_members import Counted, SoundMembers
from simulation.store_view import (
    InvariantViolation,
    StateChange,
    StoredPartition,
    StoreState,
    StoreView,
)
from simulation.truth import Promise, Replica, Rules, Truth, Watched
from simulation.txn_invariants import TxnInvariants

__all__ = ["InvariantViolation", "Invariants", "Rules", "StateChange"]

_OF_CONTENT = frozenset({"I2", "I4", "I5", "I6", "I7", "I8", "I9", "I23", "A30", "A32", "A33"})
"""Breaches that a permitted loss explains."""


class Invariants:
    """It watches one cluster. Call ``check`` often; it raises at the first breach.

    :param sound_members: what its controllers knew when they looked at the ends of moves; None:
        only the store is looked at.
    :raises InvariantViolation: from every method but the notes.
    """

    def __init__(
        self,
        cluster: Watched,
        coverage: Coverage | None = None,
        *,
        rules: Rules | None = None,
        sound_members: SoundMembers | None = None,
    ) -> None:
        self._cluster = cluster
        self._sound_members = sound_members or SoundMembers()
        self.rules = rules if rules is not None else _rules_of(cluster)
        self.store = StoreView(cluster.zookeeper, self.rules)
        if coverage is not None:
            self.store.on_change.append(coverage.state_changed)
            self.store.on_controller.append(coverage.controller_elected)
        self._moves = MoveInvariants(self.rules, self._counted)
        self.store.on_change.append(self._moves.state_changed)
        self.elections = ElectionRate(lambda: self.now_s)
        self.store.on_controller.append(self.elections.elected)
        self.now_s = 0.0
        self.checks = 0
        self.losses = 0
        """Permitted losses that were seen."""
        self._truths: dict[TopicPartition, Truth] = {}
        self._groups = GroupInvariants()
        self._producers = ProducerInvariants()
        self.txns = TxnInvariants()
        self._terms: dict[int, int] = {}
        self._crashed_lately: dict[int, Broker] = {}
        self._lossy_until = -1.0
        self._harmed: dict[tuple[int, TopicPartition | None], None] = {}
        self._disks: dict[int, object] = {}
        self._rots: dict[tuple[int, TopicPartition], Rots] = {}
        """Also of partitions that nobody has looked at yet."""

    def _counted(
        self, name: TopicPartition, before: StoreState, after: StoreState
    ) -> Counted | None:
        """Return what the controller that wrote a state knew of the members."""
        writer = self.store.controllers.get(after.controller_epoch, NO_BROKER)
        known = self._sound_members.known_to(writer, name, before.version)
        return None if known is None else known._replace(hasty=before.move in self.store.hasty)

    # ---- what the simulator tells

    def note(self, event: HistoryEvent) -> None:
        """Note something that a client did: what it was told and what it read count."""
        if event.type != "ok":
            return
        for mop in event.mops:
            if mop.offset is None or mop.offset < 0:
                continue
            if event.f == "send" and mop.kind == "send" and self.rules.acks_all:
                self.note_ack(mop.topic, mop.partition, mop.offset, mop.value)
            elif event.f == "poll" and mop.kind == "poll":
                self.note_read(mop.topic, mop.partition, mop.offset, mop.value)

    def note_ack(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """A produce with acks=all was acknowledged with this offset. Checked by the next check."""
        self._promise(TopicPartition(topic, partition), Promise(offset, value, True))

    def note_read(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """A consumer was given this record. Checked by the next check."""
        self._promise(TopicPartition(topic, partition), Promise(offset, value, False))

    def note_damage(self, broker_id: int, topic_partition: TopicPartition | None = None) -> None:
        """A disk lost or will garble what was synced: rot, a wiped disk, a torn durable part.

        The replica (every replica of the broker, when none is named) is not held to what it had
        until the controller has reconsidered it, or it holds everything again.
        """
        self._harmed[broker_id, topic_partition] = None

    def note_rot(
        self, broker_id: int, name: TopicPartition, path: str, position: int, was: bytes, now: bytes
    ) -> None:
        """A bit of the batch at a position of a log file has flipped; ``was`` and ``now`` are all
        its bytes. The replica may go on as if nothing had happened until it finds the rot, but must
        not lose a record by it."""
        rots = self._rots.setdefault((broker_id, name), {})
        rotten, original = rots.get((path, position), (b"", b""))
        rots[path, position] = now, original if was == rotten else was

    def _promise(self, name: TopicPartition, promise: Promise) -> None:
        truth = self._truths.get(name)
        if truth is None:
            self.check(self.now_s)
            truth = self._truths.get(name)
        if truth is not None:
            truth.promises.append(promise)

    # ---- looking

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the true one: the highest that any leader has shown."""
        truth = self._truths.get(TopicPartition(topic, partition))
        return 0 if truth is None else truth.high

    def check(self, now_s: float) -> None:
        """Look at everything that has changed since the last call."""
        self.now_s = now_s
        self.checks += 1
        self.store.update()
        for broker_id, files in self._cluster.disks.items():
            if self._disks.setdefault(broker_id, files._disk) is not files._disk:
                self._disks[broker_id] = files._disk
                self.note_damage(broker_id)  # a new, empty disk
        if self._harmed:
            self._spread_harm()
        for stored in self.store.partitions.values():
            self._check_partition(stored)
        if len(self._truths) > len(self.store.partitions):
            for name in [n for n in self._truths if n not in self.store.partitions]:
                del self._truths[name]
        self._moves.check(self.store.partitions, self._cluster.brokers)
        self._groups.check(self._truths)
        self.txns.check(self._truths)
        self._producers.sample(self._truths)
        self._check_brokers()

    def _truth(self, stored: StoredPartition) -> Truth:
        truth = self._truths.get(stored.name)
        if truth is None or truth.topic_id != stored.topic_id:
            compacts = stored.name.topic in self.store.compacting
            truth = Truth(stored.name, stored.topic_id, compacts)
            self._truths[stored.name] = truth
        for broker_id in stored.replicas:
            if broker_id not in truth.replicas:
                rots = self._rots.setdefault((broker_id, stored.name), {})
                truth.replicas[broker_id] = Replica(broker_id, rots)
        return truth

    def _spread_harm(self) -> None:
        harmed, self._harmed = self._harmed, {}
        for stored in self.store.partitions.values():
            for replica in self._truth(stored).replicas.values():
                harmed_ids = (replica.broker_id, None), (replica.broker_id, stored.name)
                if any(key in harmed for key in harmed_ids):
                    replica.harm()

    def _check_partition(self, stored: StoredPartition) -> None:
        truth = self._truth(stored)
        brokers = self._cluster.brokers
        changed = truth.state is not stored.state
        for broker_id, replica in truth.replicas.items():
            broker = brokers.get(broker_id)
            if replica.look(broker, stored.name, stored.topic_id):
                changed = True
                if replica.partition is not None:
                    self._check_replica(stored, truth, replica, replica.partition)
        truth.drop_former(stored.replicas)
        if not changed and not truth.promises:
            return
        if stored.unclean and not (self.rules.unclean_election or self.rules.loss_permitted):
            raise InvariantViolation(
                "I9", f"{stored.name}: leader of {stored.state} was not vouched for before"
            )
        before, truth.state = truth.state, stored.state
        try:
            self._commit(stored, truth)
            self._check_vouched(stored, truth)
            self._check_others(truth)
            keep_promises(
                stored,
                truth,
                self.rules,
                self._cluster.disks,
                count_copies=self.now_s >= self._lossy_until,
            )
            self._check_survival(stored, truth, before)
        except InvariantViolation as breach:
            permitted = self.rules.loss_permitted or (
                stored.unclean and self.rules.unclean_election
            )
            if not permitted or breach.id not in _OF_CONTENT:
                raise
            self.losses += 1
            truth.rebase()
        self._check_quorum(stored, truth)
        for replica in truth.replicas.values():
            _recover(replica, truth)

    # ---- one replica by itself: [I1], [I11], [A23]

    def _check_replica(
        self, stored: StoredPartition, truth: Truth, replica: Replica, partition: Partition
    ) -> None:
        log, where = partition.log, f"{stored.name} on broker {replica.broker_id}"
        view = replica.view
        assert view is not None
        if view.fault and not (replica.exempt or replica.hurt):
            raise InvariantViolation("I1", f"{where}: {view.fault}")
        high = partition.high_watermark
        if not (log.log_start_offset <= high <= log.log_end_offset or partition.failed):
            raise InvariantViolation(
                "I1",
                f"{where}: log start {log.log_start_offset}, high watermark {high}, log end"
                f" {log.log_end_offset}",
            )
        if log.epochs.revision != replica.epochs_checked[1] or log is not replica.epochs_checked[0]:
            replica.epochs_checked = log, log.epochs.revision
            _check_epoch_order(where, log.epochs.entries(), log.log_end_offset)
        if partition.leader_epoch > stored.state.leader_epoch:
            raise InvariantViolation(
                "I11",
                f"{where}: knows leader epoch {partition.leader_epoch}, the store has"
                f" {stored.state.leader_epoch}",
            )
        self._check_role(stored, truth, replica, partition)

    def _check_role(
        self, stored: StoredPartition, truth: Truth, replica: Replica, partition: Partition
    ) -> None:
        role, where = partition.leader, f"{stored.name} on broker {replica.broker_id}"
        if role is not None:
            epoch, high = role.leader_epoch, partition.high_watermark
            chosen = stored.leaders.get(epoch, NO_LEADER)
            seen = truth.led.setdefault(epoch, replica.broker_id)
            if not chosen == seen == replica.broker_id:
                raise InvariantViolation(
                    "I11",
                    f"{where}: leads in epoch {epoch}; the store chose {chosen}, {seen} has led",
                )
            if role is replica.role:
                if high < replica.role_high:
                    raise InvariantViolation(
                        "A23",
                        f"{where}: high watermark {replica.role_high} -> {high} in epoch {epoch}",
                    )
                self._check_hold(where, replica, partition, role.state)
            replica.role_high = high
            replica.role_state = role.state
            replica.role_min_isr = partition.min_isr
            check_originals(stored, role, partition.min_isr)
        replica.role = role

    def _check_hold(
        self, where: str, replica: Replica, partition: Partition, state: IsrState
    ) -> None:
        """[K18]: below min.insync.replicas the high watermark stands. One that has risen while the
        committed ISR was the same small one at both ends rose under it, as its version tells; so it
        was with as many that are needed."""
        before = replica.role_state
        assert partition.leader is not None
        if (
            before is not None
            and partition.high_watermark > replica.role_high
            and before.partition_epoch == state.partition_epoch
            and before.committed == state.committed
            and replica.role_min_isr == partition.min_isr
            and not partition.leader.has_min_isr(partition.min_isr)
        ):
            raise InvariantViolation(
                "K18",
                f"{where}: high watermark {replica.role_high} -> {partition.high_watermark} with"
                f" ISR {state.committed}, min.insync.replicas {partition.min_isr}",
            )

    # ---- all replicas of a partition

    def _commit(self, stored: StoredPartition, truth: Truth) -> None:
        """Let the canon grow by what leaders show as committed."""
        for replica in truth.leaders():
            partition, view = replica.partition, replica.view
            assert partition is not None
            if view is None or view.fault:
                continue
            if truth.lossy and partition.leader_epoch < stored.state.leader_epoch:
                continue
            high = partition.high_watermark
            if truth.compacts:  # what was cleaned away may be superseded by what is new
                truth.canon.extend(view, high)
            truth.canon.match(view)
            if view.matched < min(high, truth.canon.end):
                current = replica is truth.leader_of(stored)
                raise InvariantViolation(
                    "I5" if current else "I6",
                    f"{stored.name}: leader {replica.broker_id} of epoch {partition.leader_epoch}"
                    f" shows {high} as committed, {_difference(view, truth)}",
                )
            truth.canon.extend(view, high)
            truth.high = max(truth.high, high)
        for replica in truth.replicas.values():
            if replica.view is None:
                continue
            if truth.compacts and not (replica.exempt or replica.hurt or replica.view.fault):
                # Its watermark is that of a leader which nobody has looked at since, and it may
                # have cleaned up to there.
                truth.canon.extend(replica.view, replica.high_watermark)
            truth.canon.match(replica.view)

    def _check_vouched(self, stored: StoredPartition, truth: Truth) -> None:
        """Check [I2], [I4], [I5], [I9]: who is in ISR or ELR holds everything committed."""
        high, state = truth.high, stored.state
        for broker_id in state.vouched:
            replica = truth.replicas[broker_id]
            if not replica.running or self._may_lack_directory(replica):
                continue
            view = replica.view
            end = 0 if view is None else view.end
            matched = 0 if view is None else view.matched
            if end >= high and matched >= min(high, truth.canon.end):
                if self.rules.flush == "commit" and view is not None:
                    self._check_durable(stored, truth, replica, view)
                continue
            if self._excused(replica, state):
                continue
            if truth.compacts and replica.high_watermark > truth.canon.end:
                continue  # cleaned by what it alone shows as committed: a leader will tell
            raise InvariantViolation(
                self._name_of(stored, truth, replica, end, high),
                f"{stored.name}: broker {broker_id} is vouched for by {state} and ends at {end},"
                f" committed is {high}, {_difference(view, truth)}",
            )

    def _name_of(
        self, stored: StoredPartition, truth: Truth, replica: Replica, end: int, high: int
    ) -> str:
        if self._is_suspect(replica):
            return "I9"
        if replica.broker_id == stored.state.leader:
            return "I5"
        shown = max([leader.high_watermark for leader in truth.leaders()], default=0)
        return "I2" if end >= high or end < shown else "I4"

    def _check_durable(
        self, stored: StoredPartition, truth: Truth, replica: Replica, view: LogView
    ) -> None:
        """Check that with flush=commit what counts is on the disk, names of files included."""
        durable = view.durable_end()
        if durable < min(truth.high, truth.canon.end) and not replica.exempt:
            raise InvariantViolation(
                "I2",
                f"{stored.name}: on broker {replica.broker_id} {durable} is durable, committed is"
                f" {truth.high}",
            )

    def _is_suspect(self, replica: Replica) -> bool:
        return replica.damaged or (self.rules.flush != "commit" and replica.harmed_life is not None)

    def _excused(self, replica: Replica, state: StoreState) -> bool:
        """Return whether a vouched replica may be short of records for the moment."""
        if replica.knows or not self._is_suspect(replica):
            return replica.exempt
        if replica.life is replica.harmed_life or replica.life_epoch < 0:
            return True
        if replica.partition is not None and replica.partition.leader is not None:
            return False
        admitted = state.admitted_at(replica.broker_id)
        return admitted is None or admitted < replica.life_epoch

    def _may_lack_directory(self, replica: Replica) -> bool:
        broker = self._cluster.brokers.get(replica.broker_id)
        if broker is None or replica.view is not None:
            return False
        return any(not directory.online for directory in broker.logs.dirs)

    def _check_others(self, truth: Truth) -> None:
        """[I6]: below its own high watermark every log is the canon."""
        vouched = () if truth.state is None else truth.state.vouched
        for replica in truth.replicas.values():
            view = replica.view
            if view is None or replica.exempt or replica.hurt or view.fault:
                continue
            if truth.lossy and replica.broker_id not in vouched:
                continue
            known = min(replica.high_watermark, truth.canon.end)
            if view.matched < known and view.end > view.matched:
                raise InvariantViolation(
                    "I6",
                    f"{truth.name}: broker {replica.broker_id} has high watermark"
                    f" {replica.high_watermark}, {_difference(view, truth)}",
                )

    def _check_quorum(self, stored: StoredPartition, truth: Truth) -> None:
        """[I3]: the present leader counts everybody whom the store vouches for as in sync."""
        leader = truth.leader_of(stored)
        if leader is None or leader.partition is None or leader.partition.leader is None:
            return
        known = leader.partition.leader.state
        isr = set(stored.state.isr)
        if not isr <= set(known.maximal):
            problem = f"counts {known.maximal}"
        elif known.proposal is None and set(known.committed) != isr:
            problem = f"believes in {known.committed} and has asked for nothing"
        else:
            return
        raise InvariantViolation(
            "I3",
            f"{stored.name}: leader {leader.broker_id} {problem}, the store's ISR is"
            f" {stored.state.isr}",
        )

    def _check_survival(
        self, stored: StoredPartition, truth: Truth, before: StoreState | None
    ) -> None:
        """[I8]: what is committed exists somewhere; [M11]: when replicas are dropped, in a member
        that stays."""
        end = truth.canon.end
        if before is not None and before.replicas != stored.state.replicas:
            views = truth.views(self._cluster.disks)
            check_known(stored, before, [r.broker_id for r, v in views if v.matched >= end])
        durable = self.rules.flush == "commit"
        for replica in truth.replicas.values():
            view = replica.view
            if replica.broker_id not in stored.replicas:
                continue  # it is about to delete what it has
            if view is not None and holds(view, end, durable=durable):
                return
        for replica, shown in truth.views(self._cluster.disks):
            stays = replica.broker_id in stored.replicas
            if stays and holds(shown, end, durable=durable):
                return
        if end > truth.canon.start and not truth.is_unseen(self._cluster.disks):
            found = {
                replica.broker_id: v.matched for replica, v in truth.views(self._cluster.disks)
            }
            raise InvariantViolation(
                "I8",
                f"{stored.name}: committed is {end}, replicas hold {found}",
            )

    # ---- brokers: [I12], [I13]

    def _check_brokers(self) -> None:
        for broker_id, before in self._crashed_lately.items():
            if self._cluster.brokers.get(broker_id) is not before:
                self._lossy_until = self.now_s + 1.0
        self._crashed_lately = dict(self._cluster.brokers)
        for broker_id, broker in self._cluster.brokers.items():
            term = broker.runner.term
            if term is not None:
                epoch = term.won.controller_epoch
                holder = self._terms.setdefault(epoch, broker_id)
                if holder != broker_id:
                    raise InvariantViolation(
                        "I12", f"brokers {holder} and {broker_id} are controllers of epoch {epoch}"
                    )
            if not broker._stopping:
                _check_fetchers(broker)

    # ---- the end of a run

    def quiescent_check(self, *, converged: bool = True) -> None:
        """Nothing happens any more: [A30] and [A32] hold among the members of each ISR. With
        ``converged`` also: nobody is down, high watermarks have reached the log ends, ISRs hold
        every replica."""
        self.check(self.now_s)
        self._producers.check_all(self._truths)
        if converged:
            self.txns.check_at_rest(self._truths)
            for stored, truth in self._pairs():
                at_rest.check_converged(stored, truth)
        replicas = self.replicas()
        rules = violation.Rules(deletions_may_be_missed=self.rules.deletions_may_be_missed)
        for found in (
            *replicas_agree.check(replicas, rules),
            *leader_epochs_agree.check(replicas, rules),
            *newest_values_kept.check(self.compacted(), rules),
        ):
            assert found.partition is not None
            if not self._truths[TopicPartition(*found.partition)].lossy:
                raise InvariantViolation(found.anomaly, str(found))

    def replicas(self) -> dict[tuple[str, int], Replicas]:
        """Return the logs of the running members of each ISR, as of the last check."""
        return at_rest.replicas(self._pairs())

    def compacted(self) -> dict[tuple[str, int], Compacted]:
        """Return partitions that compact, for the checker of [A33]; as of the last check."""
        return at_rest.compacted(self._pairs())

    def superseded(self) -> dict[tuple[str, int], set[int]]:
        """Return offsets that compaction may have taken away, by partition."""
        return {
            (name.topic, name.partition): truth.canon.superseded()
            for name, truth in self._truths.items()
            if isinstance(truth.canon, CompactedCanon)
        }

    def _pairs(self) -> list[tuple[StoredPartition, Truth]]:
        return [(stored, self._truth(stored)) for stored in self.store.partitions.values()]


def _rules_of(cluster: Watched) -> Rules:
    knobs = getattr(cluster, "knobs", None)
    if not isinstance(knobs, Knobs):
        return Rules()
    return Rules(
        flush=knobs.flush,
        min_insync_replicas=knobs.min_insync_replicas,
        unclean_election=knobs.unclean_election,
        acks_all=knobs.acks == "all",
        deletions_may_be_missed=knobs.delete_retention_ms < 60_000,
    )


def _recover(replica: Replica, truth: Truth) -> None:
    """A harmed replica that has all there is again, by a walk over all of it, is like others."""
    view = replica.view
    if (
        replica.damaged
        and view is not None
        and view.resets > replica.resets_at_harm
        and not view.fault
        and view.matched >= truth.canon.end
    ):
        replica.damaged = False


def _difference(view: LogView | None, truth: Truth) -> str:
    """Say where a log leaves the canon."""
    if view is None:
        return "there is no log"
    mine, canon = view.at(view.matched), truth.canon.at(view.matched)
    return f"equal below {view.matched}, then {mine} instead of {canon}"


def _check_epoch_order(where: str, entries: list[tuple[int, int]], end: int) -> None:
    for (epoch, start), (later, after) in pairwise(entries):
        if later <= epoch or after <= start:
            raise InvariantViolation("I1", f"{where}: epochs {entries} do not ascend")
    if entries and entries[-1][1] > end:
        raise InvariantViolation("I1", f"{where}: epochs {entries} go beyond the log end {end}")


def _check_fetchers(broker: Broker) -> None:
    """Check [I13]: a follower has one fetcher; a leader, nobody's and a failed one have none."""
    manager = broker.replicas
    for name, partition in manager._partitions.items():
        fetchers = [leader for (leader, _), loop in manager._loops.items() if name in loop]
        follows = partition.leader is None and partition.leader_id != NO_BROKER
        follows = follows and name not in manager._unwritable
        wanted = [partition.leader_id] if follows and not partition.failed else []
        if fetchers != wanted:
            raise InvariantViolation(
                "I13",
                f"{name} on broker {broker.broker_id}: {partition!r} is fetched from {fetchers}",
            )
