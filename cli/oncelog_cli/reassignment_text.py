"""Text is parsed here into brokers that are to have partitions. Pure.

Brokers are ids with commas between them, ``1,2,4``; the first is the preferred leader. A file is
Kafka's reassignment JSON::

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 4]}]}
"""

from __future__ import annotations

import json
from typing import Any

from oncelog_cli.group_offsets import Partition

_ANY = "any"
"""Kafka's word for whichever log directory."""
_ID_MAX = 2**31 - 1


def parse_brokers(text: str) -> list[int]:
    """Parse ids of brokers.

    :raises ValueError: it is no list of ids, or one is there twice.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and int(word) <= _ID_MAX for word in words):
        raise ValueError(f"{text!r}: expected ids of brokers, such as 1,2,4")
    return _each_once([int(word) for word in words], repr(text))


def parse_reassignments(text: str) -> dict[Partition, list[int]]:
    """Parse Kafka's file into the replicas that each partition is to have.

    :raises ValueError: it is no such file, or names a log directory.
    """
    document = json.loads(text)
    rows = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError('there is no list "partitions", or nothing in it')
    found: dict[Partition, list[int]] = {}
    for row in rows:
        name, replicas = _row(row)
        if name in found:
            raise ValueError(f"{name[0]}-{name[1]} is named twice")
        found[name] = replicas
    return found


def _row(row: Any) -> tuple[Partition, list[int]]:
    if not isinstance(row, dict) or not isinstance(row.get("topic"), str) or not row["topic"]:
        raise ValueError(f"{row!r} names no topic")
    number, replicas = row.get("partition"), row.get("replicas")
    if type(number) is not int or not _is_number(number):
        raise ValueError(f"{row!r} names no partition")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise ValueError(f'{row!r} has no list "replicas" of broker ids')
    directories = row.get("log_dirs") or []
    if not isinstance(directories, list) or any(each != _ANY for each in directories):
        raise ValueError(f'{row!r}: brokers choose log directories themselves, say "{_ANY}"')
    return (row["topic"], number), _each_once(replicas, f"{row['topic']}-{number}")


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _ID_MAX


def _each_once(brokers: list[int], where: str) -> list[int]:
    twice = next((broker for broker in brokers if brokers.count(broker) > 1), None)
    if twice is not None:
        raise ValueError(f"{where}: broker {twice} is there twice")
    return brokers
