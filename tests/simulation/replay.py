"""Proof of replay: a seed gives the same trace in every interpreter, whatever its hash seed.

Sets are what makes Python forgetful: each hash seed gives another order to a set of strings.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from simulation.campaign import run_quietly

HASH_SEEDS = (0, 1, 2)


class Trace(NamedTuple):
    """One interpreter says this of a seed."""

    trace_hash: str
    order: int
    """The hash of a string there: shows that interpreters do differ."""


def trace_of(seed: int | str, seconds: float) -> Trace:
    """Run a seed in this interpreter."""
    return Trace(run_quietly(seed, seconds).trace_hash, hash("oncelog"))


def traces(seeds: Sequence[int | str], seconds: float, *, hash_seed: int, jobs: int) -> list[Trace]:
    """Run seeds in new interpreters that all have this hash seed."""
    former = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = str(hash_seed)  # what is spawned inherits it
    try:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            return list(pool.map(trace_of, seeds, [seconds] * len(seeds)))
    finally:
        if former is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = former


def different(seeds: Sequence[int | str], seconds: float, *, jobs: int) -> list[int | str]:
    """Return the seeds whose traces are not the same under every hash seed."""
    runs = [traces(seeds, seconds, hash_seed=each, jobs=jobs) for each in HASH_SEEDS]
    orders = {run[0].order for run in runs}
    assert len(orders) == len(HASH_SEEDS), "the interpreters have the same hash seed"
    return [
        seed
        for seed, *found in zip(seeds, *runs, strict=True)
        if len({trace.trace_hash for trace in found}) > 1
    ]
