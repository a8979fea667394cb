"""The port's own values: errors say where and whether, and a write that is too large is refused.
What stores do is in tests/ports/test_metadata_store.py."""

from __future__ import annotations

import pytest

from oncelog_controller.store import (
    BadVersionError,
    CheckVersion,
    Create,
    Delete,
    NoNodeError,
    RequestTooLargeError,
    StoreDisconnectedError,
    check_request_size,
)


def test_errors_name_the_path_and_the_operation() -> None:
    error = BadVersionError("/a", op_index=2)
    assert (str(error), error.path, error.op_index) == ("BadVersionError: /a", "/a", 2)
    assert str(NoNodeError()) == "NoNodeError"


def test_only_a_lost_connection_leaves_the_outcome_open() -> None:
    assert StoreDisconnectedError().maybe_applied
    assert not BadVersionError().maybe_applied


def test_a_write_larger_than_the_store_takes_is_refused() -> None:
    check_request_size([])
    check_request_size([CheckVersion("/e", 1), Delete("/x"), Create("/a", b"x" * 500_000)])
    with pytest.raises(RequestTooLargeError, match="/a"):
        check_request_size([Create("/a", b"x" * 600_000), Create("/b", b"x" * 600_000)])
