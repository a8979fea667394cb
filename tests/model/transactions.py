"""The model has two transactions of one producer over two partitions, and one failover of their
coordinator.

It holds the rules that keep late requests from touching what they do not belong to (KIP-890,
KIP-1228): the epoch that grows with every transaction, the guard with which a leader adds its
partition, what a marker may end, and how a repeated EndTxn is answered. Each can be switched off.

The network is the worst there can be: what was once sent may arrive at any time, in any order, any
number of times, or never. So requests stay in a set once they were sent. An answer comes with what
it answers, or is lost: then the request is there to be repeated. Only the answer to a leader that
adds its partition takes time, as the guard is about that time.

The model stays small by forgetting requests that cannot matter any more, and by not telling the two
partitions apart.

A write is durable when the coordinator has done it, or, with one of the two rules about that
switched off, only by a later step of its own, which a failover may forestall.

Left out: leaders of data partitions do not move (the producer's state moves with the log, which the
simulator checks), the epoch does not run out, and every transaction writes once to each partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

Message = tuple[Any, ...]

PARTITIONS = (0, 1)

EPOCH_MAX = 9
"""More than the model can come to with all rules on; without one, it stops there."""

COMMIT, ABORT, UNKNOWN = "commit", "abort", "?"


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Each rule is on or off. All on: the protocol."""

    bump_epoch_per_txn: bool = True
    """Every end of a transaction raises the producer's epoch."""
    empty_abort_bumps: bool = True
    """So does an abort of what the coordinator has never heard of: writes may be under way."""
    verify_transactions: bool = True
    """A leader adds its partition at the coordinator before it appends the first batch."""
    guard_ends_with_marker: bool = True
    """A marker makes void what a leader was about to append."""
    epoch_at_append: bool = True
    """An append looks at the producer's epoch then, not only when the batch came."""
    markers_need_newer_epoch: bool = True
    """A marker of the same epoch ends nothing that is open."""
    equal_marker_is_acknowledged: bool = True
    """A marker of the same epoch, with nothing open, is answered as done."""
    next_waits_for_markers: bool = True
    """Nothing is added to a transaction before all have heard how the last one ended."""
    prepare_before_markers: bool = True
    """The decision is durable before anybody hears of it."""
    add_is_durable: bool = True
    """So is an added partition, before the leader appends."""
    end_checks_epoch: bool = True
    """EndTxn ends the transaction of its own epoch only."""
    retry_checks_result: bool = True
    """A repeat of EndTxn is answered like the first only if it asks for the same."""
    reinit_after_indefinite: bool = True
    """A producer that does not know how a transaction ended takes a new epoch first."""


RULES = tuple(field.name for field in fields(ModelRules))


class Partition(NamedTuple):
    """A leader knows this of the producer, and its log says this of the transactions."""

    epoch: int = -1
    next_sequence: int = 0
    open: int = 0
    """Transactions with data that no marker has ended. Sets are bits here, that is quick."""
    committed: int = 0
    aborted: int = 0
    markers: int = 0
    """How many have been appended: the identity of a guard."""
    waiting: tuple[int, ...] = ()
    """(transaction, epoch, sequence, markers) of the batch that waits to be verified."""
    answer: str = ""
    """The coordinator's answer on its way: "ok" or "refused"."""

    @property
    def data(self) -> int:
        """Return all transactions with data here."""
        return self.open | self.committed | self.aborted


class Coordinated(NamedTuple):
    """It is the coordinator's record of the transactional id."""

    epoch: int = 0
    state: str = "Empty"
    partitions: int = 0
    by_itself: bool = False
    """The coordinator aborted, not the producer."""
    init_from: int = -1
    """The epoch that the last InitPid replaced: that is how its repeat is known."""


class Client(NamedTuple):
    """It is the producer. ``phase``: writing, ending, init, done, dead (an error that it cannot
    mend)."""

    txn: int = 0
    epoch: int = 0
    phase: str = "writing"
    told: tuple[str, ...] = ("", "")
    """How each transaction ended, as far as the application was told."""
    intended: tuple[str, ...] = ("", "")
    """The application has asked for this."""
    asked: str = ""
    sequence: int = 0
    """The next batch's, in each partition."""


