"""A profile names a cluster, with options for its clients, in a file of the user's.

Profiles are in ``$XDG_CONFIG_HOME/oncelog/profiles.toml``, else
``~/.config/oncelog/profiles.toml``; ``oncelog profile`` writes that file, and so may a person::

    current = "prod"
    previous = "local"

    [profiles.prod]
    description = "the one that matters"
    bootstrap = "broker-1:9092,broker-2:9092"

    [profiles.prod.options]
    request_timeout_ms = 5000

    [profiles.prod.security]
    ca_file = "/etc/oncelog/ca.pem"

    [profiles.prod.console]
    label = "production"
    colour = "red"

Rules: nothing is guessed from a file that is not as it must be, and what it may not say is named
with its place. It is replaced as a whole, so that a reader sees the old one or the new one.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oncelog_cli.exits import CommandError, UsageError
from oncelog_cli.places import config_directory

PREVIOUS = "-"
"""It stands for the profile that was in use before, as with ``cd -``."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FIELDS = {"bootstrap": str, "description": str, "options": dict, "security": dict, "console": dict}
_TOP = {"current": str, "previous": str, "profiles": dict}


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile says where a cluster is, and which options clients use for it."""

    bootstrap: str = ""
    description: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Client options by name, in snake case; values as TOML has them."""
    security: Mapping[str, Any] = field(default_factory=dict)
    """Options of ``oncelog.Security``."""
    console: Mapping[str, Any] = field(default_factory=dict)
    """``label`` and ``colour`` of the band across every page of the console."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles are the content of the file."""

    current: str | None = None
    previous: str | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    def named(self, name: str) -> Profile:
        """Return the profile with this name.

        :raises UsageError: there is none of this name.
        """
        if name not in self.profiles:
            near = difflib.get_close_matches(name, self.profiles, 1)
            known = ", ".join(sorted(self.profiles)) or "none: 'oncelog profile create' makes one"
            hint = f"did you mean {near[0]!r}?" if near else f"there are {known}"
            raise UsageError(f"there is no profile {name!r}; {hint}")
        return self.profiles[name]

    def used(self, name: str) -> Profiles:
        """Return the profiles with ``name`` in use; ``-`` is the one before.

        :raises UsageError: there is no such profile.
        """
        if name == PREVIOUS:
            if self.previous is None:
                raise UsageError("there is no previous profile")
            name = self.previous
        self.named(name)
        if name == self.current:
            return self
        return replace(self, current=name, previous=self.current)

    def with_profile(self, name: str, profile: Profile) -> Profiles:
        """Return the profiles with this one added or replaced.

        :raises UsageError: the name is not allowed.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r:.80} is no name for a profile: 1 to 64 letters, digits, '.', '_', '-',"
                " the first a letter or digit"
            )
        return replace(self, profiles={**self.profiles, name: profile})

    def without(self, name: str) -> Profiles:
        """Return the profiles without this one; if it was in use, none is.

        :raises UsageError: there is none of this name.
        """
        self.named(name)
        return Profiles(
            None if self.current == name else self.current,
            None if self.previous == name else self.previous,
            {other: profile for other, profile in self.profiles.items() if other != name},
        )


def profiles_path() -> Path:
    """Return where the file is, or would be."""
    return config_directory() / "profiles.toml"


def load_profiles(path: Path | None = None) -> Profiles:
    """Return the profiles; there are none when there is no file.

    :raises UsageError: the file is not as it must be; the text names file, place and remedy.
    """
    path = path or profiles_path()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Profiles()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    try:
        return _parse(tomllib.loads(text))
    except ValueError as error:  # a TOMLDecodeError is one
        raise UsageError(f"{path}: {error}. Remedy: correct the file, or remove it") from None


def _parse(document: Mapping[str, Any]) -> Profiles:
    """Parse the content of the file.

    :raises ValueError: it says what a profiles' file cannot say.
    """
    _check("", document, _TOP)
    profiles: dict[str, Profile] = {}
    for name, table in document.get("profiles", {}).items():
        if not isinstance(table, dict):
            raise ValueError(f"profiles.{name} must be a table")
        _check(f"profiles.{name}.", table, _FIELDS)
        profiles[name] = Profile(**table)
    for field_name in ("current", "previous"):
        chosen = document.get(field_name)
        if chosen is not None and chosen not in profiles:
            raise ValueError(f"{field_name} names {chosen!r}, and there is no such profile")
    return Profiles(document.get("current"), document.get("previous"), profiles)


def _check(place: str, table: Mapping[str, Any], allowed: Mapping[str, type]) -> None:
    for key, value in table.items():
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, 1)
            hint = f"did you mean {near[0]}" if near else f"there are {', '.join(allowed)}"
            raise ValueError(f"unknown key {place}{key}; {hint}")
        if not isinstance(value, allowed[key]):
            what = "text" if allowed[key] is str else "a table"
            raise ValueError(f"{place}{key} must be {what}")


def save_profiles(profiles: Profiles, path: Path | None = None) -> None:
    """Write the file, readable by its owner alone.

    :raises CommandError: it cannot be written.
    """
    from oncelog_cli.local.toml_writer import to_toml

    path = path or profiles_path()
    chosen = {"current": profiles.current, "previous": profiles.previous}
    document = {key: name for key, name in chosen.items() if name is not None}
    lines = [to_toml(document).strip()] if document else []
    # One dotted heading a table: what a person would write, and can go on editing.
    for name, profile in sorted(profiles.profiles.items()):
        heading = _heading(name)
        texts = {"description": profile.description, "bootstrap": profile.bootstrap}
        plain = {key: text for key, text in texts.items() if text}
        lines += ["", f"[profiles.{heading}]", *([to_toml(plain).strip()] if plain else [])]
        for table in ("options", "security", "console"):
            if content := getattr(profile, table):
                lines += ["", f"[profiles.{heading}.{table}]", to_toml(dict(content)).strip()]
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(lines).lstrip("\n") + "\n")
        beside.replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error}") from None


def _heading(name: str) -> str:
    """Return a name as a part of a dotted key; it holds nothing that would need escapes."""
    return f'"{name}"' if "." in name else name


def chosen_profile(named: str | None) -> tuple[str, Profile] | None:
    """Return the profile in force: ``named``, else ``ONCELOG_PROFILE``, else the one in use.

    :raises UsageError: there is none of the name, or the file is not as it must be.
    """
    profiles = load_profiles()
    name = named or os.environ.get("ONCELOG_PROFILE") or profiles.current
    if name == PREVIOUS:
        name = profiles.used(PREVIOUS).current
    return None if not name else (name, profiles.named(name))


def complete_profiles(incomplete: str) -> list[str]:
    """Return names of profiles for the shell; none when the file cannot be read."""
    try:
        names = sorted(load_profiles().profiles)
    except UsageError:
        return []
    return [name for name in names if name.startswith(incomplete)]
