"""Each command's golden file shows what it prints: there is at least one case a command.

A new command goes here by the path that is typed after ``oncelog``; then ``make golden REWRITE=1``
writes its file, which is to be read before it is committed.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from oncelog import (
    AclBinding,
    AclBindingFilter,
    Admin,
    NewTopic,
    Producer,
    QuotaAlteration,
    QuotaEntity,
    UserAlteration,
)
from oncelog.shared_transactions.transaction import SharedTransaction
from oncelog_broker.server.event_history import EventHistory
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.secured import with_profile_for
from oncelog_cli.profiles import Profile, Profiles, save_profiles
from oncelog_cli.tls.authority import CertificateDirectory, Holder
from oncelog_protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    encode_assignment,
    encode_subscription,
)
from oncelog_protocol.errors import (
    TopicAuthorizationFailedError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.groups import DescribedMember, OffsetCommitPartition
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribedTransaction,
    DescribedWriter,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_protocol.records.builder import encode_batch
from support.admin_cluster import AdminCluster, KnownGroup, KnownTransaction
from support.fake_cluster import Action
from support.golden import Case, World, tp
from support.golden_moves import (
    even,
    moves,
    moves_of_no_known_size,
    moves_that_nobody_tells,
    uneven,
)
from support.golden_services import drains, retires, two_brokers
from support.happened import happened
from support.log_tellers import Teller

__all__ = ["CASES", "SAME_DOCUMENT"]

LONG_AGO_MS = 1_000_000_000_000
MAP_OF_LISTENERS = ("brokers[].listeners",)


# ------------------------------------------------------------------------------ worlds


async def users(world: World) -> None:
    """There are two users: "app", and "off", who is disabled."""
    async with Admin(world.bootstrap) as admin:
        known = [UserAlteration.delete(user.name) for user in await admin.describe_users()]
        wishes = [
            *known,
            UserAlteration.create("app", "pencil", iterations=4096),
            UserAlteration.create("off", "pencil", mechanisms=["SCRAM-SHA-512"]),
            UserAlteration.disable("off"),
        ]
        (await admin.alter_users(wishes)).raise_for_errors()


async def acls(world: World) -> None:
    """User "app" may write to topic orders, and nobody may delete it; the user off may read it from
    some hosts."""
    await users(world)
    async with Admin(world.bootstrap) as admin:
        (await admin.delete_acls([AclBindingFilter()])).raise_for_errors()
        given = [
            ("LITERAL", "orders", "User:app", "*", "WRITE", "ALLOW"),
            ("LITERAL", "orders", "User:app", "*", "DESCRIBE", "ALLOW"),
            ("PREFIXED", "or", "User:*", "*", "DELETE", "DENY"),
            ("LITERAL", "orders", "User:off", "10.1.0.0/16", "READ", "ALLOW"),
        ]
        wishes = [AclBinding("TOPIC", *each) for each in given]
        (await admin.create_acls(wishes)).raise_for_errors()
    (world.directory / "acls.toml").write_text(
        '[[acls]]\nallow = "User:app"\noperations = ["WRITE", "READ"]\ntopic = "orders"\n'
    )
    (world.directory / "wrong.toml").write_text('[[acls]]\nalow = "User:app"\n')


async def quotas(world: World) -> None:
    """User "app" may write 10 MiB a second, any user 1 MiB, and an address has two bounds."""
    async with Admin(world.bootstrap) as admin:
        gone = [
            QuotaAlteration(entity, dict.fromkeys(values))
            for entity, values in (await admin.describe_quotas()).items()
        ]
        wishes = [
            *gone,
            QuotaAlteration(QuotaEntity("app"), {"producer_byte_rate": 10 * 1024**2}),
            QuotaAlteration(QuotaEntity(""), {"producer_byte_rate": 1024**2, "request_rate": 500}),
            QuotaAlteration(
                QuotaEntity(address="192.0.2.7"),
                {"connections": 20, "connection_creation_rate": 0.5},
            ),
        ]
        (await admin.alter_quotas(wishes)).raise_for_errors()


async def groups(world: World) -> None:
    """Topic t: three partitions, ten records each. "idle" has committed, "live" has two members."""
    cluster = world.scripted
    for log in cluster.create_topic("t", 3):
        log.append(encode_batch([b"x"] * 10, timestamps=1000))
    idle = cluster.known_groups["idle"] = KnownGroup(1)
    for number, offset in ((0, 4), (1, 10)):
        idle.offsets[tp("t", number)] = OffsetCommitPartition(number, offset, -1, "note")
    live = cluster.known_groups["live"] = KnownGroup(2)
    live.offsets[tp("t")] = OffsetCommitPartition(0, 7, -1, "")
    live.members = [_member("m1", None, 0, 2), _member("m2", "worker-2", 1)]
    live.subscribed = ["t"]


def _member(name: str, instance: str | None, *partitions: int) -> DescribedMember:
    assigned = ConsumerAssignment(tuple(tp("t", number) for number in partitions))
    return DescribedMember(
        *(name, instance, "app", "10.0.0.1"),
        encode_subscription(ConsumerSubscription(("t",))),
        encode_assignment(assigned),
    )


async def transactions(world: World) -> None:
    """Topic t has two partitions. "pay" is open there, "done" is not, "spark" is shared; producer
    66 has a transaction that nobody knows."""
    cluster: AdminCluster = world.scripted
    cluster.create_topic("t", 2)
    put = cluster.known_transactions
    everywhere = [TxnTopic("t", [1, 0])]
    pay = DescribedTransaction(0, "pay", "Ongoing", 7, 4, 60_000, LONG_AGO_MS, everywhere)
    put["pay"] = KnownTransaction(1, pay)
    done = DescribedTransaction(0, "done", "CompleteCommit", 8, 1, 60_000)
    put["done"] = KnownTransaction(2, done)
    spark = DescribedTransaction(0, "spark", "Ongoing", -1, -1, 9_000, LONG_AGO_MS)
    spark.shared, spark.ordinal, spark.tag, spark.last_committed_tag = True, 5, 12, 11
    spark.writers = [DescribedWriter("task-0", 20, [TxnTopic("t", [0])])]
    put["spark"] = KnownTransaction(2, spark)
    cluster.producers[tp("t", 0)] = [_producer(66), _producer(7), _producer(20)]
    cluster.producers[tp("t", 1)] = [_producer(7)]


async def waited_for(world: World) -> None:
    """Make the transactions; the group "stopped" has come up to what "pay" holds back in t-0, and
    "behind" not yet."""
    await transactions(world)
    world.scripted.producers[tp("t", 1)] = []
    log = world.scripted.partition("t", 0)
    log.append(encode_batch([b"x"] * 12, timestamps=1000))
    log.open_txns[7] = 9
    for name, coordinator, offset in (("stopped", 1, 9), ("behind", 2, 3)):
        group = world.scripted.known_groups[name] = KnownGroup(coordinator)
        group.offsets[tp("t")] = OffsetCommitPartition(0, offset, -1, "")


async def not_told(world: World) -> None:
    """Make the transactions, in partitions that may not be seen."""
    await transactions(world)
    for api, times in ((ApiKey.DESCRIBE_PRODUCERS, 1), (ApiKey.LIST_OFFSETS, 2)):
        refused = TopicAuthorizationFailedError
        world.scripted.rule(api, Action.ERROR, error=refused, times=times)


def _producer(producer_id: int) -> DescribedProducer:
    return DescribedProducer(producer_id, 4, 3, LONG_AGO_MS, 2, 50)


async def happenings(world: World) -> None:
    """A partition of broker 1 has lost a member of its ISR, and a disk of broker 2 has failed."""
    events = world.scripted.events
    events.update({1: EventHistory(LONG_AGO_MS), 2: EventHistory(LONG_AGO_MS)})
    isr: dict[str, Any] = {"partition": "t-0", "before": [1, 2], "after": [1], "partition_epoch": 3}
    events[1].add(happened("isr_changed", LONG_AGO_MS, **isr))
    fields: dict[str, Any] = {"log_dir": "/data", "error": "OSError: disk"}
    events[2].add(happened("log_dir_offline", LONG_AGO_MS + 5, logging.ERROR, **fields))


async def told_logs(world: World) -> None:
    """Two brokers have replicas of a small log, at whose end a transaction was aborted."""
    (partition,) = world.scripted.create_topic("t", 1)
    partition.leader = 1
    world.scripted.logs = {1: Teller(14, aborted=True), 2: Teller(12, leads=False, bare=True)}


def topic(name: str) -> Callable[[World], Awaitable[None]]:
    """Make an empty topic of the real cluster that is about to be changed."""

    async def prepare(world: World) -> None:
        async with Admin(world.bootstrap) as admin:
            (await admin.create_topics([NewTopic(name, 1, 1)])).raise_for_errors()

    return prepare


def filled(name: str) -> Callable[[World], Awaitable[None]]:
    """Make a topic of the real cluster with three records."""
    make = topic(name)

    async def prepare(world: World) -> None:
        await make(world)
        async with Producer(world.bootstrap) as producer:
            for value in (b"a", b"b", b"c"):
                await producer.send(name, value)

    return prepare


async def local_cluster(world: World) -> None:
    """Write a local cluster that does not run."""
    LocalCluster(world.directory / "local", brokers=1, base_port=21_000).save()


async def cluster_with_console(world: World) -> None:
    """Write a local cluster that does not run, and had a console."""
    cluster = LocalCluster(world.directory / "looked-at", brokers=1, base_port=21_000)
    cluster.console.adopt(9645, None)
    cluster.save()


async def certificates(world: World) -> None:
    """Make a CA, a broker's certificate and two of clients, one of which ends soon."""
    place = world.directory / "tls"
    shutil.rmtree(place, ignore_errors=True)
    there = CertificateDirectory(place, datetime.now(UTC))
    there.make([Holder("broker-1", ("localhost", "127.0.0.1")), Holder("admin")], days=365)
    there.make([Holder("soon")], days=3)
    shutil.copy(there.ca_file, world.directory / "alone.pem")


