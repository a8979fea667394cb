"""A search gets its orders whole: who asks, how, and for what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.test_message_range import wanteds
from oncelog import Security
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import WantedRecords
from oncelog_console.process_limits import ProcessLimits
from oncelog_console.search_worker import Kind, SearchOrders, decode_orders, encode_orders

SECURITIES = [
    None,
    Security(tls=True),
    Security(ca_file=Path("/ca.pem"), username="me", password="secret"),
    Security(username="me", password_file="/secret", mechanism="SCRAM-SHA-512"),
]


@given(
    wanteds,
    st.sampled_from(SECURITIES),
    st.dictionaries(st.sampled_from(["request_timeout_ms"]), st.integers()),
    st.sampled_from(["rows", "lines", "tail"]),
    st.none() | st.integers(1),
)
def test_orders_arrive_whole(
    wanted: WantedRecords,
    security: Security | None,
    options: dict[str, Any],
    kind: Kind,
    records_max: int | None,
) -> None:
    clients = ClusterClients("a:1,b:2", security, options)
    orders = SearchOrders(clients, wanted, ProcessLimits(1, 2), kind, records_max)
    encoded = encode_orders(orders)
    assert encoded.count(b"\n") == 1
    arrived = decode_orders(encoded)
    assert arrived.clients.security in (security, _as_text(security))
    assert (arrived.wanted, arrived.limits) == (wanted, ProcessLimits(1, 2))
    assert (arrived.kind, arrived.records_max) == (kind, records_max)
    assert (arrived.clients.servers, arrived.clients.options) == ("a:1,b:2", options)


def _as_text(security: Security | None) -> Security | None:
    if security is None or security.ca_file is None:
        return security
    return Security(ca_file="/ca.pem", username="me", password="secret")


def test_what_only_a_running_program_has_cannot_be_given() -> None:
    security = Security(tls=True, token=lambda: "secret")
    with pytest.raises(ValueError, match="cannot be given token"):
        encode_orders(
            SearchOrders(ClusterClients("a:1", security), WantedRecords("t"), ProcessLimits())
        )


def test_who_waits_for_the_first_hit_does_not_wait_for_an_admin_client() -> None:
    """Its types alone would be a fifth of what the program loads before it searches."""
    script = (
        "import sys, oncelog_console.search_worker;"
        "print([name for name in sys.modules if name.startswith('oncelog.admin')])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
