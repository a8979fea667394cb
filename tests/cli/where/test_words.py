"""Expressions are cut into words, each with its kind, its value and its place."""

from __future__ import annotations

from oncelog_cli.where.words import WordKind, words_of


def test_words_have_kinds_values_and_places() -> None:
    words = list(words_of(" a.b=='x\\y' 5 2.5e1\t90s 1970-01-02"))
    assert [(word.kind, word.position) for word in words] == [
        (WordKind.NAME, 1),
        (WordKind.SIGN, 2),
        (WordKind.NAME, 3),
        (WordKind.SIGN, 4),
        (WordKind.TEXT, 6),
        (WordKind.NUMBER, 12),
        (WordKind.NUMBER, 14),
        (WordKind.DURATION, 20),
        (WordKind.TIME, 24),
        (WordKind.END, 34),
    ]
    assert [word.value for word in words[4:9]] == ["x\\y", 5, 25.0, 90_000, 86_400_000]


def test_milliseconds_of_times_are_exact() -> None:
    for ms in (1, 123, 999, 1_769_860_800_123):
        seconds, rest = divmod(ms, 1000)
        text = f"1970-01-01T00:00:00.{rest:03}Z" if not seconds else "2026-01-31T12:00:00.123Z"
        assert next(words_of(text)).value == ms
