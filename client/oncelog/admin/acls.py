"""The admin client makes, takes back and lists ACLs.

An ACL (:class:`~oncelog.AclBinding`) allows or denies a principal one operation on the resources of
a pattern; a filter (:class:`~oncelog.AclBindingFilter`) chooses some. Names are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oncelog.admin.calls import TIMEOUT_MS, AdminCalls, item_error
from oncelog.admin.results import Results
from oncelog.errors import ApiError
from oncelog_protocol import limits
from oncelog_protocol.acls import AclBinding, AclBindingFilter
from oncelog_protocol.messages import acls as wire

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """One ACL was created, or was not."""

    binding: AclBinding
    error: ApiError | None = None


@dataclass(frozen=True, slots=True)
class AclDeletion:
    """The ACLs that one filter chose were deleted, or were not."""

    filter: AclBindingFilter
    error: ApiError | None = None
    bindings: tuple[AclBinding, ...] = ()
    """A filter has chosen these; what an earlier filter of the same call chose is listed there."""


class AclAdmin(AdminCalls):
    """It is the admin client's part for ACLs."""

    async def create_acls(
        self,
        bindings: Iterable[AclBinding],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[AclOutcome]:
        """Create ACLs, and return when all brokers decide by them. One that is there is no error.

        Errors of items: INVALID_REQUEST (the ACL could not do what it says; the text says why),
        POLICY_VIOLATION (too many).

        :raises SecurityDisabledError: the cluster keeps no ACLs.
        """
        deadline = self._deadline(timeout_ms)
        outcomes: list[AclOutcome] = []
        for some in _portions(bindings):
            left_ms = self._left_ms(deadline)
            request = wire.CreateAclsRequest(some, validate_only, left_ms)
            response = await self._on_controller(request, left_ms)
            outcomes += [
                AclOutcome(binding, item_error(item.error_code, item.error_message))
                for binding, item in zip(some, response.results, strict=True)
            ]
        return Results(outcomes)

    async def delete_acls(
        self,
        filters: Iterable[AclBindingFilter],
        *,
        timeout_ms: int = TIMEOUT_MS,
        validate_only: bool = False,
    ) -> Results[AclDeletion]:
        """Delete the ACLs that filters choose, and return them when no broker decides by them any
        more; with ``validate_only`` they stay.

        When an answer got lost, the request is sent again, and what it lists is what the first one
        had left. Errors of items: INVALID_REQUEST (also beyond ten filters a call that leave the
        type, the kind of pattern or the name open).

        :raises SecurityDisabledError: the cluster keeps no ACLs.
        """
        deadline = self._deadline(timeout_ms)
        deletions: list[AclDeletion] = []
        for some in _portions(filters):
            left_ms = self._left_ms(deadline)
            request = wire.DeleteAclsRequest(some, validate_only, left_ms)
            response = await self._on_controller(request, left_ms)
            deletions += [
                AclDeletion(
                    wanted, item_error(item.error_code, item.error_message), tuple(item.entries)
                )
                for wanted, item in zip(some, response.results, strict=True)
            ]
        return Results(deletions)

    async def describe_acls(
        self, wanted: AclBindingFilter | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[AclBinding]:
        """Return the ACLs that a filter chooses (default: all), those of one pattern together.

        :raises SecurityDisabledError: the cluster keeps no ACLs.
        :raises InvalidRequestError: nothing could match the filter; the text says why.
        """
        request = wire.DescribeAclsRequest(wanted or AclBindingFilter())
        response = await self._on_controller(request, timeout_ms)
        found: list[AclBinding] = response.entries
        return found


def _portions(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield items in lists of what one request takes; there is no list without any."""
    every: Sequence[T] = list(items)
    for first in range(0, len(every), limits.ACLS_OF_REQUEST_MAX):
        yield list(every[first : first + limits.ACLS_OF_REQUEST_MAX])
