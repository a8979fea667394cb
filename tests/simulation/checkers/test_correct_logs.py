"""A log that is right gives no violation, whatever its clients do: checkers raise no false alarm.

The model is small and obviously correct: each partition is a list; a send is appended whole or not
at all, perhaps twice without idempotence; a transaction is appended everywhere and then marked, and
its records are holes when it was aborted. Its clients record themselves as ours do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from oncelog.history_events import EventType
from simulation.checkers.verdict import failures, verdict
from simulation.checkers.violation import Rules
from simulation.history import History, HistoryEvent, HistoryRecorder, Key, MicroOp, value_of

KEYS: tuple[Key, ...] = (("x", 0), ("x", 1), ("y", 0))


@dataclass(eq=False)
class Batch:
    """It is a send under way."""

    number: int
    key: Key
    values: list[bytes]
    stored_at: int | None = None


class Producer:
    """Its batches are on their way to the log, in order, and their answers on the way back."""

    def __init__(self, name: str, recorder: HistoryRecorder) -> None:
        self.name = name
        self.recorder = recorder
        self.sent: deque[Batch] = deque()
        self.landed: deque[Batch] = deque()
        self.count = 0

    def values(self, key: Key, count: int) -> list[bytes]:
        self.count += count
        return [value_of(*key, self.name, self.count - 1 - i) for i in range(count)]


@dataclass
class Model:
    """It has the logs, and all that was recorded of them."""

    idempotent: bool
    logs: dict[Key, list[bytes | None]] = field(default_factory=lambda: {k: [] for k in KEYS})
    """None: nothing for readers."""
    events: list[HistoryEvent] = field(default_factory=list)
    transactions: int = 0

    def __post_init__(self) -> None:
        self.producers = [Producer(name, self.recorder(name)) for name in ("p1", "p2")]
        self.consumers = [self.recorder(name) for name in ("c1", "c2")]
        self.positions: list[dict[Key, int]] = [{}, {}]

    def recorder(self, name: str) -> HistoryRecorder:
        return HistoryRecorder(name, self.events.append, lambda: float(len(self.events)))

    # ---- producers

    def send(self, who: int, where: int, count: int) -> None:
        producer, key = self.producers[who], KEYS[where]
        values = producer.values(key, 1 + count % 3)
        number = producer.recorder.invoke("send", *key, values)
        producer.sent.append(Batch(number, key, values))

    def land(self, who: int, fate: int) -> None:
        """The oldest batch is stored (perhaps twice), refused, or lost on the way."""
        producer = self.producers[who]
        if not producer.sent:
            return
        batch = producer.sent.popleft()
        log = self.logs[batch.key]
        if fate < 6:
            batch.stored_at = len(log)
            log += batch.values
            if fate == 1 and not self.idempotent:
                batch.stored_at = len(log)
                log += batch.values
            producer.landed.append(batch)
        elif fate == 6:
            producer.recorder.fail(batch.number, ValueError("refused"))
        else:
            producer.recorder.info(batch.number, ConnectionError("lost"))

    def answer(self, who: int, fate: int) -> None:
        """The oldest answer arrives, or is lost."""
        producer = self.producers[who]
        if not producer.landed:
            return
        batch = producer.landed.popleft()
        assert batch.stored_at is not None
        if fate:
            offsets = range(batch.stored_at, batch.stored_at + len(batch.values))
            producer.recorder.ok(batch.number, offsets)
        else:
            producer.recorder.info(batch.number, ConnectionError("lost"))

    def transact(self, who: int, where: int, fate: int) -> None:
        """Write two partitions at once; committed, aborted, or committed though nobody heard."""
        self.transactions += 1
        producer = self.producers[who]
        keys = (KEYS[where], KEYS[(where + 1) % 3], KEYS[where])
        values = [producer.values(key, 1)[0] for key in keys]
        sends: list[MicroOp] = []
        for key, value in zip(keys, values, strict=True):
            sends.append(MicroOp("send", *key, value, len(self.logs[key])))
            self.logs[key].append(None if fate == 0 else value)
        for key in keys[:2]:
            self.logs[key].append(None)
        end: EventType = "fail" if fate == 0 else "info" if fate == 1 else "ok"
        begun = tuple(mop._replace(offset=None) for mop in sends)
        ended = tuple(sends) if end == "ok" else ()
        name = f"t{self.transactions}"
        now = float(len(self.events))
        self.events.append(HistoryEvent(now, name, "txn", 1, "invoke", "txn", begun))
        self.events.append(HistoryEvent(now, name, "txn", 1, end, "txn", ended))

    # ---- consumers

    def poll(self, who: int, where: int, most: int = 5) -> None:
        key, positions = KEYS[where], self.positions[who]
        start = positions.setdefault(key, 0)
        log = self.logs[key]
        offsets = [o for o in range(start, len(log)) if log[o] is not None][: most + 1]
        if offsets:
            recorder = self.consumers[who]
            number = recorder.invoke("poll", *key, ())
            recorder.ok(number, offsets, [log[offset] for offset in offsets])
            positions[key] = offsets[-1] + 1
        recorder = self.consumers[who]
        recorder.watermark(*key, 1, len(log), positions[key] if offsets else -1)

    def seek(self, who: int, where: int, offset: int) -> None:
        key = KEYS[where]
        position = min(offset, len(self.logs[key]))
        self.positions[who][key] = position
        self.consumers[who].moved(*key, position, "seek")

    def assign(self, who: int, where: int) -> None:
        key = KEYS[where]
        self.positions[who][key] = 0
        self.consumers[who].moved(*key, None, "assign")
        self.consumers[who].moved(*key, 0, "found")

    def crash(self, who: int) -> None:
        self.positions[who].clear()
        self.consumers[who].crashed()

    def finish(self) -> None:
        """Everything under way arrives or not, then one consumer reads all there is."""
        for who, producer in enumerate(self.producers):
            while producer.sent:
                self.land(who, len(producer.sent) % 8)
            while producer.landed:
                self.answer(who, len(producer.landed) % 3)
        for where in range(len(KEYS)):
            self.assign(0, where)
            for _ in range(len(self.logs[KEYS[where]]) // 5 + 1):
                self.poll(0, where)


WHO, WHERE, SMALL = st.integers(0, 1), st.integers(0, 2), st.integers(0, 8)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), WHO, WHERE, SMALL),
    st.tuples(st.just("send"), WHO, WHERE, SMALL),
    st.tuples(st.just("land"), WHO, SMALL),
    st.tuples(st.just("land"), WHO, SMALL),
    st.tuples(st.just("answer"), WHO, SMALL),
    st.tuples(st.just("answer"), WHO, SMALL),
    st.tuples(st.just("transact"), WHO, WHERE, st.integers(0, 3)),
    st.tuples(st.just("poll"), WHO, WHERE),
    st.tuples(st.just("poll"), WHO, WHERE, SMALL),
    st.tuples(st.just("seek"), WHO, WHERE, SMALL),
    st.tuples(st.just("assign"), WHO, WHERE),
    st.tuples(st.just("crash"), WHO),
)


@given(st.booleans(), st.lists(ACTIONS, max_size=60))
def test_a_correct_log_breaks_no_promise(
    idempotent: bool, actions: list[tuple[str, *tuple[int, ...]]]
) -> None:
    model = Model(idempotent)
    for name, *arguments in actions:
        getattr(model, name)(*arguments)
    model.finish()
    holes = {
        key: {offset for offset, value in enumerate(log) if value is None}
        for key, log in model.logs.items()
    }
    found = verdict(History.from_events(model.events), Rules(idempotent=idempotent), holes=holes)
    assert failures(found) == []
