"""``oncelog acls`` says who may do what: adds, lists, explains, deletes, exports and applies ACLs.

Rules: what an ACL means is printed as a sentence. Nothing is deleted without a yes. A decision is
made by the same code as in brokers, from the ACLs and settings that they have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.acl_file import read_acls, write_acls
from oncelog_cli.acl_options import (
    COLUMNS,
    AclWords,
    ClusterFlag,
    GroupOption,
    TopicOption,
    TransactionalIdOption,
    UserOption,
    operation_word,
    parse_resource,
    principal_of,
    row_of,
    sorted_bindings,
)
from oncelog_cli.acl_remarks import Remarks, Surroundings, look_around, remarks_on
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.answer import Failures
from oncelog_cli.options import DryRunOption, UsageError, YesOption, confirm, parsed
from oncelog_cli.render import Column, Output, counted

if TYPE_CHECKING:
    from oncelog import AclBinding, AclBindingFilter, Admin
    from oncelog.admin.acl_rights import AclAnswer

app = typed.App(help="Who may do what: add, list, explain, delete ACLs; keep them in a file.")

FILE_CHARS_MAX = 16 * 1024 * 1024
CHANGE_COLUMNS = (Column("CHANGE", "change"), *COLUMNS)
EXPLAIN_COLUMNS = (Column("ALLOWED", "allowed"), Column("REASON", "reason"))


@app.command()
def add(
    output: Output,
    cluster: NamedCluster,
    words: AclWords,
    dry_run: DryRunOption = False,
) -> None:
    """Allow or deny users something. One that is there already stays as it is."""
    wished = words.bindings()

    failures = Failures()

    async def create(admin: Admin) -> tuple[list[AclBinding], _Look]:
        outcomes = await admin.create_acls(wished, validate_only=dry_run)
        sound = failures.sound(outcomes, lambda each: each.binding.sentence())
        return [each.binding for each in sound], await _look(admin)

    created, look = cluster.ask(create)
    output.fail_each(failures)
    _say(output, "would add" if dry_run else "added", created)
    remarks = _remarked(output, created, [*look.acls, *created], look.around)
    rows = [{**row_of(each), "added": not dry_run} for each in created]
    output.finish({"acls": rows, "dry_run": dry_run, **remarks}, COLUMNS)


@app.command("list")
def list_acls(
    output: Output,
    cluster: NamedCluster,
    user: UserOption = (),
    topic: TopicOption = (),
    group: GroupOption = (),
    transactional_id: TransactionalIdOption = (),
    on_cluster: ClusterFlag = False,
    effective: Annotated[
        bool,
        typed.Option(
            "--effective", help="Also those of prefixes, of * and of everybody that count there."
        ),
    ] = False,
) -> None:
    """Show who may do what, as sentences; --format wide has a line for each ACL."""
    resources = AclWords(
        topics=topic, groups=group, transactional_ids=transactional_id, cluster=on_cluster
    ).resources
    filters = _filters_of(resources.patterns(), "MATCH" if effective else "ANY")
    principals = [principal_of(each) for each in user]
    if effective and not principals and not resources.patterns():
        raise UsageError("--effective for what? Give --user, or a resource such as --topic")
    counted_in = {*principals, *(["User:*"] if effective else [])} if principals else None

    look = cluster.ask(_look)
    found = sorted_bindings(
        entry
        for entry in look.acls
        if any(each.matches(entry) for each in filters)
        and (counted_in is None or entry.principal in counted_in)
    )
    if output.is_for_people and output.format.value == "table":
        _say(output, "", found)
    else:
        output.table(COLUMNS, map(row_of, found))
    remarks = _remarked(output, found, look.acls, look.around)
    output.finish({"acls": [row_of(each) for each in found], **remarks}, COLUMNS)


@app.command()
def delete(
    output: Output,
    cluster: NamedCluster,
    user: UserOption = (),
    *,
    words: AclWords,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete ACLs: all that are as described. They are shown before anything is asked or done.

    The same words as for add take back what it has added; what is left out may be anything.
    """
    filters = words.filters(user)
    doomed = sorted_bindings(_deleted(output, cluster, filters, dry_run=True))
    gone: list[AclBinding] = []
    if not doomed and not output.errors:
        output.note("no ACL is as described")
    elif dry_run:
        _say(output, "would delete", doomed)
    elif doomed:
        if not yes:
            _say(output, "found", doomed)
        confirm(f"Delete {counted(len(doomed), 'ACL')}?", yes)
        gone = sorted_bindings(_deleted(output, cluster, filters, dry_run=False))
        _say(output, "deleted", gone)
    rows = [{**row_of(each), "deleted": not dry_run} for each in (doomed if dry_run else gone)]
    output.finish({"acls": rows, "dry_run": dry_run}, COLUMNS)