async def no_certificates(world: World) -> None:
    """The certificates that are about to be made are not there."""
    shutil.rmtree(world.directory / "tls", ignore_errors=True)


async def secured_cluster(world: World) -> None:
    """Write a secured cluster that does not run, and its profile. Another one is in use, so that
    this one's certificates, which are not there, are in no other case's way."""
    place = world.directory / "secured"
    cluster = LocalCluster(place, brokers=1, base_port=21_000, secure=True)
    cluster.save()
    used = Profiles("prod", None, {"prod": Profile("a:9092")})
    found, _ = with_profile_for(used, place, cluster.bootstrap)
    save_profiles(found, world.directory / "xdg_config_home" / "oncelog" / "profiles.toml")


async def no_bundle(world: World) -> None:
    """The file that is about to be written is not there."""
    (world.directory / "bundle.zip").unlink(missing_ok=True)


async def broker_file(world: World) -> None:
    """Write settings of a broker, good ones and bad ones."""
    good = 'broker_id = 1\nzookeeper_connect = "zk:2181"\nlog_dirs = ["/data"]\n'
    listeners = 'listeners = [{ name = "internal", port = 9092 }]\n'
    (world.directory / "good.toml").write_text(good + listeners)
    (world.directory / "bad.toml").write_text(good + listeners + "flush_interval = 1\n")


