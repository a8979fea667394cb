"""It is tested here when the controller moves replicas by itself, and when it does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller.balance.snapshot import Goal
from oncelog_controller.balance_watch import AGAIN_S, BalanceWatch, ClusterLook, Occasion
from support.room_settings import controller_settings

NONE: frozenset[int] = frozenset()


@dataclass
class Watched:
    """It is a cluster. Its watch is asked whenever that is due."""

    mode: str = "on_join"
    dead_after_s: int = 0
    lives: dict[int, int] = field(default_factory=dict)
    drained: set[int] = field(default_factory=set)
    replicas: dict[int, int] = field(default_factory=dict)
    look: dict[str, Any] = field(default_factory=dict)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.watch = BalanceWatch()
        self.config = controller_settings(
            balance_mode=self.mode,
            balance_settle_ms=60_000,
            balance_interval_ms=100_000,
            balance_dead_after_ms=self.dead_after_s * 1000,
        )

    def join(self, *broker_ids: int, epoch: int = 1) -> None:
        self.lives |= dict.fromkeys(broker_ids, epoch)
        self.tell()

    def lose(self, broker_id: int) -> None:
        del self.lives[broker_id]
        self.tell()

    def tell(self) -> None:
        serving = [b for b in self.lives if b not in self.drained]
        self.watch.brokers_changed(self.lives, serving, self.now)

    def pass_time(self, seconds: float) -> list[tuple[float, Occasion]]:
        """Return what came of it, and when."""
        end, found = self.now + seconds, list[tuple[float, Occasion]]()
        while (due := self.watch.due(self.config)) is not None and due <= end:
            self.now = max(self.now, due)
            occasion = self.watch.decide(self.seen(), self.config, self.now)
            if occasion is not None:
                found.append((self.now, occasion))
        self.now = end
        return found

    def seen(self) -> ClusterLook:
        serving = {b: self.replicas.get(b, 0) for b in self.lives if b not in self.drained}
        missing = frozenset(b for b in self.replicas if b not in self.lives)
        fields = {"leaderless": False, "under_way": False, "short": False, **self.look}
        return ClusterLook(serving, missing, **fields)


def test_a_broker_that_was_added_is_used_once_when_it_has_settled() -> None:
    cluster = Watched(replicas={1: 6, 2: 6})
    cluster.join(1, 2)
    assert cluster.pass_time(1000) == [], "they are as they were"
    cluster.join(3)
    assert cluster.pass_time(59) == []
    assert cluster.pass_time(1000) == [(1060, Occasion.JOINED)]
    cluster.join(3, epoch=2)
    assert cluster.pass_time(1000) == [(2119, Occasion.JOINED)], "it has got nothing"
    cluster.replicas[3] = 2
    cluster.join(3, epoch=3)
    assert cluster.pass_time(1000) == [(3119, Occasion.JOINED)], "less than half of the mean"
    cluster.replicas[3] = 3
    cluster.join(3, epoch=4)
    assert cluster.pass_time(1000) == []


def test_a_broker_out_of_service_is_considered_when_it_is_back() -> None:
    cluster = Watched(replicas={1: 6, 2: 6}, drained={3})
    cluster.join(1, 2, 3)
    assert cluster.pass_time(1000) == []
    cluster.drained = set()
    cluster.tell()
    assert cluster.pass_time(1000) == [(1060, Occasion.JOINED)]


def test_nothing_is_planned_while_something_is_in_the_way() -> None:
    for hindrance in ("leaderless", "under_way"):
        cluster = Watched(replicas={1: 6, 2: 0}, look={hindrance: True})
        cluster.join(1, 2)
        assert cluster.pass_time(100) == []
        cluster.look = {}
        ((at, _),) = cluster.pass_time(100)
        assert 100 <= at <= 100 + AGAIN_S


def test_nothing_is_planned_while_a_broker_may_come_back() -> None:
    cluster = Watched(replicas={1: 6, 2: 6, 3: 6})
    cluster.join(1, 2, 3, 4)
    cluster.pass_time(30)
    cluster.lose(3)
    ((at, _),) = cluster.pass_time(1000)
    assert 90 <= at <= 90 + AGAIN_S
    cluster = Watched(replicas={1: 6, 3: 6})
    cluster.join(1, 2)  # a new controller does not know how long the third is gone
    ((at, _),) = cluster.pass_time(1000)
    assert 120 <= at <= 120 + AGAIN_S


def test_a_broker_that_is_dead_is_replaced_once() -> None:
    cluster = Watched(replicas={1: 6, 2: 6, 3: 6}, dead_after_s=500)
    cluster.join(1, 2, 3)
    cluster.pass_time(100)
    cluster.lose(3)
    assert cluster.pass_time(5000) == [(600, Occasion.REPAIR)]
    assert cluster.watch.dead(cluster.config, cluster.now) == {3}
    cluster.join(3)
    assert cluster.watch.dead(cluster.config, cluster.now) == NONE
    cluster.lose(3)
    assert cluster.pass_time(5000) == [(5600, Occasion.REPAIR)]
    never = Watched(replicas={1: 6, 2: 6})
    never.join(1, 2)
    never.lose(2)
    assert never.pass_time(10_000_000) == []


def test_own_topics_grow_when_brokers_have_settled() -> None:
    cluster = Watched(replicas={1: 6, 2: 6}, look={"short": True})
    cluster.join(1, 2)
    assert cluster.pass_time(1000) == [(60, Occasion.REPAIR)], "once, whatever came of it"
    cluster.join(3)
    assert cluster.pass_time(1000) == [(1060, Occasion.REPAIR), (1060, Occasion.JOINED)]


def test_continuous_looks_again_and_again() -> None:
    cluster = Watched("continuous", replicas={1: 6, 2: 6})
    cluster.join(1, 2)
    assert [at for at, _ in cluster.pass_time(350)] == [0, 100, 200, 300]


def test_off_is_off() -> None:
    cluster = Watched("off", dead_after_s=10, replicas={1: 6, 2: 6}, look={"short": True})
    cluster.join(1, 2, 3)
    cluster.lose(2)
    assert cluster.pass_time(10_000) == []


def measured(watch: BalanceWatch, **distances: int) -> bool:
    found = dict.fromkeys(Goal, 0) | {Goal[name]: far for name, far in distances.items()}
    return watch.measured(found, partitions=100, replicas=300, tolerance_percent=10)


def test_what_is_off_twice_in_a_row_is_mended() -> None:
    watch = BalanceWatch()
    assert not measured(watch, REPLICAS=31)
    assert measured(watch, REPLICAS=31)
    assert not measured(watch, REPLICAS=31), "the plan has yet to show"
    assert not measured(watch), "it has"
    assert not measured(watch, REPLICAS=31)
    assert not measured(watch, DISKS=1), "another one"
    assert measured(watch, DISKS=1)


def test_small_distances_do_not_matter() -> None:
    watch = BalanceWatch()
    for small in ({"REPLICAS": 30}, {"TOPICS": 30}, {"LEADERS": 10}):
        assert not measured(watch, **small)
        assert not measured(watch, **small)
    for distance in ({"LEADERS": 11}, {"BYTES": 1}, {"RACKS": 1}, {"WHOLE": 1}):
        measured(watch)
        assert not measured(watch, **distance)
        assert measured(watch, **distance)


@given(
    since=st.floats(0, 1e6),
    settle_ms=st.integers(0, 10_000),
    dead_after_ms=st.integers(1, 10_000),
    lost=st.booleans(),
)
def test_what_is_due_moves_on_when_it_was_looked_at(
    since: float, settle_ms: int, dead_after_ms: int, lost: bool
) -> None:
    """Sums of times are rounded, and a controller must not look for ever at one moment."""
    config = controller_settings(
        balance_mode="on_join", balance_settle_ms=settle_ms, balance_dead_after_ms=dead_after_ms
    )
    watch = BalanceWatch()
    watch.brokers_changed({1: 1, 2: 1}, [1, 2], since)
    if lost:
        watch.brokers_changed({1: 1}, [1], since)
    for _ in range(4):
        now = watch.due(config)
        if now is None:
            break
        watch.decide(ClusterLook({1: 1}, NONE, False, False, False), config, now)
        again = watch.due(config)
        assert again is None or again > now
    assert watch.due(config) is None
