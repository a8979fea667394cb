"""These commands look, and wait for what can be looked at."""

from __future__ import annotations

import asyncio
import re

from oncelog_broker.replication.partition import Partition
from oncelog_controller import znodes
from oncelog_protocol.types import NO_BROKER, NO_LEADER, TopicPartition
from scenarios.grammar import CommandError, command
from scenarios.world import World
from simulation.cluster import DATA
from simulation.log_view import LogView, names_on_disk
from simulation.store_view import StoreState

ABSENT = "-"


def _ids(ids: tuple[int, ...] | list[int]) -> str:
    return ",".join(str(each) for each in ids) or "nobody"


def _leader(leader: int) -> str:
    return "nobody" if leader == NO_LEADER else str(leader)


# ---- the store


@command("state PARTITION")
async def state(world: World, partition: TopicPartition) -> str:
    """Tell what the store says of a partition."""
    return _described(world.stored(partition).state)


def _described(found: StoreState) -> str:
    parts = [f"leader {_leader(found.leader)}", f"epoch {found.leader_epoch}"]
    parts.append(f"isr {_ids(found.isr)}")
    if found.elr:
        parts.append(f"elr {_ids(found.elr)}")
    if found.last_known_elr:
        parts.append(f"last known {_ids(found.last_known_elr)}")
    return "; ".join(parts)


@command("controller")
async def controller(world: World) -> str:
    """Tell who is controller, by the store, and who of the brokers believes to be."""
    data = world.cluster.zookeeper.data(znodes.CONTROLLER)
    if data is None:
        return "nobody is controller"
    broker_id, epoch = znodes.decode_controller(data)
    lines = [f"broker {broker_id} is controller of epoch {epoch}"]
    for other, broker in sorted(world.cluster.brokers.items()):
        term = broker.runner.term
        if term is not None and other != broker_id:
            lines.append(f"broker {other} believes to be controller of {term.won.controller_epoch}")
    return "\n".join(lines)


@command("controllers")
async def controllers(world: World) -> str:
    """Count the brokers that believe to be controller, and those that the store has chosen."""
    believers = [b for b, broker in world.cluster.brokers.items() if broker.runner.is_active]
    data = world.cluster.zookeeper.data(znodes.CONTROLLER)
    chosen = [] if data is None else [znodes.decode_controller(data)[0]]
    right = sum([broker_id in chosen for broker_id in believers])
    return f"{len(believers)}, of which the store knows {right}"


@command("elections")
async def elections(world: World) -> str:
    """Count the controllers that the store has had."""
    data = world.cluster.zookeeper.data(znodes.CONTROLLER_EPOCH)
    return str(0 if data is None else znodes.decode_epoch(data))


@command("controller stays TIME")
async def controller_stays(world: World, seconds: float) -> None:
    """Let time pass, in which nobody is elected."""
    before = await elections(world)
    await asyncio.sleep(seconds)
    after = await elections(world)
    if after != before:
        raise CommandError(f"the store has had {after} controllers, and had {before}")


@command("topics")
async def topics(world: World) -> str:
    """Tell topics in the store, and deletions that some replica has not confirmed."""
    names: dict[str, str] = {}
    for path in world.cluster.zookeeper.tree("/"):
        head, _, name = path.rpartition("/")
        if head == znodes.TOPICS:
            names[name] = name
        elif head == znodes.DELETED_TOPICS:
            names[f"{name.split('.')[0]} "] = f"{name.split('.')[0]} (being deleted)"
    return "\n".join(text for _, text in sorted(names.items())) or "none"


@command("brokers")
async def brokers(world: World) -> str:
    """Tell who is registered."""
    tree = world.cluster.zookeeper.tree(znodes.BROKER_IDS)
    return _ids([int(path.rpartition("/")[2]) for path in tree])


@command("fenced-writes BROKER")
async def fenced_writes(world: World, broker_id: int) -> str:
    """Count writes of a broker that the store has refused because there is a newer controller."""
    return "\n".join(world.fenced.get(world.session_of(broker_id), [])) or "none"


# ---- brokers


@command("replicas PARTITION")
async def replicas(world: World, partition: TopicPartition) -> str:
    """Tell what each replica believes, and how far its log goes."""
    return "\n".join(_replica(world, each, partition) for each in world.stored(partition).replicas)


