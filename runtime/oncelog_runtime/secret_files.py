"""Secrets are read from files that nobody else may read."""

from __future__ import annotations

import os
import stat

__all__ = ["SecretFileError", "check_private", "read_secret"]

SECRET_BYTES_MAX = 64 * 1024


class SecretFileError(Exception):
    """The file does not hold a secret, or not one that is kept."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause}: {remedy}")
        self.cause = cause
        """It says what is wrong."""
        self.remedy = remedy
        """It says what to do about it."""


def check_private(path: str) -> bool:
    """Check that the file is one, and that not everybody may read it; return whether its group
    may, which is worth a warning.

    :raises SecretFileError: it cannot be looked at, is no file, or is readable by everybody.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        text = f"the file {path} cannot be read ({error.strerror})"
        raise SecretFileError(text, "see that it is there, and who may read it") from error
    if not stat.S_ISREG(mode):
        raise SecretFileError(f"{path} is not a file", "name the file with the secret")
    if mode & stat.S_IROTH:
        raise SecretFileError(f"everybody may read {path}", "let only its owner (chmod 600)")
    return bool(mode & stat.S_IRGRP)


def read_secret(path: str) -> str:
    """Return the text in the file, without the line break at its end.

    :raises SecretFileError: see ``check_private``; or it is empty, too large or not UTF-8.
    """
    check_private(path)
    try:
        with open(path, "rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        text = f"the file {path} cannot be read ({error.strerror})"
        raise SecretFileError(text, "see who may read it") from error
    if len(content) > SECRET_BYTES_MAX:
        raise SecretFileError(f"the file {path} is too large", "see that it is the right one")
    try:
        secret = content.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise SecretFileError(f"the file {path} is not UTF-8", "write it as text") from error
    if not secret:
        raise SecretFileError(f"the file {path} is empty", "write the secret into it")
    return secret
