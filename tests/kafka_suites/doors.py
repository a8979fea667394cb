"""Brokers have doors that stay open while they are dead: who comes waits until they are back.

So is a broker whose machine has died: it is silent. A dead process alone refuses, and franz-go 1.22
does not try again when FindCoordinator is refused, or ended at its first answer, whoever the
brokers are: a commit then fails with an error of the network, which its tests count as a failure.
Connections that were open end with the broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from oncelog.loop_thread import LoopThread
from oncelog_cli.local.broker import HOST, KAFKA_LISTENER
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.toml_writer import Value
from support.tcp_proxy import TcpProxy

DOORS_HOST = "127.0.0.2"
"""Every broker's door is at this address, at the port of its own listener."""
PATIENCE_S = 30.0
"""So long who comes waits."""
SETTINGS: Mapping[str, Value] = MappingProxyType(
    {"listeners": {KAFKA_LISTENER: {"advertised_host": DOORS_HOST}}}
)
"""Brokers tell clients of Kafka to come by the doors."""


@contextmanager
def doors(cluster: LocalCluster) -> Iterator[str]:
    """Open a door for each broker while the block runs.

    :returns: what clients of Kafka are to connect to first.
    """
    proxies = [
        (TcpProxy(HOST, each.kafka_port, patience_s=PATIENCE_S), each.kafka_port)
        for each in cluster.brokers.values()
    ]
    thread = LoopThread("doors")
    try:
        for proxy, port in proxies:
            thread.call(proxy.start(DOORS_HOST, port))
        yield ",".join(f"{DOORS_HOST}:{port}" for _, port in proxies)
    finally:
        for proxy, _ in proxies:
            thread.call(proxy.close())
        thread.stop()
