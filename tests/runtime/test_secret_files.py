"""Secrets come from files that are theirs alone; what is wrong with a file is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_runtime.secret_files import SecretFileError, check_private, read_secret


def written(path: Path, content: bytes, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_a_secret_is_read_without_its_line_break(tmp_path: Path) -> None:
    assert read_secret(written(tmp_path / "s", b" pa ss\r\n")) == " pa ss"


def test_a_file_that_the_group_may_read_is_told(tmp_path: Path) -> None:
    assert check_private(written(tmp_path / "s", b"x", 0o640))
    assert not check_private(written(tmp_path / "s", b"x", 0o600))


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (b"x", 0o644, "everybody may read"),
        (b"\n", 0o600, "is empty"),
        (b"\xff", 0o600, "is not UTF-8"),
        (b"x" * (64 * 1024 + 1), 0o600, "is too large"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, mode: int, problem: str) -> None:
    with pytest.raises(SecretFileError, match=problem) as caught:
        read_secret(written(tmp_path / "s", content, mode))
    assert caught.value.remedy


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, problem in (
        (tmp_path, "is not a file"),
        (tmp_path / "no", "No such"),
        (loop, "loop"),
    ):
        with pytest.raises(SecretFileError, match=problem):
            read_secret(str(path))