@app.command()
def explain(
    output: Output,
    cluster: NamedCluster,
    principal: Annotated[str, typed.Argument(metavar="PRINCIPAL")],
    operation: Annotated[str, typed.Argument(metavar="OPERATION")],
    resource: Annotated[str, typed.Argument(metavar="topic:NAME|group:NAME|...|cluster")],
    host: Annotated[
        str | None, typed.Option("--host", metavar="ADDRESS", help="As asked from this address.")
    ] = None,
) -> None:
    """Show whether brokers allow somebody something, and which ACL decides.

    RESOURCE is topic:NAME, group:NAME, transactional-id:NAME or cluster. The decision is made here
    by the code that brokers use.
    """
    who = principal_of(principal)
    kind, name = parsed("RESOURCE", parse_resource, resource)
    asked = _Question(who, operation_word(operation), kind, name, host)
    asked.check()
    look = cluster.ask(_look)
    decision, notes = asked.decided(look)
    output.line(f"{'allowed' if decision.allowed else 'denied'}: {decision.reason}")
    for note in notes:
        output.note(f"note: {note}")
    if not decision.allowed and not decision.denied:
        from oncelog.core.denials import allowing_command

        output.note(f"to allow it: {allowing_command(who, asked.operation, kind, name)}")
    row = {
        "allowed": decision.allowed,
        "principal": who,
        "operation": asked.operation,
        "resource_type": kind,
        "name": name,
        "host": host,
        "reason": decision.reason,
        "acl": None if decision.binding is None else row_of(decision.binding),
        "notes": notes,
    }
    output.finish(row, EXPLAIN_COLUMNS, [row])


@app.command()
def export(output: Output, cluster: NamedCluster) -> None:
    """Print all ACLs as a file for apply."""
    found = sorted_bindings(cluster.ask(lambda admin: admin.describe_acls()))
    output.line(write_acls(found).rstrip("\n"))
    output.finish({"acls": [row_of(each) for each in found]}, COLUMNS)


