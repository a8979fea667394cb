"""Kafka's own tools are run: topics, consoles, verifiable clients, measurements of speed.

Those that ``docs/kafka.md`` shows are run as it shows them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial

from kafka_suites.fetch import kafka_jars
from kafka_suites.guide import difference
from kafka_suites.kills import Kills, TooFewKillsError, killed_in_turns
from kafka_suites.kit import Ended, Kit
from kafka_suites.verdict import NotAsExpectedError, SuiteResult

TOOLS = "org.apache.kafka.tools."
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
SCRIPTS = {
    "kafka-topics.sh": "TopicCommand",
    "kafka-console-producer.sh": "ConsoleProducer",
    "kafka-console-consumer.sh": "consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "consumer.group.ConsumerGroupCommand",
}
RECORDS = 20_000
COPIED = 3_000
COPIED_UNDER_KILLS = 6_000
"""Ten by ten they take long enough that a broker of each kind dies meanwhile."""
QUIET_MS = 10_000
"""After so long without a record there is none that is one too many."""
DEADLINE_S = 90.0
UNDER_KILLS_S = 300.0


class Tools:
    """Kafka's tools are run against brokers, one JVM each."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._class_path = kafka_jars(kit.report)
        self._runs = 0

    def run(self, tool: str, *arguments: str, text: str = "") -> str:
        """Run a tool with ``--bootstrap-server``; return what it printed.

        :param tool: its class, below ``org.apache.kafka.tools`` unless it begins with ``kafka.``.
        :raises NotAsExpectedError: it ended with an error, or not in time.
        """
        return self.without_servers(
            tool, "--bootstrap-server", self._kit.bootstrap, *arguments, text=text
        )

    def without_servers(
        self, tool: str, *arguments: str, text: str = "", seconds: float = DEADLINE_S
    ) -> str:
        """Run a tool that is told otherwise where the brokers are."""
        self._runs += 1
        name = f"{self._runs:02d}-{tool.rpartition('.')[2]}"
        main = tool if tool.startswith("kafka.") else TOOLS + tool
        command = ["java", *JVM, LOGGING, "-cp", self._class_path, main, *arguments]
        ended = self._kit.run(name, command, seconds, text=text)
        if ended.code != 0:
            raise NotAsExpectedError(f"{main}: {ended.tail}")
        return ended.output

    @property
    def bootstrap(self) -> str:
        """Return where the brokers are."""
        return self._kit.bootstrap

    def play_the_guide(self) -> str:
        """Return what the guide shows otherwise than it is; "" for nothing. A release of Kafka
        has scripts where here are jars alone."""
        folder = self._kit.folder / "bin"
        folder.mkdir()
        for name, main in SCRIPTS.items():
            command = ["java", *JVM, LOGGING, "-cp", self._class_path, TOOLS + main]
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        return difference(self._kit, "kafka_tools.py", {"PATH": f"{folder}:{os.environ['PATH']}"})

    def killed_in_turns(self) -> AbstractContextManager[Kills]:
        """Kill brokers while a block runs."""
        return killed_in_turns(self._kit.cluster, self._kit.report)

    def make_topic(self, name: str, partitions: int = 3) -> None:
        """Make a topic with three replicas."""
        sizes = ["--partitions", str(partitions), "--replication-factor", "3"]
        self.run("TopicCommand", "--create", "--topic", name, *sizes)


def topics(tools: Tools) -> None:
    """Topics are made, listed, described, and deleted."""
    tools.make_topic("suite-topics")
    has(tools.run("TopicCommand", "--list"), "suite-topics")
    described = tools.run("TopicCommand", "--describe", "--topic", "suite-topics")
    has(described, "PartitionCount: 3", "ReplicationFactor: 3", "Partition: 2")
    tools.run("TopicCommand", "--delete", "--topic", "suite-topics")
    lacks(tools.run("TopicCommand", "--list"), "suite-topics")


def more_partitions(tools: Tools) -> None:
    """A topic gets more partitions."""
    tools.make_topic("suite-wider")
    tools.run("TopicCommand", "--alter", "--topic", "suite-wider", "--partitions", "5")
    described = tools.run("TopicCommand", "--describe", "--topic", "suite-wider")
    has(described, "PartitionCount: 5")


def consoles(tools: Tools) -> None:
    """Lines with keys go in by one console and come out of the other."""
    tools.make_topic("suite-console", partitions=1)
    lines = [f"key-{number}:value {number}" for number in range(100)]
    keys = ["--property", "parse.key=true", "--property", "key.separator=:"]
    tools.run("ConsoleProducer", "--topic", "suite-console", *keys, text="\n".join(lines) + "\n")
    shown = ["--property", "print.key=true", "--property", "key.separator=:"]
    options = ["--from-beginning", "--max-messages", "100", *shown]
    printed = tools.run("consumer.ConsoleConsumer", "--topic", "suite-console", *options)
    came = [line for line in printed.splitlines() if line.startswith("key-")]
    if came != lines:
        raise NotAsExpectedError(f"{len(came)} lines came out, the last was {came[-1:]}")