async def profiles(world: World) -> None:
    """Write two profiles; prod is in use, and local was before."""
    found = Profiles(
        "prod",
        "local",
        {
            "local": Profile("127.0.0.1:9092"),
            "prod": Profile("a:9092,b:9092", "the one that matters", {"request_timeout_ms": 5000}),
        },
    )
    save_profiles(found, world.directory / "xdg_config_home" / "oncelog" / "profiles.toml")


async def ticket(world: World) -> None:
    """Write a ticket of a shared transaction that nobody has joined yet."""
    txn = await SharedTransaction.begin(
        bootstrap_servers=world.bootstrap, transactional_id="nightly", tag=7
    )
    (world.directory / "ticket.json").write_text(txn.ticket.to_json())


async def backup(world: World) -> None:
    """Make the groups, and a file of offsets."""
    await groups(world)
    (world.directory / "offsets.csv").write_text("idle,t,0,3\nidle,t,1,5\n")


# ------------------------------------------------------------------------------ cases


def _fake(
    line: str,
    prepare: Callable[[World], Awaitable[None]],
    code: int = 0,
    formats: Sequence[str] = ("table", "json", "tsv"),
) -> Case:
    return Case(line, "fake", prepare, code=code, formats=formats)


SIZES_OF_PARTS = (
    (r"(?m)^([\w/.-]+(?:  |\t))\d+", r"\1<bytes>"),
    (r'("\w+_bytes": )\d+', r"\1<bytes>"),
    (r"[\d,]+ bytes", "<bytes>"),
)
NAME_OF_CA = ((r"oncelog CA [0-9a-f]{8}", "oncelog CA <number>"),)
MEASURED = ((r"\b\d+\.\d+\b", "<measured>"),)
"""Numbers of a measurement always have a point."""
TABLE_AND_JSON = ("table", "json")
PLAIN = ("plain",)
"""The format of commands that print no document."""

