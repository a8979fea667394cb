"""An attacker is a process of its own: its work takes no time of the loop that it attacks.

    with Attacker() as attacker:
        await attacker.attack("1-silent", cluster.addresses, cluster.papers)

It has the addresses of a broker and the key of its CA, by which it makes whatever certificates an
attack shows. It keeps them in a folder of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Self

import trustme

from integration.hostile.attacks import ATTACKS
from integration.hostile.target import Target
from support.certificates import Authority, Papers

__all__ = ["Attacker"]

BY_NAME = {str(attack): attack for attack in ATTACKS}


class Attacker:
    """It does one attack after another, in one process: to start costs more than most attacks."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))

    def __enter__(self) -> Self:
        # Its imports are done before anybody measures.
        self._pool.submit(_begin).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    async def attack(
        self, name: str, addresses: Mapping[str, tuple[str, int]], papers: Papers
    ) -> None:
        """Do the attack of this name.

        :raises AssertionError: the broker has not done what the row of the attack says. The error
            is that of the other process, and so is any other that the attack ends with.
        """
        ca = papers.authority.ca
        pems = ca.cert_pem.bytes(), ca.private_key_pem.bytes()
        folder = papers.directory / "attacker"
        await asyncio.get_running_loop().run_in_executor(
            self._pool, _attack, name, dict(addresses), folder, pems
        )


def _begin() -> None:
    """Do nothing: whoever calls it has imported this module."""


def _attack(
    name: str, addresses: Mapping[str, tuple[str, int]], folder: Path, pems: tuple[bytes, bytes]
) -> None:
    asyncio.run(_on(name, addresses, Papers(folder, Authority(trustme.CA.from_pem(*pems)))))


async def _on(name: str, addresses: Mapping[str, tuple[str, int]], papers: Papers) -> None:
    async with Target(addresses, papers) as target:
        await BY_NAME[name].on(target)
