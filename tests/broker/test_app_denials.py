"""A user who is denied something is told what is missing, and can go on by that.

A user without rights asks by the command line; an admin pastes the command that the denial names.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from support.acl_cluster import AclCluster
from support.shell import Shown, oncelog


class Shell:
    """It runs commands as users of a cluster."""

    def __init__(self, cluster: AclCluster) -> None:
        self._cluster = cluster

    async def run(self, *command: str, by: str = "app", stdin: bytes = b"") -> Shown:
        papers = self._cluster.papers
        certificate, key = papers.issue(by)
        files = {"ca_file": papers.ca_file, "certificate_file": certificate, "key_file": key}
        options = [part for name, path in files.items() for part in ("-X", f"{name}={path}")]
        bootstrap = "{}:{}".format(*self._cluster.brokers[1].addresses["external"])
        return await oncelog(*command, *options, stdin=stdin, bootstrap=bootstrap)

    async def allow(self, *words: str) -> None:
        command = ("acls", "add", "--allow", "User:app", *words)
        shown = await self.run(*command, by="admin")
        assert shown.code == 0, shown.err

    async def denied(self, told: str, *command: str, stdin: bytes = b"") -> None:
        """Run a command that is denied with these words; then do what they say."""
        shown = await self.run(*command, stdin=stdin)
        assert shown.code == 1
        assert told in shown.err
        _, _, advice = told.partition(": oncelog ")
        shown = await self.run(*shlex.split(advice), by="admin")
        assert shown.code == 0, shown.err


async def test_a_denial_names_the_command_that_allows_it(tmp_path: Path) -> None:
    add = "oncelog acls add --allow User:app"
    async with AclCluster(tmp_path, 1) as cluster:
        shell = Shell(cluster)
        told = f"may not CREATE topic orders: {add} --operation CREATE --topic orders"
        await shell.denied(told, "topics", "create", "orders")
        assert (await shell.run("topics", "create", "orders")).code == 0
        answers = [
            (await shell.run("produce", name, stdin=b"tea\n")).err for name in ("orders", "no")
        ]
        assert answers[0] == answers[1].replace("'no'", "'orders'").replace(
            "topic no", "topic orders"
        )
        hidden = f"or User:app may not see it: {add} --producer --topic orders"
        assert hidden in answers[0], (
            "it cannot see its topic, and is not told which of the two it is"
        )
        asked = await shell.run("topics", "offsets", "orders", "-p", "0")
        assert (asked.code, hidden in asked.err) == (1, True), asked.err
        await shell.allow("--operation", "DESCRIBE", "--topic", "orders")
        asked = await shell.run("topics", "offsets", "orders", "-f", "tsv")
        assert asked.out.split() == ["orders", "0", "0", "-", "0"], asked.err
        told = f"may not WRITE any topic: {add} --producer --topic TOPIC"
        shown = await shell.run("produce", "orders", stdin=b"tea\n")
        assert (shown.code, told in shown.err) == (1, True), shown.err
        await shell.allow("--operation", "IDEMPOTENT_WRITE", "--cluster")
        told = f"may not WRITE topic orders: {add} --producer --topic orders"
        await shell.denied(told, "produce", "orders", stdin=b"tea\n")
        assert (await shell.run("produce", "orders", stdin=b"tea\n")).code == 0
        told = f"may not WRITE transactional id pay: {add} --producer --transactional-id pay"
        wish = ("produce", "orders", "--transactional-id", "pay")
        await shell.denied(told, *wish, stdin=b"milk\n")
        assert (await shell.run(*wish, stdin=b"milk\n")).code == 0
        consume = ("consume", "orders", "--from-beginning", "--until-end")
        told = f"may not READ topic orders: {add} --consumer --topic orders"
        await shell.denied(told, *consume)
        assert (await shell.run(*consume)).out.split() == ["tea", "milk"]
        told = f"may not READ group g: {add} --consumer --group g"
        await shell.denied(told, *consume, "--group", "g")
        assert (await shell.run(*consume, "--group", "g")).code == 0
        told = f"may not DESCRIBE the cluster: {add} --operation DESCRIBE --cluster"
        await shell.denied(told, "acls", "list")
        assert (await shell.run("acls", "list")).code == 0


ADMIN_COMMANDS = (
    ("DESCRIBE_CONFIGS", "topic orders", "configs describe --topic orders"),
    ("ALTER_CONFIGS", "topic orders", "configs alter --topic orders --set retention.ms=1000000"),
    ("DELETE", "topic orders", "delete-records orders --before end --yes"),
    ("DESCRIBE", "the cluster", "cluster describe"),
    ("DESCRIBE_CONFIGS", "the cluster", "configs describe --broker 1"),
    ("ALTER_CONFIGS", "the cluster", "quotas set --user app --produce 1MiB/s"),
)
"""They are commands, with the right that a denial of each names, and what it is of."""


async def test_admin_commands_name_it_too(tmp_path: Path) -> None:
    add = "oncelog acls add --allow User:app"
    async with AclCluster(tmp_path, 1) as cluster:
        shell = Shell(cluster)
        assert (await shell.run("topics", "create", "orders", by="admin")).code == 0
        assert (await shell.run("produce", "orders", by="admin", stdin=b"tea\n")).code == 0
        await shell.allow("--operation", "DESCRIBE", "--topic", "orders")
        await shell.allow("--operation", "DESCRIBE", "--group", "g")
        may_not = f"may not DESCRIBE_CONFIGS the cluster: {add} --operation DESCRIBE_CONFIGS"
        assert may_not in (await shell.run("quotas", "list")).err
        for operation, resource, command in ADMIN_COMMANDS:
            option = "--cluster" if resource == "the cluster" else f"--{resource}"
            told = f"may not {operation} {resource}: {add} --operation {operation} {option}"
            await shell.denied(told, *command.split())
            shown = await shell.run(*command.split())
            assert shown.code == 0, shown.err
        assert (await shell.run("quotas", "list")).code == 0
        reset = ["groups", "reset-offsets", "g", "--topic", "orders", "--to-earliest", "--execute"]
        await shell.denied(f"may not READ group g: {add} --consumer --group g", *reset)
        await shell.denied(f"may not READ topic orders: {add} --consumer --topic orders", *reset)
        assert (await shell.run(*reset)).code == 0