def _replica(world: World, broker_id: int, name: TopicPartition) -> str:
    broker = world.cluster.brokers.get(broker_id)
    if broker is None:
        return f"broker {broker_id} is down"
    found = broker.replicas._partitions.get(name)
    if found is None:
        return f"broker {broker_id} has no replica"
    if found.leader is not None:
        role = "leads"
    elif found.leader_id in (NO_LEADER, NO_BROKER):
        role = "follows nobody"
    else:
        role = f"follows {found.leader_id}"
    return (
        f"broker {broker_id} {role} in epoch {found.leader_epoch}:"
        f" end {found.log.log_end_offset}, high watermark {found.high_watermark}"
    )


@command("log BROKER PARTITION")
async def log(world: World, broker_id: int, partition: TopicPartition) -> str:
    """Show the log of one replica: offset, epoch and value of each record."""
    view = world.log_of(broker_id, partition)
    if view is None:
        return "there is no log"
    rows = [f"{offset} epoch {epoch} {value}" for offset, epoch, value, _ in _records(view)]
    return "\n".join(rows) or "empty"


@command("logs PARTITION")
async def logs(world: World, partition: TopicPartition) -> str:
    """Show the logs of all replicas side by side, also of brokers that are down: values with their
    leader epochs; a tilde marks what a power cut would take."""
    ids = world.stored(partition).replicas
    columns: list[dict[int, str]] = []
    for broker_id in ids:
        view = world.log_of(broker_id, partition)
        columns.append({} if view is None else _cells(view))
    offsets = sorted({offset for column in columns for offset in column})
    head = ["offset", *(f"broker {broker_id}" for broker_id in ids)]
    lines = [[str(at), *(column.get(at, ABSENT) for column in columns)] for at in offsets]
    rows = [head, *lines]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cells(view: LogView) -> dict[int, str]:
    return {
        offset: f"{value} ({epoch}){'' if durable else '~'}"
        for offset, epoch, value, durable in _records(view)
    }


def _records(view: LogView) -> list[tuple[int, int, str, bool]]:
    end = view.durable_end()
    return [
        (offset, batch.epoch, (value or b"").decode(), batch.next <= end)
        for batch in view.batches
        for offset, value in view.records_of(batch)
    ]


@command("epochs BROKER PARTITION")
async def epochs(world: World, broker_id: int, partition: TopicPartition) -> str:
    """Tell where each leader epoch began, by the history of a running replica."""
    found = world.running_log(broker_id, partition)
    if found is None:
        raise CommandError(f"broker {broker_id} has no log of {partition}")
    entries = found.epochs.entries()
    return "\n".join(f"epoch {epoch} from offset {start}" for epoch, start in entries) or "none"


@command("dirs BROKER")
async def dirs(world: World, broker_id: int) -> str:
    """Tell the replicas that lie on a broker's disks, by the names of their directories."""
    files = world.cluster.disks[broker_id]
    found = [
        name
        for directory in names_on_disk(files, DATA)
        for name in names_on_disk(files, f"{DATA}/{directory}")
        if names_on_disk(files, f"{DATA}/{directory}/{name}")
    ]
    return "\n".join(_without_id(name) for name in sorted(found)) or "none"


def _without_id(name: str) -> str:
    """Directories that wait for their deletion carry a random id."""
    first, dot, last = name.partition(".")
    return f"{first}.(id){last[last.find('-delete') :]}" if dot and "-delete" in last else name


@command("refused-orders BROKER")
async def refused_orders(world: World, broker_id: int) -> str:
    """Tell orders of controllers that a broker has refused: from whom, and why."""
    return "\n".join(world.refusals.get(broker_id, [])) or "none"


# ---- what must not pass in silence


@command("alarms")
async def alarms(world: World) -> str:
    """Tell what the product has logged as an error since this was asked last."""
    return "\n".join(_without_checksums(line) for line in world.alarms()) or "none"


def _without_checksums(line: str) -> str:
    """A batch carries the time at which it was made, so that its checksum follows from the seed."""
    return re.sub(r"\b0x[0-9a-f]{1,8}\b", "0x(crc)", line)


@command("lost")
async def lost(world: World) -> str:
    """Tell partitions that have lost committed records, where their settings permit it."""
    return "\n".join(world.lost()) or "nothing"


# ---- waiting


@command("wait leader PARTITION is WORD [within=TIME]")
async def wait_leader(
    world: World, partition: TopicPartition, who: str, within: float | None
) -> None:
    """Wait until the store names this leader, and it knows so; or nobody leads."""
    wanted = NO_LEADER if who == "nobody" else int(who)

    def leads() -> bool:
        found = world.stored(partition).state
        if found.leader != wanted:
            return False
        broker = world.cluster.brokers.get(wanted)
        if wanted == NO_LEADER or broker is None:
            return wanted == NO_LEADER
        replica = broker.replicas._partitions.get(partition)
        return (
            replica is not None
            and replica.leader is not None
            and (replica.leader_epoch == found.leader_epoch)
        )

    await world.until(leads, f"{partition}: leader {who}", within)


