"""Some answers say no: they are what a broker would send for a request that it refuses.
Pure but for types.

Errors stand where the API has them: at the partitions of Produce, Fetch and ListOffsets, at the
topics of Metadata and of the admin requests, at the head of everything else. Clients take the two
kinds on different ways, so an error in the wrong place would test nothing.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any, get_args, get_type_hints

from oncelog_broker.server.request_dispatcher import refusal
from oncelog_protocol.errors import ERRORS, ApiError
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.metadata import MetadataResponse

__all__ = ["api_key", "error_class", "refuse", "refuse_topics", "topics_of"]

AT_PARTITIONS = frozenset(
    {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH}
)
AT_TOPICS = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})

ErrorLike = ApiError | type[ApiError] | str | int


def api_key(api: ApiKey | str) -> ApiKey:
    """Return the API key for ``"produce"`` or ``ApiKey.PRODUCE``.

    :raises ValueError: no API has that name.
    """
    if isinstance(api, ApiKey):
        return api
    name = api.upper().replace("-", "_").replace(" ", "_")
    try:
        return ApiKey[name]
    except KeyError:
        known = sorted(key.name.lower() for key in ApiKey)
        close = difflib.get_close_matches(api.lower(), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(known)}"
        raise ValueError(f"{api!r} is not an API; {hint}") from None


def error_class(error: ErrorLike) -> type[ApiError]:
    """Return an error of the protocol by its class, an instance, its code, or its name with or
    without capitals: ``"NOT_LEADER_OR_FOLLOWER"``.

    :raises ValueError: there is no such error.
    """
    if isinstance(error, type) and issubclass(error, ApiError):
        return error
    if isinstance(error, ApiError):
        return type(error)
    if isinstance(error, int) and error in ERRORS:
        return ERRORS[error]
    by_name = {cls.name: cls for cls in ERRORS.values()}
    if isinstance(error, str) and error.upper() in by_name:
        return by_name[error.upper()]
    close = difflib.get_close_matches(str(error).upper(), sorted(by_name), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{error!r} is not an error that a broker answers with{hint}")


def topics_of(request: Request) -> set[str]:
    """Return the names of the topics that a request is about; it is empty when the request names
    none."""
    found: set[str] = set()
    for item in getattr(request, "topics", None) or ():
        found.add(item if isinstance(item, str) else item.topic)
    for item in getattr(request, "transactions", None) or ():
        found.update(topic.topic for topic in getattr(item, "topics", ()))
    return found


def refuse(request: Request, error: type[ApiError]) -> Any:
    """Return the response that refuses all that ``request`` asks for; None where no response is
    sent."""
    if getattr(request, "acks", None) == 0:
        return None
    key = request.api_key
    if key not in AT_PARTITIONS and key not in AT_TOPICS:
        return refusal(request, error.code)
    response = type(request).response()
    topic_class = _element(type(response), "topics")
    for asked in getattr(request, "topics", ()):
        name = asked if isinstance(asked, str) else asked.topic
        if key in AT_TOPICS:
            response.topics.append(topic_class(name, error_code=error.code))
            continue
        answer = topic_class(name)
        partition_class = _element(topic_class, "partitions")
        for item in asked.partitions:
            answer.partitions.append(partition_class(item.partition, error_code=error.code))
        response.topics.append(answer)
    return response


def refuse_topics(
    response: MetadataResponse, error: type[ApiError], topic: str | None
) -> MetadataResponse:
    """Return the answer with the error at one topic, or at all of them; brokers stay as they are. A
    new one: a broker keeps answers for the next who asks."""
    return replace(
        response,
        topics=[
            replace(answer, error_code=error.code, partitions=[])
            if topic is None or answer.topic == topic
            else answer
            for answer in response.topics
        ],
    )


def _element(cls: Any, name: str) -> Any:
    """Return the class of the items of a list field."""
    hint = get_type_hints(cls)[name]
    (item,) = get_args(hint)
    return item
