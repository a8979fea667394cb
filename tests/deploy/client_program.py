"""A client is a program of its own here, to be run in a container or beside the cluster:

    client_program.py BOOTSTRAP TOPIC SEND...  EXPECTED

Makes the topic unless it is there, sends each value of SEND (joined by commas; "-" for none), reads
the topic from its beginning until EXPECTED records have come, and prints as JSON what it read and
under which addresses it found the brokers. Whatever goes wrong ends it with a traceback.
"""

from __future__ import annotations

import asyncio
import json
import sys

from oncelog import Admin, Consumer, NewTopic, Producer
from oncelog.errors import TopicAlreadyExistsError

DEADLINE_S = 60.0


async def main(bootstrap: str, topic: str, values: list[str], expected: int) -> None:
    """Send, read, tell."""
    async with asyncio.timeout(DEADLINE_S):
        async with Admin(bootstrap) as admin:
            made = await admin.create_topics([NewTopic(topic, 3, 3, {"min_insync_replicas": "2"})])
            for outcome in made:
                if not isinstance(outcome.error, TopicAlreadyExistsError | None):
                    raise outcome.error
            cluster = await admin.describe_cluster()
        async with Producer(bootstrap, acks="all") as producer:
            sent = [await producer.send(topic, value.encode()) for value in values]
        read: list[str] = []
        async with Consumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            while len(read) < expected:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    read += [(record.value or b"").decode() for record in records]
    listeners = {
        broker.broker_id: {name: list(address) for name, address in broker.listeners.items()}
        for broker in cluster.brokers
    }
    print(json.dumps({"listeners": listeners, "sent": len(sent), "read": sorted(read)}))


if __name__ == "__main__":
    _, servers, name, to_send, count = sys.argv
    asyncio.run(main(servers, name, [] if to_send == "-" else to_send.split(","), int(count)))