@command("wait isr PARTITION is IDS [within=TIME]")
async def wait_isr(
    world: World, partition: TopicPartition, ids: list[int], within: float | None
) -> None:
    """Wait until the store has this ISR, and its leader knows so."""

    def holds() -> bool:
        found = world.stored(partition).state
        if sorted(found.isr) != sorted(ids):
            return False
        broker = world.cluster.brokers.get(found.leader)
        replica = None if broker is None else broker.replicas._partitions.get(partition)
        return broker is None or (replica is not None and sorted(replica.isr) == sorted(ids))

    await world.until(holds, f"{partition}: isr {_ids(ids)}", within)


@command("wait controller is IDS [within=TIME]")
async def wait_controller(world: World, ids: list[int], within: float | None) -> None:
    """Wait until the store names this controller (one of these), and it knows so; or nobody."""

    def elected() -> bool:
        data = world.cluster.zookeeper.data(znodes.CONTROLLER)
        if data is None:
            return not ids
        broker_id, _ = znodes.decode_controller(data)
        broker = world.cluster.brokers.get(broker_id)
        return broker_id in ids and broker is not None and broker.runner.is_active

    await world.until(elected, f"controller {_ids(ids)}", within)


@command("wait brokers are IDS [within=TIME]")
async def wait_brokers(world: World, ids: list[int], within: float | None) -> None:
    """Wait until exactly these are registered."""

    def registered() -> bool:
        tree = world.cluster.zookeeper.tree(znodes.BROKER_IDS)
        return sorted(int(path.rpartition("/")[2]) for path in tree) == sorted(ids)

    await world.until(registered, f"brokers {_ids(ids)}", within)


@command("wait serving BROKERS [within=TIME]")
async def wait_serving(world: World, ids: list[int], within: float | None) -> None:
    """Wait until these brokers serve clients."""
    await world.until(
        lambda: all(each in world.cluster.serving for each in ids), f"{_ids(ids)} serving", within
    )


@command("wait down BROKERS [within=TIME]")
async def wait_down(world: World, ids: list[int], within: float | None) -> None:
    """Wait until these brokers do not run."""
    await world.until(
        lambda: not any(each in world.cluster.brokers for each in ids), f"{_ids(ids)} down", within
    )


@command("wait synced PARTITION on BROKERS [within=TIME]")
async def wait_synced(
    world: World, partition: TopicPartition, ids: list[int], within: float | None
) -> None:
    """Wait until these replicas have logs of one length, and know all of it as committed."""

    def equal() -> bool:
        ends: set[int] = set()
        for broker_id in ids:
            replica = _partition(world, broker_id, partition)
            if replica is None or replica.failed:
                return False
            ends.update((replica.log.log_end_offset, replica.high_watermark))
        return len(ends) == 1

    await world.until(equal, f"{partition} synced on {_ids(ids)}", within)


def _partition(world: World, broker_id: int, name: TopicPartition) -> Partition | None:
    """Return a replica of a running broker, once an order of the controller has named it."""
    broker = world.cluster.brokers.get(broker_id)
    return None if broker is None else broker.replicas._partitions.get(name)


@command("wait setting WORD is WORD on BROKERS [within=TIME]")
async def wait_setting(
    world: World, name: str, value: str, brokers: list[int], within: float | None
) -> None:
    """Wait until brokers live by a setting; prints nothing."""
    running = [world.running(broker_id) for broker_id in brokers]

    def held() -> bool:
        shown = [{row.key: row.value for row in broker.live.described()} for broker in running]
        return all(settings.get(name) == value for settings in shown)

    await world.until(held, f"{name} is {value}", within)


@command("wait end PARTITION on BROKERS is OFFSET [within=TIME]")
async def wait_end(
    world: World, partition: TopicPartition, ids: list[int], offset: int, within: float | None
) -> None:
    """Wait until the logs of these replicas end at an offset, committed or not."""

    def reached() -> bool:
        found = [_partition(world, each, partition) for each in ids]
        return all(each is not None and each.log.log_end_offset == offset for each in found)

    await world.until(reached, f"{partition}: {_ids(ids)} end at {offset}", within)
