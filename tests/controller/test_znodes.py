"""The store's nodes are readable and stable, and refused when they hold something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_controller import znodes
from oncelog_controller.state import (
    BrokerRegistration,
    DataClaim,
    DataLoss,
    KeptPartitions,
    OutOfService,
    PartitionState,
    Placement,
)
from oncelog_controller.store import NodeStat
from oncelog_controller.znodes import CorruptNodeError
from oncelog_protocol.messages.metadata import ListenerAddress

STAT = NodeStat(version=7, czxid=99, mzxid=123)


def test_paths() -> None:
    assert znodes.broker_path(3) == "/brokers/ids/3"
    assert znodes.state_path("t", 4) == "/brokers/topics/t/partitions/4/state"
    assert znodes.state_path("t", 4).startswith(znodes.partition_path("t", 4) + "/")
    assert znodes.partition_path("t", 4).startswith(znodes.partitions_path("t") + "/")
    assert znodes.partitions_path("t").startswith(znodes.topic_path("t") + "/")
    assert znodes.config_path("t") == "/config/topics/t"
    assert znodes.tombstone_path("t", "id") == "/admin/delete_topics/t.id"


def test_nodes_are_readable_json() -> None:
    state = PartitionState(1, 2, (1, 3), 4, 5, (2,), (4,), ((1, 11), (2, 12)), 0)
    assert json.loads(znodes.encode_state(state)) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 2,
        "isr": [1, 3],
        "controller_epoch": 4,
        "elr": [2],
        "last_known_elr": [4],
        "broker_epochs": {"1": 11, "2": 12},
        "unclean_epoch": 0,
    }
    placed = replace(state, placement=Placement((1, 2, 3, 4)))
    assert json.loads(znodes.encode_state(placed)) == {
        **json.loads(znodes.encode_state(state)),
        "replicas": [1, 2, 3, 4],
    }
    assert json.loads(znodes.encode_broker([], "r", DataClaim(3, 8, DataLoss.NONE))) == {
        "version": 1,
        "listeners": [],
        "rack": "r",
        "http": "",
        "data_since": 3,
        "data_until": 8,
        "data_loss": "none",
        "features": {},
    }
    assert json.loads(znodes.encode_topic("id", [[1, 2]])) == {
        "version": 1,
        "topic_id": "id",
        "replicas": [[1, 2]],
    }


def test_round_trips() -> None:
    listeners = [ListenerAddress("internal", "h", 1), ListenerAddress("external", "h", 2)]
    broker = znodes.decode_broker(3, znodes.encode_broker(listeners, "r1"), STAT)
    assert broker == BrokerRegistration(3, 99, tuple(listeners), "r1")
    assert znodes.decode_broker(3, znodes.encode_broker([], None), STAT).rack is None
    broker = znodes.decode_broker(3, znodes.encode_broker([], None, features=["moves"]), STAT)
    assert broker.features == {"moves"}
    assert znodes.decode_features(znodes.encode_features({"moves", "a"})) == ["a", "moves"]
    broker = znodes.decode_broker(3, znodes.encode_broker([], None, http="h:9"), STAT)
    assert broker == BrokerRegistration(3, 99, (), http="h:9")
    claim = DataClaim(3, None, DataLoss.TAIL)
    broker = znodes.decode_broker(3, znodes.encode_broker([], None, claim), STAT)
    assert broker.data == claim
    listed = (KeptPartitions(2, 8, {"id": frozenset([0, 7])}), KeptPartitions(3, None, {}))
    claim = DataClaim(None, None, DataLoss.ALL, listed)
    broker = znodes.decode_broker(3, znodes.encode_broker([], None, claim), STAT)
    assert broker.data == claim
    state = PartitionState(1, 2, (1, 3), 4, 7, (2,), (4,), ((1, 11), (12, 12)), 2)
    assert znodes.decode_state("t", 0, znodes.encode_state(state), STAT) == state
    for placement in (Placement((1, 3)), Placement((1, 3, 2), (1, 3), (3, 2), (4, 5), "plan")):
        placed = replace(state, placement=placement)
        assert znodes.decode_state("t", 0, znodes.encode_state(placed), STAT) == placed
    assert znodes.decode_topic("t", znodes.encode_topic("id", [[1], []])) == ("id", [[1], []])
    assert znodes.decode_config("t", znodes.encode_config({"b": "2", "a": "1"})) == {
        "a": "1",
        "b": "2",
    }
    grave = znodes.encode_tombstone("t", "id", [[1, 2]])
    assert znodes.decode_tombstone("t.id", grave) == ("t", "id", [[1, 2]])
    assert znodes.decode_controller(znodes.encode_controller(2, 9)) == (2, 9)
    assert znodes.decode_epoch(znodes.encode_epoch(9)) == 9
    assert znodes.decode_cluster_id(znodes.encode_cluster_id("c")) == "c"


def test_nodes_of_an_older_release() -> None:
    old = b'{"version":1,"leader":1,"leader_epoch":2,"isr":[1,3],"controller_epoch":4}'
    state = znodes.decode_state("t", 0, old, STAT)
    assert state == PartitionState(1, 2, (1, 3), 4, 7, admitted=((1, 123), (3, 123)))
    broker = znodes.decode_broker(3, b'{"version":1,"listeners":[],"rack":null}', STAT)
    assert broker.data == DataClaim(None, None, DataLoss.ALL)
    assert broker.http == ""


def test_an_order_does_not_change_a_node() -> None:
    assert znodes.encode_config({"b": "2", "a": "1"}) == znodes.encode_config({"a": "1", "b": "2"})


DECODERS: list[Callable[[bytes], Any]] = [
    znodes.decode_cluster_id,
    znodes.decode_controller,
    znodes.decode_epoch,
    lambda data: znodes.decode_broker(1, data, STAT),
    lambda data: znodes.decode_topic("t", data),
    lambda data: znodes.decode_state("t", 0, data, STAT),
    lambda data: znodes.decode_config("t", data),
    lambda data: znodes.decode_tombstone("t.id", data),
]

STATE = b'{"version":1,"leader":1,"leader_epoch":1,"isr":[1],"controller_epoch":1,'

BAD = [
    b"",
    b"\xff",
    b"[]",
    b"7",
    b"{}",
    b'{"version":2}',
    b'{"version":1}',
    b'{"version":1,"leader":true,"leader_epoch":1,"isr":[1],"controller_epoch":1}',
    b'{"version":1,"leader":1,"leader_epoch":1,"isr":["1"],"controller_epoch":1}',
    b'{"version":1,"leader":1,"leader_epoch":1,"isr":{},"controller_epoch":1}',
    b'{"version":1,"topic_id":"x","topic":"t","replicas":3}',
    b'{"version":1,"topic_id":"x","topic":"t","replicas":[3]}',
    b'{"version":1,"topic_id":5,"topic":"t","replicas":[]}',
    b'{"version":1,"listeners":[3],"rack":null}',
    b'{"version":1,"listeners":[{"name":"a","host":"b","port":"c"}],"rack":null}',
    b'{"version":1,"listeners":[],"rack":7}',
    b'{"version":1,"listeners":[],"rack":null,"data_since":"3"}',
    b'{"version":1,"listeners":[],"rack":null,"data_loss":"some"}',
    b'{"version":1,"listeners":[],"rack":null,"data_loss":[]}',
    b'{"version":1,"listeners":[],"rack":null,"data_listed":3}',
    b'{"version":1,"listeners":[],"rack":null,"data_listed":[[]]}',
    b'{"version":1,"listeners":[],"rack":null,"data_listed":[{"since":1,"until":2}]}',
    b'{"version":1,"listeners":[],"data_listed":[{"since":"1","until":2,"partitions":{}}]}',
    b'{"version":1,"listeners":[],"data_listed":[{"since":1,"until":2,"partitions":{"t":["0"]}}]}',
    STATE + b'"elr":[true]}',
    STATE + b'"last_known_elr":3}',
    STATE + b'"broker_epochs":[1]}',
    STATE + b'"broker_epochs":{"one":1}}',
    STATE + b'"broker_epochs":{"1":null}}',
    STATE + b'"broker_epochs":{"%s":1}}' % (b"9" * 5000),
    STATE + b'"unclean_epoch":null}',
    b'{"version":1,"config":{"a":1}}',
    b'{"version":1,"config":[]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("data", BAD, ids=range(len(BAD)))
def test_what_does_not_hold_is_refused(data: bytes) -> None:
    for decode in DECODERS:
        if decode is znodes.decode_epoch and b"controller_epoch" in data:
            continue  # all that this one asks for is there
        with pytest.raises(CorruptNodeError, match="/"):
            decode(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
KEYS = (
    "leader isr elr broker_epochs unclean_epoch data_since data_loss data_listed topic_id replicas"
    " listeners config rack"
)
keys = st.sampled_from(KEYS.split())


@given(st.dictionaries(keys, json_values))
def test_any_json_is_a_value_or_refused(value: dict[str, Any]) -> None:
    data = json.dumps({"version": 1, **value}).encode()
    for decode in DECODERS:
        try:
            decode(data)
        except CorruptNodeError:
            pass


def test_what_is_set_for_brokers() -> None:
    assert znodes.broker_config_path(7) == "/config/brokers/7"
    assert znodes.broker_config_path(-1) == "/config/brokers/<default>"
    data = znodes.encode_config({"log_level": "debug"})
    assert znodes.decode_broker_config("7", data) == (7, {"log_level": "debug"})
    assert znodes.decode_broker_config("<default>", data) == (-1, {"log_level": "debug"})
    for name in ("", "-1", "x", "²", "default", "2147483648", "9" * 5000):
        with pytest.raises(CorruptNodeError):
            znodes.decode_broker_config(name, data)
    with pytest.raises(CorruptNodeError):
        znodes.decode_broker_config("7", b'{"version":1,"config":{"a":1}}')


def test_what_was_made_of_a_broker() -> None:
    path = znodes.broker_state_path(7)
    assert path == "/brokers/states/7"
    data = znodes.encode_broker_state(OutOfService("draining", 1234, "User:ops"))
    assert json.loads(data) == {
        "version": 1,
        "state": "draining",
        "since_ms": 1234,
        "by": "User:ops",
    }
    found = znodes.decode_broker_state(path, data, STAT)
    assert found == OutOfService("draining", 1234, "User:ops", STAT.version)
    assert znodes.broker_id_of(path) == 7
    for state in ("active", "idle"):
        with pytest.raises(CorruptNodeError, match="/brokers/states/7"):
            znodes.decode_broker_state(path, data.replace(b"draining", state.encode()), STAT)