class State(NamedTuple):
    """It is all that the model knows."""

    client: Client
    coordinator: Coordinated
    durable: Coordinated
    generation: int
    """The coordinator's: 1, and 2 after the failover."""
    heard: int
    """Partitions that have acknowledged the present markers."""
    partitions: tuple[Partition, ...]
    sent: frozenset[Message]


class TransactionModel:
    """It takes the steps of the model under given rules."""

    def __init__(self, rules: ModelRules | None = None, transactions: int = 2) -> None:
        self.rules = rules or ModelRules()
        self.transactions = transactions

    def start(self) -> State:
        """The producer has its id and has written its first transaction's batches."""
        record = Coordinated()
        logs = tuple(Partition() for _ in PARTITIONS)
        state = State(Client(), record, record, 1, 0, logs, frozenset())
        return self._tidy(send(state, *self._write_to(state.client)))

    # ---- what must hold

    def wrong(self, state: State) -> str:
        """Return what is wrong with a state, or nothing."""
        client = state.client
        for txn in range(self.transactions):
            seen = [p for p in PARTITIONS if state.partitions[p].committed >> txn & 1]
            gone = [p for p in PARTITIONS if state.partitions[p].aborted >> txn & 1]
            if seen and gone:
                return f"transaction {txn} is torn: visible in {seen}, aborted in {gone}"
            if seen and client.intended[txn] != COMMIT:
                return f"transaction {txn} is visible in {seen} and was never committed"
            if seen and client.told[txn] == ABORT:
                return f"transaction {txn} is visible in {seen} after it was aborted"
            if gone and client.told[txn] == COMMIT:
                return f"transaction {txn} was committed and is aborted in {gone}"
        return ""

    def is_end(self, state: State) -> bool:
        """The producer is through, every transaction is decided, the same way everywhere."""
        if state.client.phase not in ("done", "dead"):
            return False
        if state.coordinator.state not in ("Empty", "CompleteCommit", "CompleteAbort"):
            return False
        if any(log.open for log in state.partitions):
            return False
        for txn in range(self.transactions):
            seen = sum(log.committed >> txn & 1 for log in state.partitions)
            if seen not in (0, len(PARTITIONS)):
                return False
            if state.client.told[txn] == COMMIT and not seen:
                return False
        return True

    # ---- steps

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Return every step that anybody can take."""
        if max(state.coordinator.epoch, state.client.epoch) > EPOCH_MAX:
            return
        for label, following in self._all_steps(state):
            yield label, self._tidy(following)

    def _all_steps(self, state: State) -> Iterator[tuple[str, State]]:
        yield from self._client_steps(state)
        yield from self._coordinator_steps(state)
        yield from self._answers(state)
        for message in state.sent:
            label = describe(message)
            for lost, following in enumerate(
                getattr(self, f"_on_{message[0]}")(state, *message[1:])
            ):
                yield f"{label}{', its answer is lost' if lost else ''}", following

    def _tidy(self, state: State) -> State:
        """Drop what cannot matter any more, and put the lesser partition first."""
        kept = frozenset(message for message in state.sent if self._matters(state, message))
        return lesser(state._replace(sent=kept) if len(kept) < len(state.sent) else state)

    def _matters(self, state: State, message: Message) -> bool:
        client, record = state.client, state.coordinator
        kind: str = message[0]
        epoch: int = message[1]
        is_asked = client.epoch == epoch and client.phase in ("ending", "init")
        lowest = min(record.epoch, state.durable.epoch)
        if kind == "produce":
            log = state.partitions[message[2]]
            is_repeat: bool = epoch == log.epoch and message[4] < log.next_sequence
            return epoch >= log.epoch and not is_repeat
        if kind == "marker":
            log = state.partitions[message[2]]
            is_present: bool = (epoch, message[4]) == (record.epoch, state.generation)
            return epoch >= log.epoch or is_present or lowest != record.epoch
        if kind == "end" and not self.rules.end_checks_epoch:
            return True
        if kind == "add":
            return epoch >= lowest
        return is_asked or epoch + 1 >= lowest

    # ---- the producer

    def _write_to(self, client: Client) -> list[Message]:
        return [("produce", client.epoch, p, client.txn, client.sequence) for p in PARTITIONS]

    def _client_steps(self, state: State) -> Iterator[tuple[str, State]]:
        client = state.client
        if client.phase == "writing":
            if all(log.data >> client.txn & 1 for log in state.partitions):
                yield "the application commits", self._ask_end(state, COMMIT)
            yield "the application aborts", self._ask_end(state, ABORT)
        if client.phase in ("writing", "ending") and client.txn == 0:
            yield "the producer gives up waiting, or is replaced", self._give_up(state)

    def _ask_end(self, state: State, result: str) -> State:
        client = state.client
        intended = with_item(client.intended, client.txn, result)
        client = client._replace(phase="ending", asked=result, intended=intended)
        return send(state._replace(client=client), ("end", client.epoch, result))

    def _give_up(self, state: State) -> State:
        told = with_item(state.client.told, state.client.txn, UNKNOWN)
        client = state.client._replace(told=told, asked="")
        if self.rules.reinit_after_indefinite:
            client = client._replace(phase="init")
            return send(state._replace(client=client), ("init", client.epoch))
        return self._next(state._replace(client=client), client.epoch)

    def _next(self, state: State, epoch: int) -> State:
        """Begin the next transaction under ``epoch``, or end."""
        client = state.client
        if client.txn + 1 == self.transactions:
            return state._replace(client=client._replace(phase="done", epoch=epoch, asked=""))
        sequence = 0 if epoch != client.epoch else client.sequence + 1
        client = client._replace(
            txn=client.txn + 1,
            epoch=epoch,
            phase="writing",
            asked="",
            sequence=sequence,
        )
        return send(state._replace(client=client), *self._write_to(client))

    def _ended(self, state: State, epoch: int, asked: str, answer: str, following: int) -> State:
        client = state.client
        if client.phase != "ending" or (client.epoch, client.asked) != (epoch, asked):
            return state
        if answer == "ok":
            told = with_item(client.told, client.txn, asked)
            return self._next(state._replace(client=client._replace(told=told)), following)
        if answer == "abortable":
            return send(state._replace(client=client._replace(asked=ABORT)), ("end", epoch, ABORT))
        return state._replace(client=client._replace(phase="dead"))

    # ---- the coordinator

    def _coordinator_steps(self, state: State) -> Iterator[tuple[str, State]]:
        record = state.coordinator
        if record.state == "Ongoing":
            yield "the transaction times out", self._prepare(state, ABORT, by_itself=True)
        if record != state.durable:
            yield "the coordinator's write is durable", state._replace(durable=record)
        if state.generation == 1:
            moved = state._replace(coordinator=state.durable, generation=2, heard=0)
            yield "the coordinator fails over", self._send_markers(moved)
        if record.state.startswith("Prepare") and record.partitions & ~state.heard == 0:
            complete = record.state.replace("Prepare", "Complete")
            done = record._replace(state=complete, partitions=0)
            yield "the transaction is complete", self._write(state, done)

    def _write(self, state: State, record: Coordinated, *, durable: bool = True) -> State:
        written = state._replace(coordinator=record)
        return written._replace(durable=record) if durable else written

    def _prepare(self, state: State, result: str, *, by_itself: bool = False) -> State:
        record = state.coordinator
        name = "PrepareCommit" if result == COMMIT else "PrepareAbort"
        epoch = record.epoch + self.rules.bump_epoch_per_txn
        prepared = record._replace(state=name, epoch=epoch, by_itself=by_itself)
        written = self._write(state, prepared, durable=self.rules.prepare_before_markers)
        return self._send_markers(written._replace(heard=0))

    def _send_markers(self, state: State) -> State:
        record = state.coordinator
        if not record.state.startswith("Prepare"):
            return state
        result = COMMIT if record.state == "PrepareCommit" else ABORT
        markers = [
            ("marker", record.epoch, partition, result, state.generation)
            for partition in PARTITIONS
            if record.partitions >> partition & 1
        ]
        return send(state, *markers)

    def _on_add(self, state: State, epoch: int, number: int, markers: int) -> list[State]:
        """A leader's partition belongs to the transaction of ``epoch``, or is refused."""
        record = state.coordinator
        if epoch != record.epoch:
            return [answered(state, number, epoch, markers, "refused")]
        if record.state.startswith("Prepare") and self.rules.next_waits_for_markers:
            return []
        had = record.partitions if record.state == "Ongoing" else 0
        ongoing = Coordinated(epoch, "Ongoing", had | 1 << number)
        if ongoing != record:
            state = self._write(state, ongoing, durable=self.rules.add_is_durable)
        return [answered(state, number, epoch, markers, "ok"), state]

    def _on_end(self, state: State, epoch: int, asked: str) -> list[State]:
        record = state.coordinator
        is_present = epoch == record.epoch or not self.rules.end_checks_epoch
        if is_present and record.state == "Ongoing":
            state, answer = self._prepare(state, asked), "ok"
        elif epoch == record.epoch:
            state, answer = self._end_what_is_not_open(state, asked)
        elif epoch + 1 != record.epoch or record.state in ("Empty", "Ongoing"):
            answer = "fenced"
        elif asked == self._result(record) or not self.rules.retry_checks_result:
            answer = "ok"
        else:
            answer = "abortable" if asked == COMMIT and record.by_itself else "invalid"
        if not answer:
            return []
        return [self._ended(state, epoch, asked, answer, state.coordinator.epoch), state]

    def _result(self, record: Coordinated) -> str:
        return COMMIT if record.state.endswith("Commit") else ABORT

    def _end_what_is_not_open(self, state: State, asked: str) -> tuple[State, str]:
        record = state.coordinator
        bumps = self.rules.bump_epoch_per_txn
        if record.state.startswith("Prepare") and bumps:
            return state, ""  # an answer comes when the last one's markers are through
        if not bumps and record.state != "Empty":
            return state, "ok" if asked == self._result(record) else "invalid"
        if asked == COMMIT:
            return state, "invalid"
        if bumps and self.rules.empty_abort_bumps:
            state = self._write(state, Coordinated(record.epoch + 1, "CompleteAbort"))
        return state, "ok"

    def _on_init(self, state: State, epoch: int) -> list[State]:
        """Take over by InitPid with the epoch that the producer had: the newest wins (KIP-360)."""
        record = state.coordinator
        if record.init_from != epoch:
            if record.epoch not in (epoch, epoch + 1) or record.state.startswith("Prepare"):
                return []
            if record.state == "Ongoing":
                return [self._prepare(state, ABORT, by_itself=True)]
            record = Coordinated(record.epoch + 1, init_from=epoch)
            state = self._write(state, record)
        if state.client.phase != "init" or state.client.epoch != epoch:
            return [state]
        return [self._next(state, record.epoch), state]

    # ---- leaders of the partitions

    def _on_produce(
        self, state: State, epoch: int, number: int, txn: int, sequence: int
    ) -> list[State]:
        log = state.partitions[number]
        if epoch < log.epoch or sequence != (log.next_sequence if epoch == log.epoch else 0):
            return []
        if log.open and epoch == log.epoch:
            return [append(state, txn, epoch, sequence, number)]
        asking = send(state, ("add", epoch, number, log.markers))
        if not self.rules.verify_transactions:
            return [append(asking, txn, epoch, sequence, number)]
        if log.waiting:
            return []
        waiting = log._replace(waiting=(txn, epoch, sequence, log.markers))
        return [with_log(asking, number, waiting)]

    def _answers(self, state: State) -> Iterator[tuple[str, State]]:
        """The coordinator's answer to a leader arrives."""
        for number, log in enumerate(state.partitions):
            if not log.waiting or not log.answer:
                continue
            txn, epoch, sequence, markers = log.waiting
            after = with_log(state, number, log._replace(waiting=(), answer=""))
            is_void = self.rules.guard_ends_with_marker and markers != log.markers
            is_late = self.rules.epoch_at_append and epoch < log.epoch
            if log.answer == "ok" and not is_void and not is_late:
                after = append(after, txn, epoch, sequence, number)
            yield f"partition {number} hears: {log.answer}", after

    def _on_marker(
        self, state: State, epoch: int, number: int, result: str, generation: int
    ) -> list[State]:
        log = state.partitions[number]
        if epoch < log.epoch:
            return self._acknowledged(state, epoch, number, generation)  # it has ended before
        if epoch == log.epoch and not log.open:
            if self.rules.bump_epoch_per_txn and not self.rules.equal_marker_is_acknowledged:
                return []
            return self._acknowledged(state, epoch, number, generation)
        if (
            epoch == log.epoch
            and self.rules.bump_epoch_per_txn
            and self.rules.markers_need_newer_epoch
        ):
            return self._acknowledged(state, epoch, number, generation)
        ended = log._replace(
            epoch=epoch,
            next_sequence=0 if epoch > log.epoch else log.next_sequence,
            open=0,
            committed=log.committed | (log.open if result == COMMIT else 0),
            aborted=log.aborted | (log.open if result == ABORT else 0),
            markers=log.markers + 1,
        )
        return self._acknowledged(with_log(state, number, ended), epoch, number, generation)

    def _acknowledged(self, state: State, epoch: int, number: int, generation: int) -> list[State]:
        """The coordinator that sent the marker hears of it, or does not."""
        record = state.coordinator
        if not record.state.startswith("Prepare"):
            return [state]
        if (epoch, generation) != (record.epoch, state.generation):
            return [state]
        return [state._replace(heard=state.heard | 1 << number), state]


