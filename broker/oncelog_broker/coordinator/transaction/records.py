"""``__transaction_state`` holds three kinds of facts, as msgpack arrays. Pure.

============  =======================  ============================================================
fact          key                      value
============  =======================  ============================================================
ordinary id   [1, transactional_id]    [0, 0, state, producer_id, producer_epoch, timeout_ms,
                                       start_ms, changed_ms, marker_id, marker_epoch, ending,
                                       init_id, init_epoch, topics]; [1, ...] goes on with number
shared id     [1, transactional_id]    [0, 1, state, ordinal, tag, timeout_ms, start_ms, changed_ms,
                                       last_committed_tag, last_committed_ordinal, ending, winners]
writer        [2, transactional_id,    [0, ordinal, writer, topics]
              producer_id]
ordinals      [3]                      [0, last_ordinal]
============  =======================  ============================================================

``topics`` is [[topic, [partition, ...]], ...]. A value begins with its version; a reader takes
newer ones and ignores fields it does not know. No value: the fact is taken back. A key of an
unknown type is of a newer release, and is left alone. Dates are wall-clock milliseconds.

One fact a writer, so that the n-th of ten thousand does not write down the others again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgpack

from oncelog_broker.coordinator.result import CoordinatorRecord, RecordFormatError
from oncelog_broker.coordinator.transaction.states import Ending, TxnState
from oncelog_protocol.types import TopicPartition

ID_KEY = 1
WRITER_KEY = 2
ORDINALS_KEY = 3
VALUE_VERSION = 0
NUMBERED_VERSION = 1
"""The value of an ordinary id has this version when its transactions end by number."""

_ORDINARY = 0
_SHARED = 1
_ORDINARY_FIELDS = 14
_NUMBER_FIELD = 14
_SHARED_FIELDS = 12


class SavedTransaction(NamedTuple):
    """It is an ordinary transactional id, with its producer and the transaction that is open or was
    last.

    ``producer_id`` and ``producer_epoch`` are the present pair, that of the next transaction from
    PREPARE on. ``marker_id`` and ``marker_epoch`` are the pair of the last end's markers, -1 when
    none came after the last InitPid. ``init_id`` and ``init_epoch`` are what the InitPid named that
    made this Empty, -1 when it named none. ``partitions`` are those of the open transaction.

    ``number`` is that of the transaction that is open or was last, if it leaves the epoch as it is
    when its producer ends it: the first under an epoch has 1. It is 0 where every end raises the
    epoch, and under an epoch that has had no transaction yet.
    """

    state: TxnState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int = -1
    changed_ms: int = 0
    marker_id: int = -1
    marker_epoch: int = -1
    ending: Ending = Ending.CLIENT
    init_id: int = -1
    init_epoch: int = -1
    partitions: tuple[TopicPartition, ...] = ()
    number: int = 0

    def begun(
        self, partitions: tuple[TopicPartition, ...], now_ms: int, *, by_number: bool = False
    ) -> SavedTransaction:
        """Return the state in which the next transaction has begun with these partitions."""
        return self._replace(
            state=TxnState.ONGOING,
            start_ms=now_ms,
            changed_ms=now_ms,
            init_id=-1,
            init_epoch=-1,
            partitions=partitions,
            number=self.number + 1 if by_number else 0,
        )

    def grown(self, partitions: tuple[TopicPartition, ...], now_ms: int) -> SavedTransaction:
        """Return the state in which the open transaction has these partitions."""
        return self._replace(partitions=partitions, changed_ms=now_ms)

    def prepared(
        self,
        commit: bool,
        ending: Ending,
        following: tuple[int, int],
        marker_epoch: int,
        now_ms: int,
    ) -> SavedTransaction:
        """Return the state in which the end is decided.

        :param following: the producer id and epoch of the next transaction.
        """
        producer_id, producer_epoch = following
        return self._replace(
            state=TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            changed_ms=now_ms,
            marker_id=self.producer_id,
            marker_epoch=marker_epoch,
            ending=ending,
            init_id=-1,
            init_epoch=-1,
            number=0,
        )

    def prepared_by_number(self, commit: bool, now_ms: int) -> SavedTransaction:
        """Return the state in which its producer's end is decided, and which leaves the epoch as it
        is: the number tells its markers from those of others."""
        return self._replace(
            state=TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT,
            changed_ms=now_ms,
            marker_id=self.producer_id,
            marker_epoch=self.producer_epoch,
            ending=Ending.CLIENT,
        )

    def completed(self, now_ms: int) -> SavedTransaction:
        """Return the state in which all markers are written."""
        return self._replace(
            state=self.state.completed, changed_ms=now_ms, start_ms=-1, partitions=()
        )


class SavedShared(NamedTuple):
    """It is an id of shared transactions, with the transaction that is open or was last.
    ``winners`` are producer ids, while a commit is being carried out."""

    state: TxnState
    ordinal: int
    tag: int
    timeout_ms: int
    start_ms: int = -1
    changed_ms: int = 0
    last_committed_tag: int = -1
    last_committed_ordinal: int = -1
    ending: Ending = Ending.CLIENT
    winners: tuple[int, ...] = ()

    def prepared(
        self, commit: bool, ending: Ending, winners: tuple[int, ...], now_ms: int
    ) -> SavedShared:
        """Return the state in which the end is decided; a commit moves the last committed tag."""
        return self._replace(
            state=TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT,
            changed_ms=now_ms,
            ending=ending,
            winners=winners,
            last_committed_tag=self.tag if commit else self.last_committed_tag,
            last_committed_ordinal=self.ordinal if commit else self.last_committed_ordinal,
        )

    def completed(self, now_ms: int) -> SavedShared:
        """Return the state in which all markers are written; the writers are forgotten with it."""
        return self._replace(state=self.state.completed, changed_ms=now_ms, start_ms=-1, winners=())


class SavedWriter(NamedTuple):
    """It is one writer of the shared transaction that is open, by its producer id."""

    ordinal: int
    writer: str
    partitions: tuple[TopicPartition, ...] = ()

    def grown(self, partitions: tuple[TopicPartition, ...]) -> SavedWriter:
        """Return the writer with these partitions as well."""
        return self._replace(partitions=self.partitions + partitions)


Saved = SavedTransaction | SavedShared


class IdFact(NamedTuple):
    """It is a decoded record of an id; ``saved`` None takes it back."""

    transactional_id: str
    saved: Saved | None


class WriterFact(NamedTuple):
    """It is a decoded record of a writer; ``saved`` None takes it back."""

    transactional_id: str
    producer_id: int
    saved: SavedWriter | None


class OrdinalsFact(NamedTuple):
    """It is a decoded record of how far ordinals were given out."""

    last_ordinal: int


_pack = msgpack.Packer().pack
_unpack = msgpack.unpackb


def id_record(transactional_id: str, saved: Saved | None) -> CoordinatorRecord:
    """Return the record of an id, or of its end."""
    key = _pack([ID_KEY, transactional_id])
    if saved is None:
        return CoordinatorRecord(key, None)
    if isinstance(saved, SavedTransaction):
        fields = [
            NUMBERED_VERSION if saved.number else VALUE_VERSION,
            _ORDINARY,
            int(saved.state),
            saved.producer_id,
            saved.producer_epoch,
            saved.timeout_ms,
            saved.start_ms,
            saved.changed_ms,
            saved.marker_id,
            saved.marker_epoch,
            int(saved.ending),
            saved.init_id,
            saved.init_epoch,
            by_topic(saved.partitions),
        ]
        if saved.number:
            fields.append(saved.number)
    else:
        fields = [
            VALUE_VERSION,
            _SHARED,
            int(saved.state),
            saved.ordinal,
            saved.tag,
            saved.timeout_ms,
            saved.start_ms,
            saved.changed_ms,
            saved.last_committed_tag,
            saved.last_committed_ordinal,
            int(saved.ending),
            saved.winners,
        ]
    return CoordinatorRecord(key, _pack(fields))


def writer_record(
    transactional_id: str, producer_id: int, saved: SavedWriter | None
) -> CoordinatorRecord:
    """Return the record of a writer, or of its end."""
    key = _pack([WRITER_KEY, transactional_id, producer_id])
    if saved is None:
        return CoordinatorRecord(key, None)
    fields = [VALUE_VERSION, saved.ordinal, saved.writer, by_topic(saved.partitions)]
    return CoordinatorRecord(key, _pack(fields))


def ordinals_record(last_ordinal: int) -> CoordinatorRecord:
    """Return the record of how far ordinals were given out."""
    return CoordinatorRecord(_pack([ORDINALS_KEY]), _pack([VALUE_VERSION, last_ordinal]))


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return the partitions of each topic, in order of first appearance."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())


def decode_record(record: CoordinatorRecord) -> IdFact | WriterFact | OrdinalsFact | None:
    """Decode one record; return None for a key of a type that this release does not know.

    :raises RecordFormatError: the bytes are no such record.
    """
    try:
        key = _unpack(record.key)
        kind = key[0]
        value = record.value
        if kind == ID_KEY:
            _, transactional_id = key
            _check((transactional_id,), (str,))
            return IdFact(transactional_id, None if value is None else _id_value(value))
        if kind == WRITER_KEY:
            _, transactional_id, producer_id = key
            _check((transactional_id, producer_id), (str, int))
            writer = None if value is None else _writer_value(value)
            return WriterFact(transactional_id, producer_id, writer)
        if kind == ORDINALS_KEY:
            if value is None:
                raise RecordFormatError("ordinals are not taken back")
            last_ordinal = _unpack(value)[1]
            _check((last_ordinal,), (int,))
            return OrdinalsFact(last_ordinal)
        if type(kind) is not int:
            raise RecordFormatError("a key begins with a number")
        return None
    except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
        raise RecordFormatError(f"record of key {record.key[:64]!r}: {error}") from None


def _id_value(value: bytes) -> SavedTransaction | SavedShared:
    fields = _unpack(value)
    if fields[1] == _ORDINARY:
        _, _, state, *numbers, ending, init_id, init_epoch, topics = fields[:_ORDINARY_FIELDS]
        number = fields[_NUMBER_FIELD] if fields[0] >= NUMBERED_VERSION else 0
        _check_numbers((state, *numbers, ending, init_id, init_epoch, number))
        producer_id, epoch, timeout_ms, start_ms, changed_ms, marker_id, marker_epoch = numbers
        return SavedTransaction(
            TxnState(state),
            producer_id,
            epoch,
            timeout_ms,
            start_ms,
            changed_ms,
            marker_id,
            marker_epoch,
            Ending(ending),
            init_id,
            init_epoch,
            _partitions(topics),
            number,
        )
    if fields[1] != _SHARED:
        raise RecordFormatError("neither an ordinary id nor one of shared transactions")
    _, _, state, *numbers, ending, winners = fields[:_SHARED_FIELDS]
    _check_numbers((state, *numbers, ending, *winners))
    ordinal, tag, timeout_ms, start_ms, changed_ms, last_tag, last_ordinal = numbers
    return SavedShared(
        TxnState(state),
        ordinal,
        tag,
        timeout_ms,
        start_ms,
        changed_ms,
        last_tag,
        last_ordinal,
        Ending(ending),
        tuple(winners),
    )


def _writer_value(value: bytes) -> SavedWriter:
    _, ordinal, writer, topics = _unpack(value)[:4]
    _check((ordinal, writer), (int, str))
    return SavedWriter(ordinal, writer, _partitions(topics))


def _partitions(topics: Sequence[Any]) -> tuple[TopicPartition, ...]:
    found = []
    for topic, partitions in topics:
        _check((topic,), (str,))
        _check_numbers(partitions)
        found += [TopicPartition(topic, partition) for partition in partitions]
    return tuple(found)


def _check_numbers(values: Sequence[Any]) -> None:
    if not {int}.issuperset(map(type, values)):
        raise RecordFormatError("a field is a number")


def _check(values: tuple[Any, ...], types: tuple[type, ...]) -> None:
    if (*map(type, values),) != types:
        raise RecordFormatError(f"fields of types {[type(value).__name__ for value in values]}")
