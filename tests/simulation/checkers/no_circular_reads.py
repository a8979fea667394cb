"""[A7]: transactions do not read each other in a circle (Adya's G1c, by reads alone).

An edge leads from a transaction to one that read what it wrote. What a transaction read is what its
own polls say, or, where it commits offsets, what lies between the offsets that its group committed
before and those that it commits.
"""

from __future__ import annotations

from bisect import bisect_left

from simulation.checkers.violation import Rules, Violation, indexes
from simulation.history import History, Key, Op

PROMISE = "no_circular_reads"

Edges = dict[Op, dict[Op, Key]]
"""Edges from each transaction: who read it, and where."""


def check(history: History, rules: Rules) -> list[Violation]:
    """Find circles, each named once, by the transaction that was begun first."""
    if not rules.read_committed:
        return []
    edges = _edges(history)
    found: list[Violation] = []
    for component in _components(edges):
        if len(component) < 2:
            continue
        ring = sorted(component, key=lambda op: op.index)
        first = ring[0]
        key = next(key for op, key in edges[first].items() if op in component)
        names = ", ".join(map(str, ring))
        text = f"{names} have read each other in a circle"
        found.append(Violation("A7", PROMISE, text, key, (), indexes(*ring)))
    return found


def _edges(history: History) -> Edges:
    edges: Edges = {}

    def read(reader: Op, key: Key, value: bytes | None) -> None:
        write = None if value is None else history.writes.get(key, {}).get(value)
        if write is None:
            return
        writer = write.op if write.op.f == "txn" else write.op.txn
        writer = None if writer is None else writer.wins or writer
        if writer is not None and writer is not reader:
            edges.setdefault(writer, {}).setdefault(reader, key)

    for txn in history.txns:
        if txn.fate == "fail":
            continue
        for mop in txn.mops:
            if mop.kind == "poll":
                read(txn, (mop.topic, mop.partition), mop.value)
    for reader, key, low, high in _consumed(history):
        order = history.order(key, acks=False)
        first = bisect_left(order.offsets, low)
        for offset in order.offsets[first : bisect_left(order.offsets, high)]:
            read(reader, key, order.values[offset])
    return edges


def _consumed(history: History) -> list[tuple[Op, Key, int, int]]:
    """Return (transaction, partition, from, up to) of what transactions have read in groups."""
    found: list[tuple[Op, Key, int, int]] = []
    before: dict[tuple[str, Key], int] = {}
    for op in history.grouping:
        if op.f != "commit" or op.txn is None or op.fate == "fail":
            continue
        for mop in op.mops:
            place = op.group, (mop.topic, mop.partition)
            low, high = before.get(place, 0), mop.offset or 0
            if high > low:
                found.append((op.txn, place[1], low, high))
                if op.fate == "ok":
                    before[place] = high
    return found


def _components(edges: Edges) -> list[set[Op]]:
    """Return strongly connected components by Tarjan's algorithm, without recursion."""
    index: dict[Op, int] = {}
    low: dict[Op, int] = {}
    stack: list[Op] = []
    waiting: set[Op] = set()
    found: list[set[Op]] = []
    for root in edges:
        if root in index:
            continue
        path = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        waiting.add(root)
        while path:
            node, following = path[-1]
            for child in following:
                if child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    waiting.add(child)
                    path.append((child, iter(edges.get(child, ()))))
                    break
                if child in waiting:
                    low[node] = min(low[node], index[child])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_popped(stack, waiting, node))
    return found


def _popped(stack: list[Op], waiting: set[Op], root: Op) -> set[Op]:
    component: set[Op] = set()
    while True:
        node = stack.pop()
        waiting.discard(node)
        component.add(node)
        if node is root:
            return component