def verifiable_clients(tools: Tools) -> None:
    """Records are acknowledged as they were sent, and a group consumes each of them once."""
    tools.make_topic("suite-verifiable")
    topic = ["--topic", "suite-verifiable", "--max-messages", str(RECORDS)]
    told = events(tools.run("VerifiableProducer", *topic, "--acks", "-1"))
    (sums,) = (event for event in told if event["name"] == "tool_data")
    if (sums["sent"], sums["acked"]) != (RECORDS, RECORDS):
        raise NotAsExpectedError(f"{sums['sent']} were sent and {sums['acked']} acknowledged")
    options = ["--group-id", "suite-verifiable", "--reset-policy", "earliest", "--verbose"]
    told = events(tools.run("VerifiableConsumer", *topic, *options))
    seen = Counter(event["value"] for event in told if event["name"] == "record_data")
    if seen != Counter(str(number) for number in range(RECORDS)):
        raise NotAsExpectedError(f"{seen.total()} were consumed, {len(seen)} different ones")


def copier(tools: Tools) -> None:
    """Every record is copied once, in order, by transactions that abort by chance."""
    fill_the_source(tools, COPIED)
    copy(tools, size=100)
    judge_the_copy(tools, COPIED, COPIED // 100, "--max-messages", str(COPIED))


def copier_under_kills(tools: Tools) -> None:
    """It is so too while brokers are killed."""
    count, size = COPIED_UNDER_KILLS, 10
    fill_the_source(tools, count)
    with tools.killed_in_turns() as kills:
        copy(tools, size, seconds=UNDER_KILLS_S)
    judge_the_copy(tools, count, count // size, "--timeout-ms", str(QUIET_MS))
    try:
        kills.check()
    except TooFewKillsError as error:
        raise NotAsExpectedError(str(error)) from error


def fill_the_source(tools: Tools, count: int) -> None:
    """Make the topics of a copy, and write the numbers from 0 on into one of them."""
    for topic in ("suite-copied", "suite-copy"):
        tools.make_topic(topic, partitions=1)
    tools.run("VerifiableProducer", "--topic", "suite-copied", "--max-messages", str(count))


def copy(tools: Tools, size: int, seconds: float = DEADLINE_S) -> None:
    """Copy them, ``size`` by ``size``, by transactions of which a third aborts."""
    topics = ["--input-topic", "suite-copied", "--input-partition", "0"]
    topics += ["--output-topic", "suite-copy", "--consumer-group", "suite-copier"]
    ways = ["--transactional-id", "suite-copier", "--transaction-size", str(size)]
    ways += ["--enable-random-aborts", "--use-group-metadata"]
    servers = ["--broker-list", tools.bootstrap]
    options = [*servers, *topics, *ways]
    tools.without_servers("TransactionalMessageCopier", *options, seconds=seconds)


def judge_the_copy(tools: Tools, count: int, transactions: int, *until: str) -> None:
    """Expect each record once and in order, and more in the log than that.

    :param count: so many records were to be copied.
    :param transactions: so many have committed, and have each left a marker.
    :param until: the option of the console that says when it has read all.
    """
    reading = ["--from-beginning", "--isolation-level", "read_committed", *until]
    printed = tools.run("consumer.ConsoleConsumer", "--topic", "suite-copy", *reading)
    came = [line for line in printed.splitlines() if line.isdecimal()]
    if came != [str(number) for number in range(count)]:
        raise NotAsExpectedError(f"{len(came)} came out, {len(set(came))} different ones")
    printed = tools.run("GetOffsetShell", "--topic", "suite-copy", "--time", "latest")
    if int(printed.strip().rpartition(":")[2]) <= count + transactions:
        raise NotAsExpectedError(f"nothing was aborted: the log ends at {printed.strip()}")


def speed(tools: Tools) -> None:
    """The tools that measure come to their end, with idempotence and acks=all."""
    tools.make_topic("suite-speed")
    count = ["--topic", "suite-speed", "--num-records", str(RECORDS)]
    settings = ["--producer-props", f"bootstrap.servers={tools.bootstrap}", "acks=all"]
    flow = ["--record-size", "100", "--throughput", "-1"]
    has(
        tools.without_servers("ProducerPerformance", *count, *flow, *settings),
        f"{RECORDS} records sent",
    )
    printed = tools.run("ConsumerPerformance", "--topic", "suite-speed", "--messages", str(RECORDS))
    if not re.search(rf", {RECORDS}, ", printed):
        raise NotAsExpectedError(printed[-600:])


def groups(tools: Tools) -> None:
    """A group is listed, described with its lag, and deleted."""
    tools.make_topic("suite-groups", partitions=1)
    tools.run("ConsoleProducer", "--topic", "suite-groups", text="a\nb\nc\n")
    reading = ["--group", "suite-group", "--from-beginning", "--max-messages", "2"]
    reading += ["--consumer-property", "max.poll.records=1"]
    tools.run("consumer.ConsoleConsumer", "--topic", "suite-groups", *reading)
    command = partial(tools.run, "consumer.group.ConsumerGroupCommand")
    has(command("--list"), "suite-group")
    has(command("--describe", "--group", "suite-group"), "LAG", "suite-groups")
    command("--delete", "--group", "suite-group")
    lacks(command("--list"), "suite-group\n")


def offsets(tools: Tools) -> None:
    """The first and the last offset are told, and that of the latest record. All three may be of
    one millisecond, and then it is the first of them."""
    tools.make_topic("suite-offsets", partitions=1)
    tools.run("ConsoleProducer", "--topic", "suite-offsets", text="a\nb\nc\n")
    for asked, told in (("earliest", {0}), ("latest", {3}), ("max-timestamp", {0, 1, 2})):
        printed = tools.run("GetOffsetShell", "--topic", "suite-offsets", "--time", asked)
        if printed.strip() not in {f"suite-offsets:0:{offset}" for offset in told}:
            raise NotAsExpectedError(f"{asked}: {printed[-600:]}")


def settings(tools: Tools) -> None:
    """A setting of a topic is changed, and told."""
    tools.make_topic("suite-settings")
    of_topic = ["--entity-type", "topics", "--entity-name", "suite-settings"]
    config = partial(tools.run, "kafka.admin.ConfigCommand")
    config("--alter", *of_topic, "--add-config", "retention.ms=3600000")
    has(config("--describe", *of_topic), "retention.ms=3600000")


def deleted_records(tools: Tools) -> None:
    """Records are deleted up to an offset."""
    tools.make_topic("suite-deleted", partitions=1)
    tools.run("ConsoleProducer", "--topic", "suite-deleted", text="a\nb\nc\n")
    partitions = [{"topic": "suite-deleted", "partition": 0, "offset": 2}]
    wanted = json.dumps({"partitions": partitions, "version": 1})
    has(
        tools.run("DeleteRecordsCommand", "--offset-json-file", "/dev/stdin", text=wanted),
        "low_watermark: 2",
    )


def log_dirs(tools: Tools) -> None:
    """The directories of brokers are told."""
    tools.make_topic("suite-log-dirs", partitions=1)
    has(tools.run("LogDirsCommand", "--describe", "--topic-list", "suite-log-dirs"), '"version":1')


def api_versions(tools: Tools) -> None:
    """What brokers speak is told."""
    has(tools.run("BrokerApiVersionsCommand"), "Produce(0): ", "Metadata(3): ")


def the_guide(tools: Tools) -> None:
    """What the guide shows is what happens."""
    if wrong := tools.play_the_guide():
        raise NotAsExpectedError(wrong)


TESTS: tuple[Callable[[Tools], None], ...] = (
    topics,
    more_partitions,
    consoles,
    verifiable_clients,
    copier,
    speed,
    groups,
    offsets,
    settings,
    deleted_records,
    log_dirs,
    api_versions,
    the_guide,
)


def run(kit: Kit) -> SuiteResult:
    """Run them.

    :raises NotAvailableError: they cannot be had here.
    """
    return played(Tools(kit), TESTS)


def under_kills(kit: Kit) -> SuiteResult:
    """Run the copier while brokers are killed.

    :raises NotAvailableError: it cannot be had here.
    """
    return played(Tools(kit), [copier_under_kills])


def played(tools: Tools, tests: Iterable[Callable[[Tools], None]]) -> SuiteResult:
    """Return what comes of tests that are run one after the other."""
    result = SuiteResult()
    for test in tests:
        result.play(test.__name__, test, tools)
    return result


def events(printed: str) -> list[dict[str, str | int]]:
    """Return the lines of JSON in what a tool printed."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def has(printed: str, *parts: str) -> None:
    """Expect parts in what a tool printed.

    :raises NotAsExpectedError: one is not there.
    """
    for part in parts:
        if part not in printed:
            raise NotAsExpectedError(f"no {part!r} in: {Ended(0, printed).tail}")


def lacks(printed: str, part: str) -> None:
    """Expect that a tool did not print something.

    :raises NotAsExpectedError: it did.
    """
    if part in printed:
        raise NotAsExpectedError(f"{part!r} is in: {Ended(0, printed).tail}")
