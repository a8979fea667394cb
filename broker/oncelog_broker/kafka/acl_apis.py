"""DescribeAcls, CreateAcls and DeleteAcls of Kafka are translated here.

The words of an ACL are numbers at Kafka, and the cluster is called ``kafka-cluster`` there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oncelog_broker.kafka.exchange import KafkaExchange
from oncelog_broker.kafka.wire.messages.create_acls import (
    KafkaCreateAclsRequest,
    KafkaCreateAclsRequestAclCreation,
    KafkaCreateAclsResponse,
    KafkaCreateAclsResponseAclCreationResult,
)
from oncelog_broker.kafka.wire.messages.delete_acls import (
    KafkaDeleteAclsRequest,
    KafkaDeleteAclsRequestFilter,
    KafkaDeleteAclsResponse,
    KafkaDeleteAclsResponseFilterResult,
    KafkaDeleteAclsResponseMatchingAcl,
)
from oncelog_broker.kafka.wire.messages.describe_acls import (
    KafkaDescribeAclsRequest,
    KafkaDescribeAclsResponse,
    KafkaDescribeAclsResponseAclDescription,
    KafkaDescribeAclsResponseResource,
)
from oncelog_broker.server.request import Buffer
from oncelog_protocol import acls
from oncelog_protocol.acls import AclBinding, AclBindingFilter, AclPattern
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.messages.acls import (
    CreateAclsRequest,
    CreatedAcl,
    DeleteAclsRequest,
    DeletedAcls,
    DescribeAclsRequest,
)

RESOURCE_TYPES: Final = {
    1: acls.ANY,
    2: acls.TOPIC,
    3: acls.GROUP,
    4: acls.CLUSTER,
    5: acls.TRANSACTIONAL_ID,
}
PATTERN_TYPES: Final = {1: acls.ANY, 2: acls.MATCH, 3: acls.LITERAL, 4: acls.PREFIXED}
OPERATIONS: Final = {
    1: acls.ANY,
    2: acls.ALL,
    3: acls.READ,
    4: acls.WRITE,
    5: acls.CREATE,
    6: acls.DELETE,
    7: acls.ALTER,
    8: acls.DESCRIBE,
    9: acls.CLUSTER_ACTION,
    10: acls.DESCRIBE_CONFIGS,
    11: acls.ALTER_CONFIGS,
    12: acls.IDEMPOTENT_WRITE,
}
PERMISSIONS: Final = {1: acls.ANY, 2: acls.DENY, 3: acls.ALLOW}
"""Words of ACLs stand in these four by Kafka's numbers."""

_TYPE_NUMBERS = {word: number for number, word in RESOURCE_TYPES.items()}
_PATTERN_NUMBERS = {word: number for number, word in PATTERN_TYPES.items()}
_OPERATION_NUMBERS = {word: number for number, word in OPERATIONS.items()}
_PERMISSION_NUMBERS = {word: number for number, word in PERMISSIONS.items()}


def describe_acls(exchange: KafkaExchange, request: KafkaDescribeAclsRequest) -> None:
    """List the ACLs that a filter chooses, by their resources."""
    try:
        wanted = _filter_of(request)
    except InvalidRequestError as error:
        exchange.answer(KafkaDescribeAclsResponse(0, error.code, str(error)))
        return

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        found: dict[AclPattern, list[KafkaDescribeAclsResponseAclDescription]] = {}
        for each in answer.entries:
            found.setdefault(each.pattern, []).append(
                KafkaDescribeAclsResponseAclDescription(
                    each.principal,
                    each.host,
                    _OPERATION_NUMBERS[each.operation],
                    _PERMISSION_NUMBERS[each.permission],
                )
            )
        resources = [
            KafkaDescribeAclsResponseResource(
                _TYPE_NUMBERS[kind], _kafka_name(kind, name), _PATTERN_NUMBERS[pattern], entries
            )
            for (kind, pattern, name), entries in found.items()
        ]
        code = exchange.code(answer.error_code)
        exchange.answer(KafkaDescribeAclsResponse(0, code, answer.error_message, resources))

    exchange.ask(DescribeAclsRequest(wanted), then)