CASES: Mapping[str, tuple[Case, ...]] = {
    "up": (
        Case("up --dir {dir}/local --port 22000", "none", local_cluster, code=2),
        Case("up --dir {dir}/local --secure", "none", local_cluster, code=2),
        Case("up --dir {dir}/local --open", "none", local_cluster, formats=PLAIN, code=2),
    ),
    "down": (
        Case("down --dir {dir}/local", "none", local_cluster),
        Case("down --dir {dir}/none", "none", code=1),
    ),
    "status": (
        Case("status --dir {dir}/local", "none", local_cluster),
        Case("status --dir {dir}/secured", "none", secured_cluster),
        Case("status --dir {dir}/looked-at", "none", cluster_with_console, formats=TABLE_AND_JSON),
    ),
    "broker": (Case("broker --config broker.toml", "none", formats=PLAIN),),
    "broker config check": (
        Case("broker config check -c {dir}/good.toml", "none", broker_file, formats=TABLE_AND_JSON),
        Case(
            "broker config check -c {dir}/bad.toml", "none", broker_file, formats=("json",), code=2
        ),
    ),
    "broker config show": (
        Case(
            "broker config show -c {dir}/good.toml",
            "none",
            broker_file,
            formats=TABLE_AND_JSON,
            asks=False,
        ),
    ),
    "broker health": (Case("broker health --address 127.0.0.1:1", "none", code=10),),
    "topics create": (
        Case("topics create made --partitions 2 -r 1"),
        Case("topics create planned orders --dry-run", code=1),
    ),
    "topics list": (
        Case("topics list orders bills"),
        Case("topics list none", code=1),
        Case("topics list -b 127.0.0.1:1 -X ca_file=no-such.pem", "none", code=1),
        Case("topics list -b h:1 -X ssl.truststore.location=trusted.jks", "none", code=2),
    ),
    "topics describe": (
        Case("topics describe orders"),
        Case("topics describe bills none --no-offsets", code=1),
        _fake("topics describe t", moves),
        _fake("topics describe t", moves_that_nobody_tells),
    ),
    "topics alter": (
        Case("topics alter grows -p 2 -c retention_ms=1000", prepare=topic("grows")),
        Case("topics alter orders -p 1", code=1),
        _fake("topics alter t --replication-factor 1 --yes", uneven),
        _fake("topics alter t --replication-factor 1", uneven, code=2),
        _fake("topics alter t --replication-factor 1 -p 9", uneven, code=2),
    ),
    "topics delete": (
        Case("topics delete doomed --yes", prepare=topic("doomed")),
        Case("topics delete -r 'order.*' --dry-run"),
        Case("topics delete none --yes", code=1),
    ),
    "topics offsets": (
        Case("topics offsets orders"),
        Case("topics offsets orders -p 0 -p 1 -p 9 --at 2023-11-14T22:13:20.001Z", code=1),
        Case("topics offsets orders --at soon", "none", code=2),
    ),
    "topics clone": (
        Case("topics clone orders orders-again"),
        Case("topics clone orders bills", code=1),
    ),
    "partitions list": (Case("partitions list orders"),),
    "groups clone": (
        _fake("groups clone idle other", groups),
        _fake("groups clone none other", groups, code=1),
    ),
    "topics trim-prefix": (
        Case("topics trim-prefix trimmed --before end --yes", prepare=filled("trimmed")),
    ),
    "produce": (
        Case("produce made-of-lines", prepare=topic("made-of-lines"), stdin=b"a\nb\n"),
        Case("produce orders --json-lines", stdin=b"nonsense\n", code=1),
    ),
    "consume": (
        Case("consume orders --until-end --partition 0 --format '%p %o %k %h\\n'", formats=PLAIN),
        Case("consume orders --until-end --partition 0 --json", formats=PLAIN),
        Case(
            "consume orders --until-end --partition 0 --where 'offset == 0 and size > 0'",
            formats=PLAIN,
        ),
        Case("consume orders --where 'valeu.id == 7'", formats=PLAIN, code=2, asks=False),
        Case("consume none --until-end --json", formats=PLAIN, code=1),
    ),
    "groups list": (_fake("groups list", groups),),
    "groups describe": (
        _fake("groups describe live idle", groups),
        _fake("groups describe -r '.*' --state", groups),
        _fake("groups describe live --members none", groups, code=1),
    ),
    "groups reset-offsets": (
        _fake("groups reset-offsets idle --all-topics --to-earliest --execute", groups),
        _fake("groups reset-offsets idle --from-file {dir}/offsets.csv", backup),
        _fake("groups reset-offsets idle --to-latest", groups, code=2),
    ),
    "groups delete": (
        _fake("groups delete idle --yes", groups),
        _fake("groups delete idle live --dry-run", groups, code=1),
    ),
    "groups delete-offsets": (
        _fake("groups delete-offsets idle --topic t:0 --yes", groups),
        _fake("groups delete-offsets live --topic t --yes", groups, code=1),
    ),
    "transactions list": (_fake("transactions list", transactions),),
    "transactions describe": (
        _fake("transactions describe pay done spark", transactions),
        _fake("transactions describe pay done spark --partitions", waited_for),
        Case(
            "transactions describe spark --partitions", "fake", not_told, formats=("json",), code=1
        ),
        _fake("transactions describe none", transactions, code=1),
    ),
    "transactions find-hanging": (_fake("transactions find-hanging", transactions),),
    "transactions abort": (
        _fake("transactions abort -t t -p 0 --producer-id 66 --yes", transactions),
        _fake("transactions abort -t t -p 0 --producer-id 7 --dry-run", transactions),
        _fake("transactions abort -t t -p 0 --yes", transactions, code=2),
    ),
    "transactions fence": (
        _fake("transactions fence pay --yes", transactions),
        _fake("transactions fence pay none --dry-run", transactions, code=1),
    ),
    "shared begin": (Case("shared begin nightly --tag 7"),),
    "shared commit": (Case("shared commit {dir}/ticket.json", prepare=ticket, code=1),),
    "shared abort": (Case("shared abort {dir}/ticket.json", prepare=ticket),),
    "shared list": (
        _fake("shared list", transactions),
        _fake("shared list pay", transactions),
    ),
    "shared describe": (
        _fake("shared describe spark", transactions),
        _fake("shared describe pay", transactions, code=1),
    ),
    "producers describe": (_fake("producers describe t", transactions),),
    "cluster describe": (
        Case("cluster describe", maps=MAP_OF_LISTENERS, volatile=[(r"(\}\t)\d+", r"\1<epoch>")]),
    ),
    "cluster events": (
        Case("cluster events", "fake", happenings, maps=("events[].fields",)),
        Case("cluster events --follow", "none", code=2, formats=("json",)),
    ),
    "cluster health": (
        _fake("cluster health --disk-warning 0 --disk-critical 0", moves, code=10),
        Case("cluster health --disk-warning 0 --disk-critical 0"),
        Case("cluster health --brokers 3 --disk-warning 0 --disk-critical 0", code=10),
    ),
    "brokers list": (Case("brokers list", prepare=topic("held")),),
    "brokers drain": (
        _fake("brokers drain 2", drains),
        _fake("brokers drain 2 --dry-run", drains),
        _fake("brokers drain 9", drains, code=1),
        _fake("brokers drain 2 --timeout 5s", drains, code=2),
    ),
    "brokers decommission": (
        _fake("brokers decommission 2 --yes", retires),
        _fake("brokers decommission 2 --accept-loss t:2 --yes --dry-run", retires),
        _fake("brokers decommission 2 --accept-loss t --yes", retires, code=2),
        _fake("brokers decommission 2", retires, code=2),
    ),
    "brokers recommission": (_fake("brokers recommission 2", two_brokers),),
    "partitions move": (
        _fake("partitions move t:0,2 --to 2 --dry-run", moves),
        _fake("partitions move t:0 --to 2 --yes --reason 'old disk'", moves),
        _fake("partitions move t --to 9 --yes", moves, code=1),
        _fake("partitions move t:0 --to 2 --dry-run", moves_of_no_known_size),
        _fake("partitions move --from-file {dir}/kafka.json --dry-run", moves, code=1),
        _fake("partitions move t:0 --to 2", moves, code=2),
        _fake("partitions move t:0 --log-dir /data2 --broker 1 --dry-run", moves),
    ),
    "balance plan": (
        _fake("balance plan", uneven),
        _fake("balance plan t --goal bytes --max-moves 3 --max-bytes 1GiB", even),
        _fake("balance plan --max-bytes much", even, code=2),
    ),
    "balance run": (
        _fake("balance run --yes", uneven),
        _fake("balance run", uneven, code=2),
        _fake("balance run", even),
    ),
    "balance status": (_fake("balance status", uneven),),
    "partitions cancel": (
        _fake("partitions cancel t:1 --yes", moves),
        _fake("partitions cancel --all --now --dry-run", moves),
        _fake("partitions cancel t:0 --yes", moves, code=1),
        _fake("partitions cancel --all", moves, code=2),
    ),
    "partitions status": (
        _fake("partitions status", moves, code=10),
        _fake("partitions status --format wide", moves, code=10, formats=PLAIN),
        _fake("partitions status none", moves),
        _fake("partitions status --watch", moves, code=2, formats=("json",)),
    ),
    "configs describe": (
        Case("configs describe --topic orders"),
        Case("configs describe --topic none", code=1),
        Case("configs describe --broker 9", code=1),
    ),
    "configs alter": (
        Case("configs alter --topic tuned -c retention_ms=1000", prepare=topic("tuned")),
        Case("configs alter --topic orders -c retention_ms=-7", code=1),
    ),
    "users add": (
        Case("users add new --password-file -", prepare=users, stdin=b"pencil\n"),
        Case("users add app --password-file -", prepare=users, stdin=b"pen", code=1),
        Case("users add new --password-file {dir}/none", code=2, asks=False),
    ),
    "users password": (
        Case("users password app --password-file -", prepare=users, stdin=b"pen\n"),
        Case(
            "users password app --password-file - --mechanism SCRAM-SHA-256 --dry-run",
            prepare=users,
            stdin=b"pen",
        ),
        Case("users password none --password-file -", prepare=users, stdin=b"pen", code=1),
    ),
    "users list": (
        Case("users list", prepare=users),
        Case("users list off none", prepare=users, code=1),
    ),
    "users delete": (
        Case("users delete app off --yes", prepare=users),
        Case("users delete app --dry-run", prepare=users),
        Case("users delete app none --yes", prepare=users, code=1),
    ),
    "users disable": (
        Case("users disable app", prepare=users),
        Case("users disable none", prepare=users, code=1),
    ),
    "users enable": (
        Case("users enable off", prepare=users),
        Case("users enable none", prepare=users, code=1),
    ),
    "acls add": (
        Case("acls add --allow User:app --producer --topic orders", prepare=acls),
        Case(
            "acls add --allow User:none --consumer --topic new- --group team --prefix"
            " --host 10.1.0.0/16 --dry-run",
            prepare=acls,
        ),
        Case("acls add --deny User:app --operation all --topic orders", prepare=acls),
        Case("acls add --allow app --producer --topic orders", code=2, asks=False),
    ),
    "acls list": (
        Case("acls list", prepare=acls),
        Case("acls list --format wide", prepare=acls, formats=PLAIN),
        Case("acls list --effective --topic orders --user app", prepare=acls),
        Case("acls list --user none", prepare=acls),
    ),
    "acls delete": (
        Case("acls delete --allow User:app --producer --topic orders --yes", prepare=acls),
        Case("acls delete --user app --dry-run", prepare=acls),
        Case("acls delete --user none --yes", prepare=acls),
        Case("acls delete --user app", prepare=acls, code=2),
    ),
    "acls explain": (
        Case("acls explain User:app WRITE topic:orders", prepare=acls),
        Case("acls explain User:app delete topic:orders --host 10.1.2.3", prepare=acls),
        Case("acls explain User:off READ topic:orders", prepare=acls),
        Case("acls explain User:ANONYMOUS ALTER cluster", prepare=acls),
        Case("acls explain User:app WRITE group:team", code=2, asks=False),
    ),
    "acls export": (Case("acls export", prepare=acls),),
    "quotas set": (
        Case("quotas set --user app --produce 10MiB/s --consume 512KiB", prepare=quotas),
        Case("quotas set --any-address --connections 0 --dry-run", prepare=quotas),
        Case("quotas set --user app --any-client-id --requests 100", prepare=quotas),
        Case("quotas set --user app --connections 5", prepare=quotas, code=1),
        Case("quotas set --produce 10MiB/s", code=2, asks=False),
        Case("quotas set --user app --produce fast", code=2, asks=False),
    ),
    "quotas list": (
        Case("quotas list", prepare=quotas),
        Case("quotas list --address 192.0.2.7", prepare=quotas),
        Case("quotas list --effective User:app", prepare=quotas),
        Case("quotas list --effective app --user app", code=2, asks=False),
    ),
    "quotas delete": (
        Case("quotas delete --user app --yes", prepare=quotas),
        Case(
            "quotas delete --address 192.0.2.7 --key connections --dry-run",
            prepare=quotas,
        ),
        Case("quotas delete --user none --yes", prepare=quotas),
        Case("quotas delete --user app", prepare=quotas, code=2),
        Case("quotas delete --user app --key connections", code=2, asks=False),
    ),
    "acls apply": (
        Case("acls apply {dir}/acls.toml", prepare=acls),
        Case("acls apply {dir}/acls.toml --prune --dry-run", prepare=acls),
        Case("acls apply {dir}/acls.toml --prune --yes", prepare=acls),
        Case("acls apply {dir}/wrong.toml", prepare=acls, code=2, asks=False),
    ),
    "whoami": (Case("whoami"),),
    "elect-leaders": (Case("elect-leaders --topic orders"), Case("elect-leaders", code=0)),
    "delete-records": (
        Case("delete-records trimmed:0 --before 2 --yes", prepare=filled("trimmed")),
        Case("delete-records orders:0 --before 2 --dry-run"),
        Case("delete-records orders:0 --before 99 --yes", code=1),
    ),
    "log-dirs": (Case("log-dirs orders"), Case("log-dirs orders --replicas --broker 1")),
    "api-versions": (Case("api-versions", head=12), Case("api-versions --broker 7", code=1)),
    "generate grafana-dashboard": (
        Case("generate grafana-dashboard", "none", formats=PLAIN, head=3),
    ),
    "generate alert-rules": (Case("generate alert-rules", "none", formats=PLAIN, head=3),),
    "generate prometheus-config": (
        Case("generate prometheus-config -t a:1 -t b:2", "none", formats=PLAIN, head=20),
    ),
    "support-bundle": (
        Case(
            "support-bundle -o {dir}/bundle.zip --no-logs",
            prepare=no_bundle,
            asks=False,  # without an answer it holds what is known all the same
            volatile=SIZES_OF_PARTS,
        ),
    ),
    "perf produce": (
        Case("perf produce measured -n 3", prepare=topic("measured"), volatile=MEASURED),
    ),
    "perf consume": (Case("perf consume orders", volatile=MEASURED),),
    "perf latency": (
        Case("perf latency measured -n 2", prepare=topic("measured"), volatile=MEASURED),
    ),
    "cheat": (
        Case("cheat start", "none", formats=PLAIN),
        Case("cheat nonsense", "none", formats=PLAIN, code=2),
    ),
    "dump-log": (
        Case("dump-log --records 0.log", "none", formats=("plain",), asks=False),
        Case("dump-log --remote t-0", "fake", told_logs),
        Case("dump-log --remote t-0 --broker 2 --offset 7", "fake", told_logs),
        Case("dump-log --remote t-0 --offset 13", "fake", told_logs, formats=("json",)),
    ),
    "tls make": (
        Case(
            "tls make --dir {dir}/tls --broker broker-1=localhost,127.0.0.1 --client admin",
            "none",
            no_certificates,
        ),
        Case("tls make --dir {dir}/tls --renew soon", "none", certificates),
        Case("tls make --dir {dir}/tls --client admin", "none", certificates, code=1),
        Case("tls make --dir {dir}/tls", "none", code=2),
    ),
    "tls check": (
        Case("tls check {dir}/tls/broker-1.pem", "none", certificates),
        Case("tls check {dir}/tls/soon.pem", "none", certificates, code=1),
        Case("tls check {dir}/alone.pem", "none", certificates, volatile=NAME_OF_CA),
        Case("tls check 127.0.0.1:1", "none", code=1),
    ),
    "profile list": (Case("profile list", "none", profiles),),
    "profile show": (
        Case("profile show", "none", profiles),
        Case("profile show pord", "none", profiles, code=2),
    ),
    "profile use": (Case("profile use -", "none", profiles),),
    "profile create": (
        Case("profile create test --server a:1 -X acks=1 --use", "none", profiles),
        Case(
            "profile create tls -s a:1 -X security.protocol=SSL -X ssl.ca.location=/etc/ca.pem",
            "none",
            profiles,
        ),
        Case("profile create prod -s a:1", "none", profiles, code=1),
        Case("profile create x -X key_file=k", "none", profiles, code=2),
        Case("profile create x -X ack=1", "none", profiles, code=2),
    ),
    "profile delete": (
        Case("profile delete prod --yes", "none", profiles),
        Case("profile delete local --dry-run", "none", profiles),
    ),
    "pipeline demo": (Case("pipeline demo --limit 3", "none", formats=PLAIN, code=2),),
    "pipeline run": (Case("pipeline run job.toml -b a:1", "none", formats=PLAIN),),
    "pipeline check": (Case("pipeline check job.toml --plan", "none", formats=PLAIN),),
    "demo": (Case("demo --limit 3", "none", formats=PLAIN, code=2),),
    "console": (
        Case("console --port 0 --open -X client_id=me", "none", formats=PLAIN),
        Case("console --allowed-host a --allowed-host b --token-file t", "none", formats=PLAIN),
        Case("console --port 70000", "none", formats=PLAIN, code=2),
    ),
    "bench": (Case("bench --peers", "none", formats=PLAIN),),
}
"""Cases by the path of the command, as it is typed after ``oncelog``."""

