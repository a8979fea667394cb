"""Records that programs of others work on are written and read by our own SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kafka_suites.verdict import NotAsExpectedError
from oncelog import Admin, Consumer, Producer, Record
from oncelog.admin.group_results import MemberDescription

DEADLINE_S = 60.0
POLL_S = 0.2

Keyed = tuple[bytes | None, bytes]
"""A record's key and its value."""


def write(servers: str, topic: str, records: Sequence[Keyed]) -> None:
    """Write records to a topic, which is made if it is not there."""
    asyncio.run(_write(servers, topic, records))


async def _write(servers: str, topic: str, records: Sequence[Keyed]) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for key, value in records:
            await producer.enqueue(topic, value, key=key)


def read(servers: str, topic: str, enough: Callable[[list[Record]], bool]) -> list[Record]:
    """Return the committed records of a topic as soon as they are enough, or when time is up.

    :raises NotAsExpectedError: there is no such topic by then.
    """
    return asyncio.run(_read(servers, topic, enough))


async def _read(servers: str, topic: str, enough: Callable[[list[Record]], bool]) -> list[Record]:
    records: list[Record] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            await _there(servers, topic)
            async with Consumer(
                topic, bootstrap_servers=servers, auto_offset_reset="earliest"
            ) as consumer:
                while not enough(records):
                    for more in (await consumer.getmany(timeout_ms=500)).values():
                        records += more
    except TimeoutError as error:
        if not records:
            raise NotAsExpectedError(f"nothing came in {topic}") from error
    return records


async def _there(servers: str, topic: str) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        while topic not in await admin.list_topics():
            await asyncio.sleep(POLL_S)


def members(servers: str, group: str, count: int) -> Sequence[MemberDescription]:
    """Return the members of a group as soon as there are so many of them, and it is stable.

    :raises NotAsExpectedError: it is not in time.
    """
    return asyncio.run(_members(servers, group, count))


async def _members(servers: str, group: str, count: int) -> Sequence[MemberDescription]:
    seen = "nothing"
    try:
        async with asyncio.timeout(DEADLINE_S), Admin(bootstrap_servers=servers) as admin:
            while True:
                found = (await admin.describe_groups([group], include_offsets=False))[0]
                seen = f"{len(found.members)} members, {found.state}"
                if seen == f"{count} members, Stable":
                    return found.members
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise NotAsExpectedError(f"{group} was to have {count} members: {seen}") from error


def setting(servers: str, topic: str, name: str) -> str | None:
    """Return a setting of a topic, as it is in force."""
    return asyncio.run(_setting(servers, topic, name))


async def _setting(servers: str, topic: str, name: str) -> str | None:
    async with Admin(bootstrap_servers=servers) as admin:
        (found,) = await admin.describe_configs(topics=[topic], keys=[name])
        return str(found.settings[name].value)
