"""Records that were sent are counted here, for the document of ``produce``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from oncelog_cli.documents.answer import Document, fields_of

if TYPE_CHECKING:
    from oncelog import RecordMetadata


class Settled(Protocol):
    """A delivery that is done is asked for this."""

    def exception(self) -> BaseException | None:
        """Return the error of the delivery, or None."""
        ...

    def result(self) -> RecordMetadata:
        """Return where the record is."""
        ...


@dataclass(slots=True)
class Tally:
    """The tally counts what became of the records."""

    records: int = 0
    failed: int = 0
    failure: BaseException | None = None
    partitions: dict[int, dict[str, Any]] = field(default_factory=dict)
    committed: bool | None = None
    """How the transaction ended; None without one."""
    receipt: dict[str, Any] | None = None
    """A writer's, for the owner."""

    def settle(self, delivery: Settled) -> None:
        """Count a delivery that is done."""
        error = delivery.exception()
        if error is not None:
            self.failed += 1
            self.failure = self.failure or error
            return
        meta = delivery.result()
        self.records += 1
        row = self.partitions.get(meta.partition)
        if row is None:
            row = {"partition": meta.partition, "records": 0, "first_offset": meta.offset}
            self.partitions[meta.partition] = row
        row["records"] += 1
        row["last_offset"] = meta.offset

    def ended(self, *, committed: bool) -> None:
        """Note how the transaction ended."""
        self.committed = committed

    def handed_over(self, receipt: dict[str, Any]) -> None:
        """Note what the owner of a shared transaction is given by a writer."""
        self.receipt = receipt

    def rows(self) -> list[dict[str, Any]]:
        """Return one row a partition, sorted; without offsets at acks=0, as nobody was asked."""
        unknown = {"first_offset": None, "last_offset": None}
        rows = [self.partitions[number] for number in sorted(self.partitions)]
        return [{**row, **(unknown if row["first_offset"] < 0 else {})} for row in rows]

    def document(self, topic: str) -> Document:
        """Return the document of ``produce``: what became of the records, by partition."""
        return {
            "topic": topic,
            **fields_of(self, "records failed"),
            "partitions": self.rows(),
            **fields_of(self, "committed receipt"),
        }
