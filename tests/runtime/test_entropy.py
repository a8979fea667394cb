"""Both versions draw within bounds; the seeded one repeats, and its forks stay apart."""

from __future__ import annotations

from uuid import UUID

import pytest

from oncelog_runtime.entropy import Entropy, SeededEntropy, SystemEntropy


@pytest.fixture(params=["system", "seeded"])
def entropy(request: pytest.FixtureRequest) -> Entropy:
    return SystemEntropy() if request.param == "system" else SeededEntropy(7)


def draws(stream: Entropy) -> list[object]:
    return [stream.random(), stream.randint(0, 10**9), stream.token(8), stream.uuid()]


def test_draws_stay_in_bounds(entropy: Entropy) -> None:
    assert all(0 <= entropy.random() < 1 for _ in range(100))
    assert {entropy.randint(3, 5) for _ in range(200)} == {3, 4, 5}
    assert {entropy.choice("ab") for _ in range(100)} == {"a", "b"}
    items = list(range(20))
    entropy.shuffle(items)
    assert sorted(items) == list(range(20))
    assert len(entropy.token(16)) == 16
    assert UUID(entropy.uuid()).version == 4
    assert entropy.uuid() != entropy.uuid()


def test_choice_of_nothing(entropy: Entropy) -> None:
    with pytest.raises(IndexError):
        entropy.choice([])


def test_forks_differ_from_each_other(entropy: Entropy) -> None:
    assert draws(entropy.fork("a")) != draws(entropy.fork("b"))


def test_one_seed_gives_one_stream() -> None:
    assert draws(SeededEntropy(1)) == draws(SeededEntropy(1))
    assert draws(SeededEntropy(1)) != draws(SeededEntropy(2))


def test_a_fork_does_not_depend_on_what_its_parent_drew() -> None:
    fresh, used = SeededEntropy(1), SeededEntropy(1)
    draws(used)
    draws(used.fork("other"))
    assert draws(fresh.fork("a").fork("b")) == draws(used.fork("a").fork("b"))
    assert repr(used.fork("a")) == "SeededEntropy('1/a')"
