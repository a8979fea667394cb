"""DescribeGroups, v0, tells members of groups, and with ``include_offsets`` offsets and lag.

It needs DESCRIBE on each group (GROUP_AUTHORIZATION_FAILED stands with it); offsets of topics that
the principal may not describe are left out. The leader of a partition is asked where it ends; lag
lies between, is never below 0, and -1 where the leader could not be asked. Further errors: those in
``messages.groups``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from oncelog_broker.coordinator.group.service import GroupCoordinator
from oncelog_broker.server.authorizer import DESCRIBE, GROUP, TOPIC, Authorizer
from oncelog_broker.server.request import RequestContext
from oncelog_protocol.errors import GroupAuthorizationFailedError
from oncelog_protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from oncelog_protocol.types import TopicPartition


class EndOffsetsPort(Protocol):
    """The handler needs this of ``EndOffsets``."""

    async def fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int] | None]:
        """Return for each (log start, last stable offset), None where that is not known now."""
        ...


class DescribeGroupsHandler:
    """It serves DescribeGroups."""

    def __init__(
        self, groups: GroupCoordinator, authorizer: Authorizer, end_offsets: EndOffsetsPort
    ) -> None:
        self._groups = groups
        self._authorizer = authorizer
        self._end_offsets = end_offsets

    async def handle_async(
        self, context: RequestContext, request: DescribeGroupsRequest
    ) -> DescribeGroupsResponse:
        """Return one answer a group, in order."""
        allowed = [
            self._authorizer.authorize(context, DESCRIBE, GROUP, group) for group in request.groups
        ]
        asked = [group for group, may in zip(request.groups, allowed, strict=True) if may]
        described = await self._describe(asked, request.include_offsets)
        for group in described:
            group.offsets = [
                offset
                for offset in group.offsets
                if self._authorizer.decision(context, DESCRIBE, TOPIC, offset.topic).allowed
            ]
        await self._add_lag(described)
        given = iter(described)
        code = GroupAuthorizationFailedError.code
        return DescribeGroupsResponse(
            groups=[
                next(given) if may else DescribedGroup(group, code)
                for group, may in zip(request.groups, allowed, strict=True)
            ]
        )

    async def _describe(self, groups: list[str], include_offsets: bool) -> list[DescribedGroup]:
        answered: asyncio.Future[list[DescribedGroup]] = asyncio.get_running_loop().create_future()

        def answer(described: list[DescribedGroup]) -> None:
            if not answered.done():
                answered.set_result(described)

        self._groups.describe(groups, include_offsets, answer)
        return await answered

    async def _add_lag(self, described: list[DescribedGroup]) -> None:
        offsets = [offset for group in described for offset in group.offsets]
        if not offsets:
            return
        partitions = dict.fromkeys(TopicPartition(o.topic, o.partition) for o in offsets)
        ends = await self._end_offsets.fetch(partitions)
        for offset in offsets:
            end = ends.get(TopicPartition(offset.topic, offset.partition))
            if end is not None:
                offset.log_start_offset, offset.end_offset = end
                offset.lag = max(offset.end_offset - offset.offset, 0)
