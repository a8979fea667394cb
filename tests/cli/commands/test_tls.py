"""``oncelog tls`` makes certificates and checks them; mistakes of the command line make nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.shell import oncelog


async def test_certificates_are_made_renewed_and_checked(tmp_path: Path) -> None:
    place = ("--dir", str(tmp_path))
    shown = await oncelog(
        *("tls", "make", *place, "--broker", "broker-1=localhost,127.0.0.1"),
        *("--client", "admin", "--client", "app", "--days", "30", "--json"),
    )
    assert shown.code == 0, shown.err
    made = shown.document["certificates"]
    assert [(each["name"], each["days"]) for each in made] == [
        *(("ca", 3650), ("broker-1", 30)),
        *(("admin", 30), ("app", 30)),
    ]
    assert shown.document["ca_file"] == str(tmp_path / "ca.pem")
    shown = await oncelog("tls", "make", *place, "--renew", "app", "--days", "3", "--json")
    assert [each["days"] for each in shown.document["certificates"]] == [3]
    shown = await oncelog("tls", "check", str(tmp_path / "admin.pem"), "--json")
    assert shown.code == 0, shown.err
    (seen,) = shown.document["certificates"]
    assert (seen["user"], seen["key_fits"], seen["verified"]) == ("User:admin", True, True)
    shown = await oncelog("tls", "check", str(tmp_path / "app.pem"))
    assert shown.code == 1
    assert "Remedy: oncelog tls make --renew app" in shown.err
    shown = await oncelog("tls", "check", str(tmp_path / "app.pem"), "--min-days", "1")
    assert shown.code == 0, shown.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["make", "--dir", "{}"], "say for whom"),
        (["make", "--dir", "{}", "--client", "a", "--renew", "b"], "say for whom"),
        (["make", "--dir", "{}", "--broker", "b"], "expected NAME=HOST"),
        (["make", "--dir", "{}", "--client", "../x"], "no name for a certificate"),
        (["make", "--client", "a"], "--dir"),
        (["check", "{}/a.pem", "--server-name", "a"], "are for HOST:PORT"),
        (["check", "a:1", "--key", "k"], "go together"),
        (["check", ":1"], "HOST:PORT"),
        (["check", "a:70000"], "HOST:PORT"),
    ],
)
async def test_mistakes_of_the_command_line(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    shown = await oncelog("tls", *(each.format(tmp_path) for each in arguments))
    assert (shown.code, shown.out) == (2, "")
    assert words in shown.err
    assert not os.listdir(tmp_path)


async def test_an_address_that_nobody_answers_at() -> None:
    shown = await oncelog("tls", "check", "[::1]:1")
    assert shown.code == 1
    assert "Remedy" in shown.err


async def test_without_the_package_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog_cli.extras.CERTIFICATES", ("no_such_module",))
    shown = await oncelog("tls", "make", "--dir", str(tmp_path), "--client", "a")
    assert shown.code == 2
    assert "pip install 'oncelog[local]'" in shown.err
