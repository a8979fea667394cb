"""Topics are listed, described, made, altered and deleted here, with their documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog_cli.documents.answer import Answer, Failures, Row, fields_of
from oncelog_cli.documents.known_moves import known_moves
from oncelog_cli.documents.names import topics_named
from oncelog_cli.documents.offsets import held_offsets
from oncelog_cli.documents.partitions import states_of, topics_and_min_isr
from oncelog_cli.group_offsets import partitions_text
from oncelog_cli.health import NOTHING_MOVES
from oncelog_cli.offset_range import HeldOffsets
from oncelog_cli.open_moves import KnownMoves

if TYPE_CHECKING:
    from oncelog import Admin, NewTopic, TopicPartition
    from oncelog.admin.results import ConfigSetting, TopicDescription
    from oncelog.errors import ApiError

OFFSETS_DEADLINE_MS = 5_000
"""A leader that does not answer must not hold up the rest of a description."""


async def listed_topics(
    admin: Admin,
    patterns: Sequence[str] | None = None,
    *,
    regex: bool = False,
    internal: bool = False,
    conditions: Collection[str] = (),
) -> Answer:
    """Return the document of ``topics list``: a row a topic; topics that fail are failures.

    While a partition moves, its original replicas count; all do when nobody says what moves.

    :param patterns: the topics that are meant; else all, with the cluster's own when ``internal``.
    :param conditions: fields that are not 0 in every row: ``under_replicated``, ``leaderless``,
        ``under_min_isr``, ``at_min_isr``.
    :raises CommandError: no topic is meant.
    """
    failures = Failures()
    topics, min_isr = await topics_and_min_isr(admin, patterns, failures, regex=regex)
    moves = await known_moves(admin)
    rows = [
        topic_row(topic, min_isr, moves)
        for topic in topics
        if internal or not topic.internal or patterns
    ]
    return Answer(
        {"topics": [row for row in rows if all(row[key] for key in conditions)]}, failures
    )


def topic_row(
    topic: TopicDescription, min_isr: Mapping[str, int], moves: KnownMoves = NOTHING_MOVES
) -> Row:
    """Return the row of ``topics list`` of one topic.

    :param min_isr: ``min_insync_replicas`` by topic.
    """
    return {**_summary(topic, moves), **_against_min_isr(topic, min_isr, moves)}


def _summary(topic: TopicDescription, moves: KnownMoves) -> Row:
    partitions = topic.partitions
    return {
        **fields_of(topic, "topic topic_id internal"),
        "partition_count": len(partitions),
        "replication_factor": max(
            (len(moves.originals(topic.topic, p)) for p in partitions), default=0
        ),
        "under_replicated": sum(moves.lacks_replicas(topic.topic, p) for p in partitions),
        "leaderless": sum(p.leader < 0 for p in partitions),
    }


def _against_min_isr(topic: TopicDescription, min_isr: Mapping[str, int], moves: KnownMoves) -> Row:
    states = [states_of(topic.topic, item, min_isr, moves) for item in topic.partitions]
    return {
        "min_isr": min_isr.get(topic.topic, 1),
        "under_min_isr": sum("under-min-isr" in each for each in states),
        "at_min_isr": sum("at-min-isr" in each for each in states),
    }


async def described_topics(
    admin: Admin,
    patterns: Sequence[str],
    *,
    regex: bool = False,
    every_setting: bool = False,
    offsets: bool = True,
) -> Answer:
    """Return the document of ``topics describe``: a row a topic, with partitions and settings.

    Of what moves the controller says what is added and removed; what is added is not counted as
    under-replicated. Lists are None when it does not say, and a note says why.

    :param every_setting: defaults as well, not only the topic's own.
    :param offsets: asks the leaders where partitions begin and end. What they do not say within
        5 s is None, and a note says why.
    :raises CommandError: no topic is meant.
    """
    import asyncio

    from oncelog import TopicPartition

    failures = Failures()
    names = await topics_named(admin, patterns, regex=regex)
    described, settings = await asyncio.gather(
        admin.describe_topics(names), admin.describe_configs(topics=names)
    )
    topics = failures.sound(described, lambda topic: topic.topic)
    set_of = {outcome.name: outcome.settings for outcome in settings if outcome.error is None}
    led = [
        TopicPartition(topic.topic, item.partition)
        for topic in topics
        for item in topic.partitions
        if item.leader >= 0
    ]
    (held, errors), moves = await asyncio.gather(
        held_offsets(admin, led if offsets else (), timeout_ms=OFFSETS_DEADLINE_MS),
        known_moves(admin, [topic.topic for topic in topics]),
    )
    notes = _notes_of(moves)
    if errors:
        reason = next(iter(errors.values()))
        notes.append(f"offsets of {partitions_text(errors)} are not known: {reason}")
    rows = [
        _described(topic, set_of.get(topic.topic, {}), held, moves, every=every_setting)
        for topic in topics
    ]
    return Answer({"topics": rows}, failures, notes=notes)


def _notes_of(moves: KnownMoves) -> list[str]:
    """Return for people which moves are stalled, or that nobody knows what moves."""
    if moves.by_partition is None:
        return [f"moves not known: {moves.reason}"]
    return [
        f"the move of {each.partition} is stalled: {each.reason or 'no reason is known'}"
        for each in moves.stalled
    ]


def _described(
    topic: TopicDescription,
    settings: Mapping[str, ConfigSetting],
    held: Mapping[TopicPartition, HeldOffsets],
    moves: KnownMoves,
    *,
    every: bool,
) -> Row:
    from oncelog import TopicPartition

    fields = "partition leader leader_epoch replicas isr elr last_known_elr offline_replicas"
    partitions = []
    for item in topic.partitions:
        known = held.get(TopicPartition(topic.topic, item.partition))
        move = moves.of(topic.topic, item.partition)
        nothing: list[int] | None = None if moves.by_partition is None else []
        partitions.append(
            {
                **fields_of(item, fields),
                "adding": nothing if move is None else list(move.adding),
                "removing": nothing if move is None else list(move.removing),
                "start_offset": None if known is None else known.start,
                "end_offset": None if known is None else known.end,
            }
        )
    chosen = [setting for setting in settings.values() if every or setting.source == "topic"]
    return {
        **_summary(topic, moves),
        "partitions": partitions,
        "configs": [
            fields_of(setting, "key value source documentation")
            for setting in sorted(chosen, key=lambda setting: setting.key)
        ],
    }


# ------------------------------------------------------------------------------ changes


async def created_topics(
    admin: Admin, new: Sequence[NewTopic], *, if_not_exists: bool = False, dry_run: bool = False
) -> Answer:
    """Create topics, and return the document of ``topics create``: a row a topic.

    Rows of those that were created, or would be, have an id and counts.

    :param if_not_exists: a topic that exists is no failure; its row has no id.
    """
    failures = Failures()
    quiet = "TOPIC_ALREADY_EXISTS" if if_not_exists else ""
    rows = []
    for each in await admin.create_topics(new, validate_only=dry_run):
        row = failures.outcome(
            {"topic": each.topic}, "created", each.topic, each.error, quiet=quiet
        )
        if each.error is None:
            made = fields_of(each, "topic_id partition_count replication_factor")
            row = {**row, "created": not dry_run, **made}
        rows.append(row)
    return Answer({"dry_run": dry_run, "topics": rows}, failures)


async def altered_topics(
    admin: Admin,
    patterns: Sequence[str],
    entries: Mapping[str, str | None],
    partitions: int | None = None,
    *,
    regex: bool = False,
    dry_run: bool = False,
) -> Answer:
    """Alter topics, and return the document of ``topics alter``: a row a topic.

    A topic whose settings were refused is not grown.

    :param entries: settings; None takes one back to its default.
    :param partitions: so many each topic is to have then; None leaves them as they are.
    :raises CommandError: no topic is meant.
    """
    failures = Failures()
    names = await topics_named(admin, patterns, regex=regex)
    rows: dict[str, Row] = {name: {"topic": name, "altered": not dry_run} for name in names}

    def judge(name: str, error: ApiError | None) -> None:
        if error is not None:
            rows[name] = failures.outcome(rows[name], "altered", name, error)

    if entries:
        changes = dict.fromkeys(names, entries)
        for changed in await admin.alter_configs(changes, validate_only=dry_run):
            judge(changed.name, changed.error)
    left = [name for name in names if "error" not in rows[name]]
    if partitions is not None and left:
        counts = dict.fromkeys(left, partitions)
        for grown in await admin.create_partitions(counts, validate_only=dry_run):
            judge(grown.topic, grown.error)
    return Answer({"dry_run": dry_run, "topics": list(rows.values())}, failures)


async def doomed_topics(
    admin: Admin, patterns: Sequence[str], *, regex: bool = False, if_exists: bool = False
) -> Answer:
    """Return what ``topics delete --dry-run`` prints: a row for each topic that would go.

    :param if_exists: a topic that does not exist is missing, and no failure.
    :raises CommandError: no topic is meant.
    """
    names = await topics_named(admin, patterns, regex=regex)
    failures, rows, missing = Failures(), [], []
    for topic in await admin.describe_topics(names):
        if topic.error is None:
            rows.append({"topic": topic.topic, "deleted": False})
        elif if_exists and topic.error.name == "UNKNOWN_TOPIC_OR_PARTITION":
            missing.append(topic.topic)
        else:
            failures.fail(topic.topic, topic.error)
    return Answer({"dry_run": True, "topics": rows}, failures, missing)


async def deleted_topics(admin: Admin, names: Sequence[str], *, if_exists: bool = False) -> Answer:
    """Delete topics with all their records, and return what ``topics delete`` prints of it.

    :param if_exists: a topic that does not exist any more is no failure.
    """
    failures = Failures()
    quiet = "UNKNOWN_TOPIC_OR_PARTITION" if if_exists else ""
    rows = [
        failures.outcome({"topic": each.topic}, "deleted", each.topic, each.error, quiet=quiet)
        for each in await admin.delete_topics(names)
    ]
    return Answer({"dry_run": False, "topics": rows}, failures)