_HELD = [{"topic": "string", "partition": "integer", "reason": "string"}]

HINTS: Mapping[str, Any] = {
    "by": "string or null",
    "leaders_left": _HELD,
    "lost_with_it": _HELD,
    "replicas_left": _HELD,
    "since_ms": "integer or null",
    "client_id": "string or null",
    "directories": [
        {
            "topic": "string",
            "partition": "integer",
            "broker": "integer",
            "log_dir": "string or null",
            "target": "string",
            "bytes_done": "integer",
            "bytes_total": "integer or null",
            "offset_lag": "integer",
        }
    ],
    "value": "number or null",
    "host": "string or null",
    "broker_id": "integer or null",
    "committed": "boolean or null",
    "elr": ["integer"],
    "http": "string or null",
    "ignored": ["string"],
    "items": ["string"],
    "last_known_elr": ["integer"],
    "marked": "boolean or null",
    "marker_offset": "integer or null",
    "kafka_bootstrap": "string or null",
    "leaving": ["integer"],
    "next_offset": "integer or null",
    "notes": ["string"],
    "offline_replicas": ["integer"],
    "old": "integer or null",
    "pid": "integer or null",
    "producer_epoch": "integer or null",
    "producer_id": "integer or null",
    "profile": "string or null",
    "remarks": ["string"],
    "receipt": {"writer": "string", "producer_id": "integer"},
    "states": ["string"],
    "transactional_id": "string or null",
    "unreadable": "string or null",
    "warnings": ["string"],
    "plan_id": "string or null",
    "removing": ["integer"],
    "seconds": "integer or null",
}
"""Hints by field: no case shows more of these than that they may be null or empty."""

SAME_DOCUMENT: Mapping[str, str] = {"up": "status", "shared commit": "shared abort"}
"""Commands whose document is seen of another one: of their own, cases show only how they fail."""
