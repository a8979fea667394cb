"""What plans want is begun here as there is room for it, and what is held up is found. Pure.

Rules
-----
* A wish is begun while fewer than ``move_concurrent_per_broker`` replicas are being added on each
  broker that it needs, and fewer than ``move_concurrent_max`` in all: by priority, and the smallest
  first. What moves no data needs no room.
* A wish waits while the disks of a broker would not hold it beside what else moves there.
* A wish that is fulfilled ends, and so does one whose topic is gone or another one [M15].
* A move that is held up for ``move_stall_timeout_ms`` gives its place to others. It is not given
  up: brokers go on copying, and it gets its place again when anything about its brokers changes
  [M16].
* All that is kept here can be found out again from the plans and the states of partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from oncelog_controller import features
from oncelog_controller.broker_reports import BrokerReports
from oncelog_controller.core import STEP_PARTITIONS, WRITE_PARTITIONS_MAX, Core, Steps
from oncelog_controller.move_plans import MovePlans, WantedMove
from oncelog_controller.move_room import MoveRoom
from oncelog_controller.moves import Moves
from oncelog_controller.moving import Obstacle
from oncelog_controller.order_sizes import OrderSizes
from oncelog_controller.state import ClusterPartition
from oncelog_controller.transitions import ReplicaPhase
from oncelog_protocol.errors import PolicyViolationError
from oncelog_protocol.types import NO_LEADER, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

WATCH_S = 1.0
"""How often it is looked whether moves are held up."""

RETRY_S = 10.0
"""How soon a wish that cannot be begun is looked at again, whatever has changed."""

NEXT = "waits for its turn"
"""The reason of a wish that would be begun if there were room."""


class _Queued(NamedTuple):
    """It is a wish that may be begun; they are ordered by this."""

    priority: int
    size_bytes: int
    order: tuple[int, int]
    name: TopicPartition


@dataclass(slots=True)
class _HeldUp:
    """A move is held up ``since`` a time of the loop's clock."""

    reason: str
    since: float
    stalled: bool = False