def create_acls(exchange: KafkaExchange, request: KafkaCreateAclsRequest) -> None:
    """Add ACLs; each is answered for itself."""
    entries: list[AclBinding] = []
    refused: dict[int, CreatedAcl] = {}
    for index, each in enumerate(request.creations):
        try:
            entries.append(_binding_of(each))
        except InvalidRequestError as error:
            refused[index] = CreatedAcl(error.code, str(error))

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        made = iter(answer.results)
        missing = CreatedAcl(answer.error_code)
        rows = [
            refused.get(index) or next(made, missing) for index in range(len(request.creations))
        ]
        results = [
            KafkaCreateAclsResponseAclCreationResult(
                exchange.code(each.error_code), each.error_message
            )
            for each in rows
        ]
        exchange.answer(KafkaCreateAclsResponse(results=results), counted=answer)

    exchange.ask(CreateAclsRequest(entries), then)


def delete_acls(exchange: KafkaExchange, request: KafkaDeleteAclsRequest) -> None:
    """Take back the ACLs that filters choose; each filter is answered for itself."""
    filters: list[AclBindingFilter] = []
    refused: dict[int, DeletedAcls] = {}
    for index, each in enumerate(request.filters):
        try:
            filters.append(_filter_of(each))
        except InvalidRequestError as error:
            refused[index] = DeletedAcls(error.code, str(error))

    def then(answer: Any, _: Sequence[Buffer]) -> None:
        made = iter(answer.results)
        missing = DeletedAcls(answer.error_code)
        rows = [refused.get(index) or next(made, missing) for index in range(len(request.filters))]
        results = [
            KafkaDeleteAclsResponseFilterResult(
                exchange.code(each.error_code),
                each.error_message,
                [_deleted(entry) for entry in each.entries],
            )
            for each in rows
        ]
        exchange.answer(KafkaDeleteAclsResponse(filter_results=results), counted=answer)

    exchange.ask(DeleteAclsRequest(filters), then)


def _deleted(entry: AclBinding) -> KafkaDeleteAclsResponseMatchingAcl:
    return KafkaDeleteAclsResponseMatchingAcl(
        error_message=None,
        resource_type=_TYPE_NUMBERS[entry.resource_type],
        resource_name=_kafka_name(entry.resource_type, entry.name),
        pattern_type=_PATTERN_NUMBERS[entry.pattern_type],
        principal=entry.principal,
        host=entry.host,
        operation=_OPERATION_NUMBERS[entry.operation],
        permission_type=_PERMISSION_NUMBERS[entry.permission],
    )


def _binding_of(each: KafkaCreateAclsRequestAclCreation) -> AclBinding:
    """Return an ACL that a client wants.

    :raises InvalidRequestError: a number stands for nothing that is known here.
    """
    return AclBinding(
        _word("resource type", RESOURCE_TYPES, each.resource_type),
        _word("pattern type", PATTERN_TYPES, each.resource_pattern_type),
        each.resource_name,
        each.principal,
        each.host,
        _word("operation", OPERATIONS, each.operation),
        _word("permission", PERMISSIONS, each.permission_type),
    )


def _filter_of(each: KafkaDescribeAclsRequest | KafkaDeleteAclsRequestFilter) -> AclBindingFilter:
    """Return the filter that a client means.

    :raises InvalidRequestError: a number stands for nothing that is known here.
    """
    return AclBindingFilter(
        _word("resource type", RESOURCE_TYPES, each.resource_type_filter),
        _word("pattern type", PATTERN_TYPES, each.pattern_type_filter),
        each.resource_name_filter,
        each.principal_filter,
        each.host_filter,
        _word("operation", OPERATIONS, each.operation),
        _word("permission", PERMISSIONS, each.permission_type),
    )


def _word(what: str, words: dict[int, str], number: int) -> str:
    found = words.get(number)
    if found is None:
        raise InvalidRequestError(f"{what} {number} of Kafka is not known here")
    return found


def _kafka_name(resource_type: str, name: str) -> str:
    """Return what a client of Kafka calls a resource."""
    ours = resource_type == acls.CLUSTER and name == acls.CLUSTER_NAME
    return acls.KAFKA_CLUSTER_NAME if ours else name
