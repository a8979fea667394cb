"""One side means somebody, another is there, and the two may not fit."""

from __future__ import annotations

import pytest

from oncelog_protocol.identity import UNKNOWN, Identity, misfit

A1 = Identity("a", 1)


@pytest.mark.parametrize(
    ("meant", "found"),
    [
        (A1, A1),
        (UNKNOWN, A1),
        (A1, UNKNOWN),
        (Identity("a"), A1),
        (Identity("", 1), A1),
        (A1, Identity("", 1)),
    ],
)
def test_what_is_not_known_fits(meant: Identity, found: Identity) -> None:
    assert misfit(meant, found) == ""


@pytest.mark.parametrize(
    ("meant", "found", "text"),
    [
        (A1, Identity("a", 2), "expected broker 1 of cluster 'a', found broker 2 of cluster 'a'"),
        (A1, Identity("b", 1), "expected broker 1 of cluster 'a', found broker 1 of cluster 'b'"),
        (Identity("a"), Identity("b", 3), "expected cluster 'a', found broker 3 of cluster 'b'"),
        (Identity("", 1), Identity("a", 0), "expected broker 1, found broker 0 of cluster 'a'"),
    ],
)
def test_what_does_not_fit_is_named(meant: Identity, found: Identity, text: str) -> None:
    assert misfit(meant, found) == text


def test_whole_is_who_is_named_by_both() -> None:
    assert A1.whole
    assert not Identity("a").whole
    assert not Identity("", 1).whole
    assert str(UNKNOWN) == "any broker"