class MoveExecutor:
    """It begins moves, and watches those that are open."""

    def __init__(self, core: Core, moves: Moves, plans: MovePlans, reports: BrokerReports) -> None:
        self._core = core
        self._moves = moves
        self._plans = plans
        self._reports = reports
        self._stale = False
        """The queues are to be made anew."""
        self._room = False
        """Something may be begun that could not be before."""
        self._sorting: Steps[None] | None = None
        self._copies: dict[tuple[int, ...], list[_Queued]] = {}
        """Wishes by the brokers that they add, the first one last."""
        self._light: list[_Queued] = []
        """Wishes that add nobody, the first one last."""
        self._waiting: dict[TopicPartition, str] = {}
        """Why a wish cannot be begun, room or not."""
        self._retry_at: float | None = None
        self._sizes: OrderSizes | None = None
        self._held: dict[TopicPartition, _HeldUp] = {}
        self._watch_at: float | None = None
        self._config = core.config
        """The settings by which it was found that there is no room."""

    # ---- what has changed

    def loaded(self) -> None:
        """The store was read: begin anew."""
        self._held.clear()
        self._copies, self._light, self._waiting = {}, [], {}
        self._sorting = None
        self.look_again()

    def look_again(self) -> None:
        """Look at all wishes again: plans, topics or brokers have changed."""
        self._stale = True

    def brokers_changed(self, brokers: Collection[int]) -> None:
        """Something about brokers has changed: what they held up is tried again."""
        self._stale = True
        for name in list(self._held):
            partition = self._moves.open.get(name)
            if partition is None or not set(brokers).isdisjoint(partition.placement.holders):
                del self._held[name]

    @property
    def due(self) -> float | None:
        """Return when it wants to go on, on the loop's clock; None: something has to happen."""
        if self._stale or self._sorting is not None or self._room:
            return self._core.now
        times = (self._watch_at, self._retry_at, self._plans.forget_at)
        return min((at for at in times if at is not None), default=None)

    # ---- what is known

    def waits_for(self, name: TopicPartition) -> str:
        """Return why a wish is not begun yet."""
        return self._waiting.get(name, NEXT)

    def is_stalled(self, name: TopicPartition) -> bool:
        """Return whether an open move is held up for so long that it has given its place away."""
        held = self._held.get(name)
        return held is not None and held.stalled

    @property
    def stalled_count(self) -> int:
        """Return how many open moves are held up so long that they have given their place away."""
        return sum([held.stalled for held in self._held.values()])

    @property
    def queued_count(self) -> int:
        """Return how many wishes have not begun, as of the last look at all of them."""
        queues = (*self._copies.values(), self._light)
        return sum([len(queue) for queue in queues]) + len(self._waiting)

    # ---- turns

    def look(self) -> None:
        """Take one turn. Call it when no write is pending."""
        for partition in self._moves.take_finished():
            self._moved(partition)
        self._watch()
        if self._config is not self._core.config:
            self._config, self._room = self._core.config, True
        if self._retry_at is not None and self._retry_at <= self._core.now:
            self._stale = True
        if self._stale and self._sorting is None:
            self._stale, self._retry_at = False, None
            self._sorting = self._sort()
        if self._sorting is not None:
            if next(self._sorting, self) is not self:
                return
            self._sorting = None
            self._room = True
        if self._room:
            self._begin_some()
        if self._waiting and self._retry_at is None:
            self._retry_at = self._core.now + RETRY_S
        if not self._core.busy:
            self._plans.forget_if_due()

    def _moved(self, partition: ClusterPartition) -> None:
        self._room = True
        self._held.pop(partition.topic_partition, None)
        wanted = self._plans.wanted.get(partition.topic_partition)
        if wanted is not None and self._is_over(wanted):
            self._plans.end(partition.topic_partition)

    def _is_over(self, wanted: WantedMove) -> bool:
        """Return whether a wish is fulfilled, or cannot be any more."""
        wish = wanted.wish
        partition = self._core.cluster.partition(*wish.name)
        if partition is None or partition.topic.topic_id != wish.topic_id:
            return True
        placement = partition.placement
        return not placement.origin and placement.replicas == wish.target

    def _sort(self) -> Steps[None]:
        """Make the queues anew."""
        core, copies = self._core, dict[tuple[int, ...], list[_Queued]]()
        light: list[_Queued] = []
        self._waiting = {}
        for number, (name, wanted) in enumerate(list(self._plans.wanted.items())):
            if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                yield
            if self._plans.wanted.get(name) is not wanted:
                continue
            if self._is_over(wanted):
                self._plans.end(name)
                continue
            partition = core.cluster.partition(*name)
            assert partition is not None
            if is_begun(partition, wanted):
                continue
            added = _added(partition, wanted)
            queued = self._queued(partition, wanted)
            reason = self._reason(partition, added)
            if reason:
                self._waiting[name] = reason
            elif added:
                copies.setdefault(added, []).append(queued)
            else:
                light.append(queued)
        if copies:
            self._sizes = yield from OrderSizes.counted(core.cluster)
        for queue in (*copies.values(), light):
            queue.sort(reverse=True)
        self._copies, self._light = copies, light

    def _queued(self, partition: ClusterPartition, wanted: WantedMove) -> _Queued:
        topic_id, index = partition.topic.topic_id, partition.index
        size = self._reports.partition_bytes(topic_id, index, (partition.leader,))
        return _Queued(
            wanted.plan.priority, max(size, 0), wanted.plan.order, partition.topic_partition
        )

    def _reason(self, partition: ClusterPartition, added: Collection[int]) -> str:
        """Return why a wish cannot be begun, room or not; "": it can."""
        cluster = self._core.cluster
        if old := cluster.without_feature(features.MOVES):
            return f"broker {old[0]} runs a release that knows no moves"
        if partition.halted:
            return "its state contradicts itself"
        if partition.leader == NO_LEADER:
            return "it has no leader"
        for broker_id in added:
            if broker_id not in cluster.brokers:
                return f"broker {broker_id} is not registered"
            if cluster.retires(broker_id):
                return f"broker {broker_id} is {cluster.service_of(broker_id)}"
        return ""

    # ---- beginning

    def _begin_some(self) -> None:
        """Begin as many as there is room for, and as fit into one multi."""
        self._room = False
        used = self._used()
        room = MoveRoom(self._reports, self._moves.open.values())
        chosen: list[tuple[ClusterPartition, WantedMove]] = []
        for _ in range(STEP_PARTITIONS):
            queue = self._light or self._next_copies(used)
            if not queue:
                break
            name = queue.pop().name
            partition, wanted = self._core.cluster.partition(*name), self._plans.wanted.get(name)
            if wanted is None or partition is None or self._is_over(wanted):
                self.look_again()
                continue
            added = _added(partition, wanted)
            if lack := room.lack(partition, wanted.wish.target):
                self._waiting[name] = lack
                continue
            if self._reason(partition, added) or not self._fits(partition, wanted):
                self._stale = self._stale or name not in self._waiting
                continue
            room.take(partition, wanted.wish.target)
            for broker_id in added:
                used[broker_id] = used.get(broker_id, 0) + 1
            chosen.append((partition, wanted))
            if len(chosen) == WRITE_PARTITIONS_MAX:
                self._room = True  # there may be more
                break
        else:
            self._room = True
        self._begin(chosen)

    def _used(self) -> dict[int, int]:
        """Return how many replicas are being added on each broker."""
        used: dict[int, int] = {}
        for name, partition in self._moves.open.items():
            if not self.is_stalled(name):
                placement = partition.placement
                for broker_id in placement.target:
                    if broker_id not in placement.origin:
                        used[broker_id] = used.get(broker_id, 0) + 1
        return used

    def _next_copies(self, used: dict[int, int]) -> list[_Queued] | None:
        """Return the queue whose first wish is next; None: there is no room."""
        config, total = self._core.config, sum(used.values())
        most = config.move_concurrent_per_broker
        best: list[_Queued] | None = None
        for added, queue in self._copies.items():
            if not queue or (total and total + len(added) > config.move_concurrent_max):
                continue
            if any(used.get(b, 0) >= most for b in added):
                continue
            if best is None or queue[-1] < best[-1]:
                best = queue
        return best

    def _fits(self, partition: ClusterPartition, wanted: WantedMove) -> bool:
        """Count what a move adds to the orders of brokers; return whether they can be sent."""
        if self._sizes is None:
            return True
        try:
            self._sizes.take_move(partition, wanted.wish.target)
        except PolicyViolationError as error:
            self._waiting[partition.topic_partition] = str(error)
            return False
        return True

    def _begin(self, chosen: list[tuple[ClusterPartition, WantedMove]]) -> None:
        by_plan: dict[str, list[tuple[ClusterPartition, WantedMove]]] = {}
        for partition, wanted in chosen:
            by_plan.setdefault(wanted.plan.plan_id, []).append((partition, wanted))
        for plan_id, each in by_plan.items():
            targets = [(partition, wanted.wish.target) for partition, wanted in each]
            self._moves.begin(targets, plan_id, now=each[0][1].plan.now)
        if chosen and self._watch_at is None:
            self._watch_at = self._core.now + WATCH_S

    # ---- watching

    def _watch(self) -> None:
        """Find out which open moves are held up."""
        now = self._core.now
        if self._watch_at is None and self._moves.open:
            self._watch_at = now
        if self._watch_at is None or self._watch_at > now:
            return
        self._watch_at = now + WATCH_S if self._moves.open else None
        for name in [name for name in self._held if name not in self._moves.open]:
            del self._held[name]
        for name, partition in self._moves.open.items():
            self._watch_one(name, self.hindrance(partition))

    def _watch_one(self, name: TopicPartition, reason: str) -> None:
        now, held = self._core.now, self._held.get(name)
        if not reason:
            self._held.pop(name, None)
        elif held is None or held.reason != reason:
            self._held[name] = _HeldUp(reason, now)
        elif (
            not held.stalled and now - held.since >= self._core.config.move_stall_timeout_ms / 1000
        ):
            held.stalled = self._room = True
            logger.warning("partition_move_stalled", partition=name, reason=reason)

    def hindrance(self, partition: ClusterPartition) -> str:
        """Return what an open move waits for; "": for nothing but its copies."""
        if partition.leader == NO_LEADER:
            return "the partition has no leader"
        obstacle, placement = self._moves.obstacle(partition), partition.placement
        if obstacle is None:
            return ""
        if obstacle is Obstacle.COPYING:
            added = [b for b in placement.target if b not in placement.origin]
            return "; ".join(self._of_copies(partition, added))
        sound = self._moves.sound(partition)
        if obstacle is Obstacle.TURNING_BACK:
            behind = [b for b in placement.origin if b not in sound]
            return f"brokers {_ids(behind)} lack records that only added replicas have"
        behind = [b for b in placement.target if b not in sound]
        if obstacle is Obstacle.WRITES:
            return f"min_insync_replicas would not be met: not in sync are {_ids(behind)}"
        return f"of those that stay are not in sync: {_ids(behind)}"

    def _of_copies(self, partition: ClusterPartition, added: Collection[int]) -> Iterator[str]:
        """Yield what holds up replicas that are being added."""
        cluster, sound = self._core.cluster, self._moves.sound(partition)
        for broker_id in added:
            copy = self._reports.copy(partition.topic.topic_id, partition.index, broker_id)
            if broker_id in sound:
                continue
            if broker_id not in cluster.brokers:
                yield f"broker {broker_id} is not registered"
            elif broker_id in cluster.suspected:
                yield f"broker {broker_id} does not answer"
            elif broker_id in cluster.shutting_down:
                yield f"broker {broker_id} stops"
            elif partition.replica_phases.get(broker_id) is ReplicaPhase.FAILED:
                yield f"the replica on broker {broker_id} has failed"
            elif copy is not None and copy.reason:
                yield f"broker {broker_id}: {copy.reason}"
            elif copy is not None and copy.bytes_per_s == 0 and copy.offsets_left != 0:
                yield f"nothing comes to broker {broker_id}"


def is_begun(partition: ClusterPartition, wanted: WantedMove) -> bool:
    """Return whether a partition moves because of a wish."""
    placement = partition.placement
    return placement.move == wanted.plan.plan_id and placement.target == wanted.wish.target


def _added(partition: ClusterPartition, wanted: WantedMove) -> tuple[int, ...]:
    """Return the brokers that would get a replica."""
    return tuple(sorted(set(wanted.wish.target).difference(partition.replicas)))


def _ids(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