# ---- small hands


def send(state: State, *messages: Message) -> State:
    """Return the state with messages under way."""
    return state._replace(sent=state.sent.union(messages))


def with_log(state: State, number: int, log: Partition) -> State:
    """Return the state with one partition replaced."""
    logs = list(state.partitions)
    logs[number] = log
    return state._replace(partitions=tuple(logs))


def with_item(items: tuple[str, ...], index: int, item: str) -> tuple[str, ...]:
    return (*items[:index], item, *items[index + 1 :])


def append(state: State, txn: int, epoch: int, sequence: int, number: int) -> State:
    """A batch is in the log, its transaction open there."""
    log = state.partitions[number]
    log = log._replace(epoch=epoch, next_sequence=sequence + 1, open=log.open | 1 << txn)
    return with_log(state, number, log)


def answered(state: State, number: int, epoch: int, markers: int, answer: str) -> State:
    """The coordinator's answer is on its way to a leader that still waits for it."""
    log = state.partitions[number]
    if not log.waiting or (log.waiting[1], log.waiting[3]) != (epoch, markers):
        return state
    return with_log(state, number, log._replace(answer=answer))


NOT_OF_ONE = ("end", "init")
"""Requests that name no partition."""


def swapped(state: State) -> State:
    """Return the same with the partitions' names exchanged."""
    sent = frozenset(
        message if message[0] in NOT_OF_ONE else (*message[:2], 1 - message[2], *message[3:])
        for message in state.sent
    )
    return State(
        state.client,
        mirrored(state.coordinator),
        mirrored(state.durable),
        state.generation,
        MIRROR[state.heard],
        state.partitions[::-1],
        sent,
    )


MIRROR = (0b00, 0b10, 0b01, 0b11)


def mirrored(record: Coordinated) -> Coordinated:
    """Return the record with the partitions' names exchanged."""
    return record._replace(partitions=MIRROR[record.partitions])


def lesser(state: State) -> State:
    """Return the same one of a state and its mirror image, whichever of them is given."""
    first, second = state.partitions
    if first != second:
        return state if first < second else swapped(state)
    image = swapped(state)
    return min(state, image, key=order_of)


def order_of(state: State) -> tuple[object, ...]:
    """Tell a state from its mirror image where the logs are the same."""
    records = (state.coordinator.partitions, state.durable.partitions, state.heard)
    return (*records, sorted(message for message in state.sent if message[0] != "end"))


def describe(message: Message) -> str:
    """Return a message as a trace shows it."""
    return " ".join(str(part) for part in message)


def without(*rules: str) -> ModelRules:
    """Return all rules but these."""
    return replace(ModelRules(), **dict.fromkeys(rules, False))
