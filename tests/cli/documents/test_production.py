"""Records that were sent are counted by what became of them, partition by partition."""

from __future__ import annotations

from oncelog.errors import MessageTooLargeError
from oncelog.producer.record_metadata import RecordMetadata
from oncelog_cli.documents.production import Tally


class DoneDelivery:
    """The outcome of this delivery is known from the start."""

    def __init__(self, outcome: RecordMetadata | Exception) -> None:
        self.outcome = outcome

    def exception(self) -> Exception | None:
        return self.outcome if isinstance(self.outcome, Exception) else None

    def result(self) -> RecordMetadata:
        assert isinstance(self.outcome, RecordMetadata)
        return self.outcome


def test_the_tally() -> None:
    tally = Tally()
    error = MessageTooLargeError("too large")
    for outcome in (
        RecordMetadata("t", 2, 5, 0),
        RecordMetadata("t", 2, 6, 0),
        RecordMetadata("t", 0, -1, 0),
        error,
        MessageTooLargeError("later"),
    ):
        tally.settle(DoneDelivery(outcome))
    assert (tally.records, tally.failed, tally.failure) == (3, 2, error)
    assert tally.rows() == [
        {"partition": 0, "records": 1, "first_offset": None, "last_offset": None},
        {"partition": 2, "records": 2, "first_offset": 5, "last_offset": 6},
    ]
    assert tally.document("t") == {
        "topic": "t",
        "records": 3,
        "failed": 2,
        "partitions": tally.rows(),
        "committed": None,
        "receipt": None,
    }
