"""Command lines are put together here: what a page shows or changes, ``oncelog`` shows or changes.

Rules: every argument is said, so that a line does the same wherever it is pasted. A line is quoted
for a POSIX shell. What would be taken for an option stands behind ``--``, or behind ``=``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncelog_cli.group_offsets import csv_line, partitions_text
from oncelog_cli.record_text import InputRecord, input_line

Command = tuple[str, ...]
"""The words of a command line after ``oncelog``: ``("topics", "describe", "orders")``."""
Option = str | int | bool | None | Iterable[str]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """It is a command line that changes something, with what it reads from standard input."""

    words: Command
    stdin: str = ""

    def text(self, profile: str = "") -> str:
        """Return it as a shell takes it.

        :param profile: the profile of ``--profile``; "" names none.
        """
        line = shlex.join(("oncelog", *with_profile(self.words, profile)))
        return f"printf %s {shlex.quote(self.stdin)} | {line}" if self.stdin else line


def with_profile(words: Command, profile: str) -> Command:
    """Return a command's words with ``--profile``; "" is the profile in use."""
    if not profile:
        return words
    end = words.index("--") if "--" in words else len(words)
    return (*words[:end], *_option("profile", profile), *words[end:])


def command(path: str, *names: object, **options: Option) -> Command:
    """Return the words of a command.

    :param path: what is typed first: ``"groups describe"``.
    :param names: its arguments.
    :param options: ``to_offset=3`` is ``--to-offset 3``; True is a flag; None and False are left
        out; an option is repeated for each of several values.
    """
    given = tuple(str(name) for name in names)
    said = tuple(word for name, value in options.items() for word in _option(name, value))
    if any(name.startswith("-") for name in given):
        return (*path.split(), *said, "--", *given)
    return (*path.split(), *given, *said)


def _option(name: str, value: Option) -> Command:
    word = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return ()
    if value is True:
        return (word,)
    if isinstance(value, str | int):
        text = str(value)
        return (f"{word}={text}",) if text.startswith("-") or not text else (word, text)
    return tuple(part for each in value for part in _option(name, each))


def chosen(partitions: Iterable[tuple[str, int]]) -> list[str]:
    """Return partitions as ``--topic`` takes them: ``orders:0,2``, one for each topic."""
    return partitions_text(partitions).split()


def offsets_file(offsets: Mapping[tuple[str, int], int]) -> str:
    """Return offsets of partitions as commands read them with ``--from-file``."""
    return "".join(
        csv_line(topic, partition, offset) + "\n"
        for (topic, partition), offset in sorted(offsets.items())
    )


# ------------------------------------------------------------------------------ records, topics


def produce(topic: str, record: InputRecord, acks: str) -> CommandLine:
    """Return the command that sends one record."""
    words = command("produce", topic, json_lines=True, acks=acks)
    return CommandLine(words, input_line(record).decode())


def create_topic(
    topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> CommandLine:
    """Return the command that creates a topic; -1 leaves a count to the brokers."""
    return CommandLine(
        command(
            "topics create",
            topic,
            partitions=partitions if partitions > 0 else None,
            replication_factor=replication_factor if replication_factor > 0 else None,
            config=_assignments(configs),
        )
    )


def add_partitions(topic: str, partitions: int) -> CommandLine:
    """Return the command that grows a topic to so many partitions."""
    return CommandLine(command("topics alter", topic, partitions=partitions))


def delete_topic(topic: str) -> CommandLine:
    """Return the command that deletes a topic with all its records."""
    return CommandLine(command("topics delete", topic, yes=True))


def delete_records(before: Mapping[tuple[str, int], int]) -> CommandLine:
    """Return the command that deletes what is below an offset of each partition."""
    offsets = set(before.values())
    if len(offsets) == 1:
        words = command("delete-records", *chosen(before), before=offsets.pop(), yes=True)
        return CommandLine(words)
    return CommandLine(command("delete-records", from_file="-", yes=True), offsets_file(before))


def alter_configs(
    entries: Mapping[str, str | None],
    *,
    topic: str | None = None,
    broker: int | None = None,
) -> CommandLine:
    """Return the command that alters settings of a topic, of a broker, or of all brokers.

    :param entries: settings; None takes one back to what holds without.
    """
    return CommandLine(
        command(
            "configs alter",
            topic=topic,
            broker=broker,
            default=topic is None and broker is None,
            config=_assignments(entries),
            delete_config=[key for key, value in entries.items() if value is None],
        )
    )


def _assignments(entries: Mapping[str, str | None]) -> list[str]:
    return [f"{key}={value}" for key, value in entries.items() if value is not None]


def elect_leaders(partitions: Iterable[tuple[str, int]], *, unclean: bool = False) -> CommandLine:
    """Return the command that elects the preferred leaders of partitions, or any with unclean."""
    return CommandLine(
        command("elect-leaders", topic=chosen(partitions), unclean=unclean, yes=unclean)
    )


# ------------------------------------------------------------------------------ groups


def reset_offsets(
    group: str, place: str, value: str | int | bool, topics: Iterable[str]
) -> CommandLine:
    """Return the command that resets a group.

    :param place: the option that says where to, without its dashes: ``to_offset``.
    :param value: of this option; True for one that has none.
    :param topics: topics and partitions, as ``--topic`` takes them; none are all that the group
        has committed to.
    """
    named = list(topics)
    place_option: dict[str, Option] = {place: value}
    everything = not named and place != "to_group"
    return CommandLine(
        command(
            "groups reset-offsets",
            group,
            topic=named,
            all_topics=everything,
            **place_option,
            execute=True,
        )
    )


def reset_to_file(group: str, offsets: Mapping[tuple[str, int], int]) -> CommandLine:
    """Return the command that resets each partition of a group to an offset of its own."""
    words = command("groups reset-offsets", group, from_file="-", execute=True)
    return CommandLine(words, offsets_file(offsets))


def clone_group(source: str, target: str) -> CommandLine:
    """Return the command that gives a group the offsets of another one."""
    return CommandLine(command("groups clone", source, target))


def delete_group(group: str) -> CommandLine:
    """Return the command that forgets a group."""
    return CommandLine(command("groups delete", group, yes=True))


def delete_offsets(group: str, topics: Iterable[str]) -> CommandLine:
    """Return the command that forgets what a group has committed for topics or partitions."""
    return CommandLine(command("groups delete-offsets", group, topic=list(topics), yes=True))


# ------------------------------------------------------------------------------ transactions


def abort_transaction(
    topic: str, partition: int, producer_id: int, start_offset: int
) -> CommandLine:
    """Return the command that aborts what a producer has open in a partition."""
    return CommandLine(
        command(
            "transactions abort",
            topic=topic,
            partition=partition,
            producer_id=producer_id,
            start_offset=start_offset,
            yes=True,
        )
    )


def fence(transactional_id: str) -> CommandLine:
    """Return the command that shuts the present producer of an id out."""
    return CommandLine(command("transactions fence", transactional_id, yes=True))
