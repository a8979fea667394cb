"""The shared part of the machine has pending writes, settles them, and gathers orders."""

from __future__ import annotations

from oncelog_controller import znodes
from oncelog_controller.core import Core, chunks
from oncelog_controller.effects import Reload, Resign, SendOrders, WriteStore
from oncelog_controller.state import ClusterState
from oncelog_controller.store import (
    BadVersionError,
    CheckVersion,
    Delete,
    NodeExistsError,
    StoreDisconnectedError,
)
from support.controller_driver import registration
from support.room_settings import controller_settings


def core() -> Core:
    made = Core(1, controller_settings())
    made.cluster = ClusterState(1, 4, 44, brokers={b: registration(b, b * 10) for b in (1, 2)})
    return made


def test_every_write_checks_the_epoch_first() -> None:
    made = core()
    made.write([Delete("/x")], lambda: None)
    (effect,) = made.take_effects()
    assert isinstance(effect, WriteStore)
    assert effect.ops == (CheckVersion(znodes.CONTROLLER_EPOCH, 44), Delete("/x"))


def test_what_waits_for_writes_runs_when_all_are_through() -> None:
    made, done = core(), []
    made.write([Delete("/x")], lambda: done.append("x"))
    made.write([Delete("/y")], lambda: done.append("y"))
    made.when_settled(lambda: done.append("settled"))
    made.settle()
    made.write_succeeded(1)
    made.settle()
    assert done == ["x"]
    made.write_succeeded(2)
    made.settle()
    assert done == ["x", "y", "settled"]
    assert not made.busy


def test_what_is_settled_may_write_again() -> None:
    made, done = core(), []
    made.when_settled(lambda: made.write([Delete("/x")], lambda: done.append("x")))
    made.when_settled(lambda: done.append("last"))
    made.settle()
    assert done == []
    made.write_succeeded(1)
    made.settle()
    assert done == ["x", "last"]


def test_failures() -> None:
    cases = [
        (BadVersionError("/controller_epoch", op_index=0), Resign),
        (BadVersionError("/state", op_index=1), Reload),
        (NodeExistsError("/x", op_index=1), Reload),
        (StoreDisconnectedError(), Reload),
    ]
    for error, wanted in cases:
        made, done = core(), []
        made.write([Delete("/x")], lambda: None)
        made.write([Delete("/y")], lambda: done.append("y"))  # noqa: B023
        made.when_settled(lambda: done.append("settled"))  # noqa: B023
        made.take_effects()
        made.write_failed(1, error)
        made.write_succeeded(2)
        made.settle()
        (effect,) = made.take_effects()
        assert isinstance(effect, wanted)
        assert made.broken
        assert done == ["y"], "what was written counts, what waited does not run"
        made.begin_again(made.cluster)
        assert not made.broken


def test_only_the_first_failure_is_told() -> None:
    made = core()
    made.write([], lambda: None)
    made.write([], lambda: None)
    made.take_effects()
    made.write_failed(1, StoreDisconnectedError())
    made.write_failed(2, StoreDisconnectedError())
    made.write_failed(9, StoreDisconnectedError())
    assert len(made.take_effects()) == 1


def test_untold_brokers_get_no_single_orders() -> None:
    made = core()
    made.untold = {2}
    made.order_live_brokers()
    told = [e.broker_id for e in made.take_effects() if isinstance(e, SendOrders)]
    assert told == [1]
    made.settle()
    (effect,) = made.take_effects()
    assert isinstance(effect, SendOrders)
    assert (effect.broker_id, effect.orders.metadata_full) == (2, True)


def test_pieces() -> None:
    assert list(chunks([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(chunks([], 2)) == []
