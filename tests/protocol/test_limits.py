"""Names on the wire have bounds, and relations must hold between the numbers."""

from __future__ import annotations

import pytest

from oncelog_protocol import limits


@pytest.mark.parametrize(
    "name", ["a", "orders", "a.b_c-d", "A9", "...", "a" * limits.TOPIC_CHARS_MAX, "__internal"]
)
def test_legal_topics(name: str) -> None:
    assert limits.is_legal_topic(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param(".", id="dot"),
        pytest.param("..", id="parent"),
        pytest.param("../../etc/passwd", id="traversal"),
        pytest.param("a/b", id="slash"),
        pytest.param("a\\b", id="backslash"),
        pytest.param("/tmp/x", id="absolute"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("a\n", id="a newline at the end"),
        pytest.param("a\x1bb", id="control character"),
        pytest.param("\u202eabc", id="right to left"),
        pytest.param("log\N{SNOWMAN}", id="beyond ASCII"),
        pytest.param("\uff41", id="a full-width letter"),
        pytest.param("a" * (limits.TOPIC_CHARS_MAX + 1), id="250 characters"),
        pytest.param("a" * 10**6, id="a million characters"),
        pytest.param("a b", id="blank"),
    ],
)
def test_illegal_topics(name: str) -> None:
    assert not limits.is_legal_topic(name)


def test_a_partition_directory_fits_a_file_name() -> None:
    longest = f"{'a' * limits.TOPIC_CHARS_MAX}-{limits.PARTITION_COUNT_MAX - 1}"
    assert len(longest) <= 255


def test_a_full_fetch_response_and_one_batch_more_fit_a_frame() -> None:
    assert (
        limits.HEAD_BYTES_MAX + limits.FETCH_BYTES_MAX + limits.BATCH_BYTES_MAX
        <= limits.FRAME_BYTES_MAX
    )


def test_what_may_come_before_authentication_is_small() -> None:
    assert limits.FRAME_BYTES_MAX_UNAUTHENTICATED * 1000 <= limits.FRAME_BYTES_MAX
