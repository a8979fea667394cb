"""The content of a continuity file comes back, or is refused."""

from __future__ import annotations

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.checkpoint import CheckpointError
from oncelog_broker.log.claims import Loss
from oncelog_broker.log.continuity_record import ContinuityRecord


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"data_since": "1"},
        {"data_until": True},
        {"data_loss": "some"},
        {"directories": None},
    ],
    ids=str,
)
def test_files_that_are_refused(changes: dict[str, object]) -> None:
    record = ContinuityRecord(1, None, Loss.NONE, ("a", "b"), "boot", True)
    document = checkpoint.decode_document("x", record.encode())
    assert ContinuityRecord.decode(record.encode()) == record
    with pytest.raises(CheckpointError):
        ContinuityRecord.decode(checkpoint.encode_document({**document, **changes}))
    of_now = {"failed", "own_since", "own_loss"}  # which former releases did not write
    for missing in sorted({*document} - of_now):
        less = {key: value for key, value in document.items() if key != missing}
        with pytest.raises(CheckpointError):
            ContinuityRecord.decode(checkpoint.encode_document(less))