@app.command()
def apply(
    output: Output,
    cluster: NamedCluster,
    file: Annotated[str, typed.Argument(metavar="FILE")],
    prune: Annotated[
        bool, typed.Option("--prune", help="Delete the ACLs that the file does not have.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Make the cluster's ACLs those of a file, which export has printed or somebody has written.

    - is standard input. What is missing is added first; what is too much stays without --prune.
    """
    wished = _read(file)
    known = cluster.ask(lambda admin: admin.describe_acls())
    missing = sorted_bindings(set(wished) - set(known))
    surplus = sorted_bindings(set(known) - set(wished))
    doomed = surplus if prune else []
    if doomed and not dry_run:
        if not yes:
            _say(output, "not in the file", doomed)
        confirm(f"Delete {counted(len(doomed), 'ACL')}?", yes)
    added, gone = _applied(output, cluster, missing, doomed, dry_run)
    _say(output, "would add" if dry_run else "added", added)
    _say(output, "would delete" if dry_run else "deleted", gone)
    if not missing and not doomed:
        output.line("nothing to do: the cluster has the ACLs of the file")
    if surplus and not prune:
        output.note(f"{counted(len(surplus), 'ACL')} not in the file: --prune deletes what is")
    rows = [
        *({"change": "add", **row_of(each), "done": not dry_run} for each in added),
        *({"change": "delete", **row_of(each), "done": not dry_run} for each in gone),
    ]
    output.finish({"acls": rows, "surplus": len(surplus), "dry_run": dry_run}, CHANGE_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Look:
    """It is what the cluster has: all ACLs, and what they are about."""

    acls: list[AclBinding]
    around: Surroundings


async def _look(admin: Admin) -> _Look:
    return _Look(await admin.describe_acls(), await look_around(admin))


@dataclass(frozen=True, slots=True)
class _Question:
    """It asks whether somebody may do something."""

    principal: str
    operation: str
    resource_type: str
    name: str
    host: str | None

    def check(self) -> None:
        """:raises UsageError: there is no such principal, operation, resource or host."""
        from oncelog import AclBinding
        from oncelog.admin.acl_rights import ALLOW, LITERAL
        from oncelog.errors import InvalidRequestError

        host = self.host or "*"
        if "/" in host:
            raise UsageError(f"--host {host} is a block: one address is possible")
        try:
            AclBinding(
                *(self.resource_type, LITERAL, self.name, self.principal),
                *(host, self.operation, ALLOW),
            ).checked()
        except InvalidRequestError as error:
            raise UsageError(str(error)) from None

    def decided(self, look: _Look) -> tuple[AclAnswer, list[str]]:
        """Return what brokers decide, and what else is to be known."""
        from oncelog.admin.acl_rights import AclAnswer, decide

        notes: list[str] = []
        rules = look.around.rules
        if rules is None:
            notes.append(
                f"whether {self.principal} is a super user is not known: to see settings of brokers"
                " one needs DESCRIBE_CONFIGS of the cluster"
            )
        for broker_id, rule in sorted((rules or {}).items()):
            if not rule.decides_by_acls:
                notes.append(f"broker {broker_id} has authorizer=none, and allows everything")
            elif self.principal in rule.super_users and not look.around.is_super_user(
                self.principal
            ):
                notes.append(f"broker {broker_id} allows it: its super_users name the principal")
        if look.around.is_super_user(self.principal):
            reason = f"super_users of every broker name {self.principal}"
            return AclAnswer(True, reason), notes
        asked = (self.principal, self.operation, self.resource_type, self.name)
        if self.host is None and any(
            entry.host != "*" and entry.principal in (self.principal, "User:*")
            for entry in look.acls
        ):
            notes.append("ACLs of certain hosts do not count: --host says from which it is asked")
        return decide(look.acls, *asked, self.host or ""), notes


def _filters_of(patterns: Iterable[Any], pattern_type: str) -> list[AclBindingFilter]:
    """Return a filter for each resource; without any, one that chooses everything."""
    from oncelog import AclBindingFilter

    return [AclBindingFilter(each.resource_type, pattern_type, each.name) for each in patterns] or [
        AclBindingFilter()
    ]


def _deleted(
    output: Output, cluster: NamedCluster, filters: Sequence[AclBindingFilter], *, dry_run: bool
) -> list[AclBinding]:
    """Return what filters choose; it is deleted unless ``dry_run``."""
    failures = Failures()
    deletions = cluster.ask(lambda admin: admin.delete_acls(filters, validate_only=dry_run))
    sound = failures.sound(deletions, lambda each: "filter")
    output.fail_each(failures)
    return [binding for each in sound for binding in each.bindings]


def _applied(
    output: Output,
    cluster: NamedCluster,
    missing: Sequence[AclBinding],
    doomed: Sequence[AclBinding],
    dry_run: bool,
) -> tuple[list[AclBinding], list[AclBinding]]:
    """Return what was added and what was deleted; where something is refused nothing is deleted."""
    from oncelog import AclBindingFilter

    failures = Failures()

    async def change(admin: Admin) -> tuple[list[AclBinding], list[AclBinding]]:
        outcomes = await admin.create_acls(missing, validate_only=dry_run)
        sound = failures.sound(outcomes, lambda each: each.binding.sentence())
        added = [each.binding for each in sound]
        if failures:
            return added, []
        filters = [
            AclBindingFilter(
                *each.pattern, each.principal, each.host, each.operation, each.permission
            )
            for each in doomed
        ]
        deletions = await admin.delete_acls(filters, validate_only=dry_run)
        gone = failures.sound(deletions, lambda each: "filter")
        return added, [binding for each in gone for binding in each.bindings]

    added, gone = cluster.ask(change)
    output.fail_each(failures)
    return added, gone


def _read(file: str) -> list[AclBinding]:
    """Return the ACLs of a file, or of standard input.

    :raises UsageError: it cannot be read, or is not as it must be.
    """
    try:
        if file == "-":
            text = sys.stdin.read(FILE_CHARS_MAX)
        else:
            with Path(file).open(encoding="utf-8") as lines:
                text = lines.read(FILE_CHARS_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    return parsed(f"{file}:", read_acls, text)


def _say(output: Output, did: str, acls: Sequence[AclBinding]) -> None:
    from oncelog.admin.acl_rights import sentences

    for sentence in sentences(acls):
        output.line(f"{did}: {sentence}" if did else sentence)


def _remarked(
    output: Output, shown: Sequence[AclBinding], every: Iterable[AclBinding], around: Surroundings
) -> dict[str, list[str]]:
    """Say what ACLs can match nothing, and return it for the document."""
    remarks: Remarks = remarks_on(shown, list(dict.fromkeys(every)), around)
    for warning in remarks.warnings:
        output.note(f"warning: {warning}")
    for note in remarks.notes:
        output.note(f"note: {note}")
    return {"notes": remarks.notes, "warnings": remarks.warnings}
