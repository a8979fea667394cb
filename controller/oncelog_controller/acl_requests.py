"""DescribeAcls, CreateAcls and DeleteAcls are served here. Pure.

Rules
-----
* An entry, or a filter, that is refused takes no other with it.
* What is changed is written in as few multis as its size allows. Each holds whole patterns and sets
  the version.
* Making an entry that is there changes nothing, nor does taking back one that is not: no version is
  spent, and nobody has to be told.
* A change is answered when the brokers have acknowledged it (``acknowledgements``).
"""

from __future__ import annotations

from oncelog_controller import security_nodes
from oncelog_controller.acknowledgements import SecurityAcknowledgements
from oncelog_controller.core import Core
from oncelog_controller.events import RequestReceived
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.security_requests import answer_change, known_security
from oncelog_protocol import limits
from oncelog_protocol.acls import AclBinding, AclPattern
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    InvalidRequestError,
    PolicyViolationError,
)
from oncelog_protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    CreatedAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcls,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

WRITE_CHARS_MAX = limits.ACLS_OF_ONE_PATTERN_CHARS_MAX
"""Characters of ACLs in one multi, or a single pattern: at most twelve bytes each, as an escape."""

OPEN_FILTERS_MAX = 10
"""Filters of one request that are compared with all ACLs: each takes some 20 ms at the most."""

OP_CHARS = 100
"""A pattern costs as much as so many characters besides."""

Changes = dict[AclPattern, dict[AclBinding, None]]
"""They are patterns with all entries that they are to have, in order."""


class AclRequests:
    """It serves what is asked of ACLs."""

    def __init__(self, core: Core, acknowledgements: SecurityAcknowledgements) -> None:
        self._core = core
        self._acknowledgements = acknowledgements

    def describe(self, event: RequestReceived, request: DescribeAclsRequest) -> None:
        """List the entries that the filter chooses."""
        security = self._security(event)
        if security is None:
            return
        response = DescribeAclsResponse(version=security.version)
        try:
            wanted = request.wanted.checked()
        except ApiError as error:
            response.error_code, response.error_message = error.code, str(error)
        else:
            response.entries = [entry for entry in security.entries() if wanted.matches(entry)]
        self._core.reply(event.request_id, response)

    def create(self, event: RequestReceived, request: CreateAclsRequest) -> None:
        """Add entries."""
        security = self._security(event, len(request.entries))
        if security is None:
            return
        changes: Changes = {}
        room = _Room(security)
        results = []
        for wish in request.entries:
            try:
                entry = wish.checked()
                if entry not in changes.get(entry.pattern, security.of(entry.pattern)):
                    room.add(entry)
                    known = dict.fromkeys(security.of(entry.pattern))
                    changes.setdefault(entry.pattern, known)[entry] = None
                results.append(CreatedAcl())
            except ApiError as error:
                results.append(CreatedAcl(error.code, str(error)))
        response = CreateAclsResponse(NO_ERROR, results)
        self._write(event, request, security, changes, response)

    def delete(self, event: RequestReceived, request: DeleteAclsRequest) -> None:
        """Take back entries."""
        security = self._security(event, len(request.filters))
        if security is None:
            return
        left = dict.fromkeys(security.entries())
        results = []
        changes: Changes = {}
        open_filters = 0
        for wish in request.filters:
            try:
                wanted = wish.checked()
                pattern = wanted.pattern
                open_filters += pattern is None
                if open_filters > OPEN_FILTERS_MAX:
                    raise InvalidRequestError(
                        f"one request has at most {OPEN_FILTERS_MAX} filters that name no pattern"
                    )
                among = left if pattern is None else security.of(pattern)
                chosen = [entry for entry in among if entry in left and wanted.matches(entry)]
                for entry in chosen:
                    del left[entry]
                    known = dict.fromkeys(security.of(entry.pattern))
                    del changes.setdefault(entry.pattern, known)[entry]
                results.append(DeletedAcls(entries=chosen))
            except ApiError as error:
                results.append(DeletedAcls(error.code, str(error)))
        response = DeleteAclsResponse(NO_ERROR, results)
        self._write(event, request, security, changes, response)

    def _security(self, event: RequestReceived, count: int = 0) -> ClusterSecurity | None:
        """Return what is known, or refuse the request."""
        most = limits.ACLS_OF_REQUEST_MAX
        return known_security(self._core, event, count=count, most=most, items="entries or filters")

    def _write(
        self,
        event: RequestReceived,
        request: CreateAclsRequest | DeleteAclsRequest,
        security: ClusterSecurity,
        changes: Changes,
        response: CreateAclsResponse | DeleteAclsResponse,
    ) -> None:
        for ahead, some in enumerate(_portions({} if request.validate_only else changes)):

            def applied(some: Changes = some) -> None:
                security.take(some)
                self._core.order_security(
                    {pattern: tuple(some[pattern]) for pattern in some}, {}, {}
                )
                logger.info("acls_written", version=security.version, patterns=len(some))

            self._core.write(security_nodes.write(security, some, ahead), applied)
        answer_change(self._core, self._acknowledgements, event, request, response)


class _Room:
    """It counts what the cluster's ACLs take, with what a request adds."""

    def __init__(self, security: ClusterSecurity) -> None:
        entries = security.entries()
        self._security = security
        self._count = len(entries)
        self._chars = sum(map(_chars, entries))
        self._of_pattern: dict[AclPattern, int] = {}

    def add(self, entry: AclBinding) -> None:
        """Count an entry.

        :raises PolicyViolationError: there is no room for it.
        """
        chars, pattern = _chars(entry), entry.pattern
        before = self._of_pattern.get(pattern)
        beside = sum(map(_chars, self._security.of(pattern))) if before is None else before
        if self._count >= limits.ACLS_MAX:
            raise PolicyViolationError(f"the cluster has {limits.ACLS_MAX} ACLs, the most it may")
        if self._chars + chars > limits.ACLS_CHARS_MAX:
            raise PolicyViolationError(
                f"the cluster's ACLs would have more than {limits.ACLS_CHARS_MAX} characters"
            )
        if beside + chars > limits.ACLS_OF_ONE_PATTERN_CHARS_MAX:
            raise PolicyViolationError(
                f"the ACLs of {entry.name[:60]!r} would have more than "
                f"{limits.ACLS_OF_ONE_PATTERN_CHARS_MAX} characters"
            )
        self._count += 1
        self._chars += chars
        self._of_pattern[pattern] = beside + chars


def _chars(entry: AclBinding) -> int:
    return (
        len(entry.name)
        + len(entry.principal)
        + len(entry.host)
        + len(entry.resource_type)
        + len(entry.pattern_type)
        + len(entry.operation)
        + len(entry.permission)
    )


def _portions(changes: Changes) -> list[Changes]:
    """Return the changes in portions that one multi takes."""
    portions: list[Changes] = []
    room = 0
    for pattern, entries in changes.items():
        chars = OP_CHARS + len(pattern.name) + sum(map(_chars, entries))
        if not portions or chars > room:
            portions.append({})
            room = WRITE_CHARS_MAX
        portions[-1][pattern] = entries
        room -= chars
    return portions
