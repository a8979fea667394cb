"""Commands about ACLs take the same words for whom, what and where; they become the SDK's here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import typed
from oncelog_cli.documents.answer import fields_of
from oncelog_cli.exits import UsageError
from oncelog_cli.options import complete_groups, complete_topics, complete_transactional_ids
from oncelog_cli.render import Column

if TYPE_CHECKING:
    from oncelog import AclBinding, AclBindingFilter
    from oncelog.admin.acl_rights import AclNeed, AclResources

FIELDS = "principal permission operation resource_type pattern_type name host"
COLUMNS = (
    Column("PRINCIPAL", "principal"),
    Column("PERMISSION", "permission"),
    Column("OPERATION", "operation"),
    Column("RESOURCE", "resource_type"),
    Column("PATTERN", "pattern_type"),
    Column("NAME", "name"),
    Column("HOST", "host"),
)

AllowOption = Annotated[
    Sequence[str],
    typed.Option("--allow", metavar="PRINCIPAL", help="User:NAME, or User:*; repeatable."),
]
DenyOption = Annotated[
    Sequence[str],
    typed.Option("--deny", metavar="PRINCIPAL", help="The same for who may not; repeatable."),
]
UserOption = Annotated[
    Sequence[str],
    typed.Option("--user", "-u", metavar="NAME", help="Of this user; repeatable."),
]
OperationOption = Annotated[
    Sequence[str],
    typed.Option(
        "--operation",
        metavar="OPERATION",
        help="READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS,"
        " CLUSTER_ACTION, IDEMPOTENT_WRITE or ALL; repeatable.",
    ),
]
TopicOption = Annotated[
    Sequence[str],
    typed.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="On this topic; * is all; repeatable.",
        autocompletion=complete_topics,
    ),
]
GroupOption = Annotated[
    Sequence[str],
    typed.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="On this group; repeatable.",
        autocompletion=complete_groups,
    ),
]
TransactionalIdOption = Annotated[
    Sequence[str],
    typed.Option(
        "--transactional-id",
        metavar="ID",
        help="On this transactional id; repeatable.",
        autocompletion=complete_transactional_ids,
    ),
]
ClusterFlag = Annotated[bool, typed.Option("--cluster", help="On the cluster.")]
PrefixOption = Annotated[
    bool, typed.Option("--prefix", help="On all whose names begin with the names given.")
]
HostOption = Annotated[
    Sequence[str],
    typed.Option(
        "--host",
        metavar="ADDRESS",
        help="From this address, or block of addresses such as 10.1.0.0/16; repeatable.",
    ),
]
ProducerOption = Annotated[
    bool,
    typed.Option("--producer", help="All that a producer needs: of topics, transactional ids."),
]
ConsumerOption = Annotated[
    bool, typed.Option("--consumer", help="All that a consumer needs: of topics, groups.")
]


@dataclass(frozen=True, slots=True)
class AclWords(typed.OptionGroup):
    """It is what a command line says of ACLs, as it was typed."""

    allow: AllowOption = ()
    deny: DenyOption = ()
    operations: OperationOption = ()
    topics: TopicOption = ()
    groups: GroupOption = ()
    transactional_ids: TransactionalIdOption = ()
    cluster: ClusterFlag = False
    prefix: PrefixOption = False
    hosts: HostOption = ()
    producer: ProducerOption = False
    consumer: ConsumerOption = False

    @property
    def resources(self) -> AclResources:
        """Return the resources that are named."""
        from oncelog.admin.acl_rights import AclResources

        return AclResources(
            self.topics, self.groups, self.transactional_ids, self.cluster, self.prefix
        )

    def bindings(self) -> list[AclBinding]:
        """Return the ACLs that are described whole.

        :raises UsageError: something is missing, or does not fit together.
        """
        from oncelog.admin.acl_rights import ALLOW, DENY, bindings
        from oncelog.errors import InvalidRequestError

        if not self.allow and not self.deny:
            raise UsageError("for whom? Give --allow User:NAME or --deny User:NAME")
        needs = self._needs()
        if not needs:
            raise UsageError("on what? Give --topic, --group, --transactional-id or --cluster")
        hosts = self.hosts or ("*",)
        try:
            return [
                *bindings(needs, self.deny, permission=DENY, hosts=hosts),
                *bindings(needs, self.allow, permission=ALLOW, hosts=hosts),
            ]
        except InvalidRequestError as error:
            raise UsageError(str(error)) from None

    def filters(self, users: Sequence[str] = ()) -> list[AclBindingFilter]:
        """Return what chooses the ACLs that are described, whole or in part; those of ``users`` are
        chosen whatever they permit.

        :raises UsageError: nothing is said, or it does not fit together.
        """
        from oncelog import AclBindingFilter
        from oncelog.admin.acl_rights import ALLOW, DENY
        from oncelog.errors import InvalidRequestError

        whose: list[tuple[str | None, str]] = [
            *((principal, ALLOW) for principal in self.allow),
            *((principal, DENY) for principal in self.deny),
            *((principal_of(user), "ANY") for user in users),
        ]
        patterns = self.resources.patterns()
        if not (whose or patterns or self.operations or self.hosts):
            raise UsageError("which? Name a user, a resource, an operation or a host")
        on: list[tuple[tuple[str, str, str | None], str]]
        if self.producer or self.consumer:
            on = [((*need.pattern,), need.operation) for need in self._needs()]
        else:
            operations = _upper(self.operations) or ["ANY"]
            on = [((*each,), operation) for each in patterns for operation in operations]
            on = on or [(("ANY", "ANY", None), operation) for operation in operations]
        hosts: Sequence[str | None] = self.hosts or (None,)
        try:
            return [
                AclBindingFilter(*pattern, principal, host, operation, permission).checked()
                for principal, permission in whose or [(None, "ANY")]
                for host in hosts
                for pattern, operation in on
            ]
        except InvalidRequestError as error:
            raise UsageError(str(error)) from None

    def _needs(self) -> list[AclNeed]:
        from oncelog.admin.acl_rights import AclNeed, needed_by_consumer, needed_by_producer

        resources = self.resources
        if not self.producer and not self.consumer:
            operations = _upper(self.operations)
            if not operations:
                raise UsageError("what? Give --operation, or --producer or --consumer")
            return [AclNeed(each, op) for each in resources.patterns() for op in operations]
        if self.operations:
            raise UsageError(
                "--producer and --consumer say which operations: leave out --operation"
            )
        if self.cluster:
            raise UsageError("--producer and --consumer need nothing of the cluster itself")
        if self.transactional_ids and not self.producer:
            raise UsageError("--transactional-id is of a --producer, or goes with --operation")
        producers = needed_by_producer(resources) if self.producer else []
        return [*producers, *(needed_by_consumer(resources) if self.consumer else ())]


def principal_of(user: str) -> str:
    """Return the principal of a user who may be named either way, ``app`` or ``User:app``."""
    return user if user.startswith("User:") else f"User:{user}"


def parse_resource(text: str) -> tuple[str, str]:
    """Return type and name of ``topic:orders``, ``group:g``, ``transactional-id:t``, ``cluster``.

    :raises ValueError: it is none of these.
    """
    from oncelog.admin.acl_rights import CLUSTER, CLUSTER_NAME, OPERATIONS

    word, colon, name = text.partition(":")
    kind = word.upper().replace("-", "_")
    if kind == CLUSTER and not name:
        return CLUSTER, CLUSTER_NAME
    if kind not in OPERATIONS or kind == CLUSTER or not colon or not name:
        raise ValueError(
            f"{text!r}: topic:NAME, group:NAME, transactional-id:NAME and cluster are possible"
        )
    return kind, name


def operation_word(text: str) -> str:
    """Return an operation in Kafka's spelling: ``describe-configs`` is DESCRIBE_CONFIGS."""
    return text.upper().replace("-", "_")


def row_of(binding: AclBinding) -> dict[str, Any]:
    """Return an ACL as a row of a document."""
    return fields_of(binding, FIELDS)


def sorted_bindings(found: Iterable[AclBinding]) -> list[AclBinding]:
    """Return ACLs, each once, by principal and resource; operations as Kafka lists them."""
    from oncelog.admin.acl_rights import OPERATIONS

    return sorted(
        dict.fromkeys(found),
        key=lambda item: (
            *(item.principal, item.resource_type, item.pattern_type, item.name),
            *(item.host, item.permission),
            OPERATIONS[item.resource_type].index(item.operation),
        ),
    )


def _upper(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(operation_word, words)))
