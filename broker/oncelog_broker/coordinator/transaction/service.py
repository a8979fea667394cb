"""Handlers call the transaction coordinator through this: requests in, answers by callback.

It finds the shard through the engine, and turns what goes wrong into answers of the API. Nothing
here waits; callbacks come at once or later, each exactly once. Whether the principal may, and
whether topics exist, is for the handlers. Put together like this::

    ids = ProducerIdRequests(producer_ids, tasks)
    make_shard = partial(TransactionShard, config=config, clock=clock, markers=markers,
                         producer_ids=ids, safeguards=safeguards)
    engine = CoordinatorEngine(name="transactions", topic=TRANSACTION_TOPIC, make_shard=make_shard,
                               ...)
    transactions = TransactionCoordinator(engine, config)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.result import Result
from oncelog_broker.coordinator.transaction.config import TransactionConfig
from oncelog_broker.coordinator.transaction.shard import PendingRequest, TransactionShard
from oncelog_protocol.errors import (
    NO_ERROR,
    ApiError,
    CoordinatorLoadInProgressError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    TransactionAlreadyCommittedError,
    error_for,
)
from oncelog_protocol.messages.shared_transactions import (
    ORDINAL_KEY,
    BeginSharedTxnRequest,
    BeginSharedTxnResponse,
    EndSharedTxnRequest,
    EndSharedTxnResponse,
    JoinTxnRequest,
    JoinTxnResponse,
)
from oncelog_protocol.messages.transaction_admin import (
    DescribedTransaction,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from oncelog_protocol.messages.transactions import (
    AddedTransaction,
    AddPartitionsResult,
    EndTxnRequest,
    EndTxnResponse,
    InitPidRequest,
    InitPidResponse,
)

R = TypeVar("R")

Described = list[DescribedTransaction]
"""The type is named here because inside of the class ``list`` is its method."""


class TransactionCoordinator:
    """It answers requests for all transactional ids that this broker coordinates."""

    def __init__(
        self, engine: CoordinatorEngine[TransactionShard], config: TransactionConfig
    ) -> None:
        self._engine = engine
        self._config = config

    # ---- ordinary transactions

    def init_pid(self, request: InitPidRequest, respond: Callable[[InitPidResponse], None]) -> None:
        """Carry out InitPid with a transactional id."""

        def check() -> None:
            self._check_timeout(request.transaction_timeout_ms)
            if (request.producer_id < 0) != (request.producer_epoch < 0):
                raise InvalidRequestError("a producer names its id and its epoch, or neither")

        def init(shard: TransactionShard, fresh: int | None) -> Result[InitPidResponse]:
            return shard.init(request, fresh)

        self._carry_out(
            request.transactional_id or "", init, respond, _refusing(InitPidResponse), check
        )

    def add_partitions(
        self,
        added: AddedTransaction,
        respond: Callable[[AddPartitionsResult], None],
        *,
        by_number: bool = False,
    ) -> None:
        """Carry out one transaction of AddPartitionsToTxn, or AddOffsetsToTxn by the partition of
        its group. ``by_number``: for a client whose transactions end by number."""

        def refused(error: ApiError) -> AddPartitionsResult:
            return AddPartitionsResult(added.transactional_id, error.code, str(error))

        def check() -> None:
            if not any(topic.partitions for topic in added.topics):
                raise InvalidRequestError("no partition is named")

        self._carry_out(
            added.transactional_id,
            lambda shard, _: shard.add(added, by_number=by_number),
            respond,
            refused,
            check,
        )

    def end_txn(
        self,
        request: EndTxnRequest,
        respond: Callable[[EndTxnResponse], None],
        *,
        by_number: bool = False,
    ) -> None:
        """Carry out EndTxn of an ordinary transactional id. ``by_number``: for a client whose
        transactions end by number."""
        self._carry_out(
            request.transactional_id,
            lambda shard, fresh: shard.end(request, fresh, by_number=by_number),
            respond,
            _refusing(EndTxnResponse),
        )

    # ---- shared transactions

    def begin_shared(
        self, request: BeginSharedTxnRequest, respond: Callable[[BeginSharedTxnResponse], None]
    ) -> None:
        """Carry out BeginSharedTxn: the answer has a new ordinal."""
        refused = _refusing(BeginSharedTxnResponse)
        self._ask(ORDINAL_KEY, lambda shard, _: shard.begin_shared(), respond, refused)

    def join(self, request: JoinTxnRequest, respond: Callable[[JoinTxnResponse], None]) -> None:
        """Carry out JoinTxn; a tag that is committed already is refused with the last committed
        one."""

        def refused(error: ApiError) -> JoinTxnResponse:
            response = JoinTxnResponse(error.code, str(error))
            if error.code == TransactionAlreadyCommittedError.code:
                response.last_committed_tag = committed_tag[0]
            return response

        committed_tag = [-1]

        def join(shard: TransactionShard, fresh: int | None) -> Result[JoinTxnResponse]:
            committed_tag[0] = shard.last_committed_tag(request.transactional_id)
            return shard.join(request, fresh)

        def check() -> None:
            _check_shared(request.ordinal, request.tag)
            if not request.writer:
                raise InvalidRequestError("a writer has a name")
            self._check_timeout(request.transaction_timeout_ms)

        self._carry_out(request.transactional_id, join, respond, refused, check)

    def end_shared(
        self, request: EndSharedTxnRequest, respond: Callable[[EndSharedTxnResponse], None]
    ) -> None:
        """Carry out EndSharedTxn, of an ordinal and its tag."""
        self._carry_out(
            request.transactional_id,
            lambda shard, _: shard.end_shared(request),
            respond,
            _refusing(EndSharedTxnResponse),
            lambda: _check_shared(request.ordinal, request.tag),
        )

    # ---- looking at them

    def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """Return the ids of the shards that are loaded, in order of id."""
        transactions: list[ListedTransaction] = []
        for some in self._engine.all_shards(lambda shard: shard.list(request)):
            transactions += some
        transactions.sort(key=lambda transaction: transaction.transactional_id)
        code = CoordinatorLoadInProgressError.code if self._engine.loading else NO_ERROR
        return ListTransactionsResponse(code, transactions)

    def describe(
        self,
        transactional_ids: Sequence[str],
        respond: Callable[[Described], None],
    ) -> None:
        """Respond with one answer an id, in order; errors are reported per id."""
        answers: dict[int, DescribedTransaction] = {}
        count = len(transactional_ids)
        if not count:
            return respond([])

        def ask(index: int, transactional_id: str) -> None:
            def told(described: DescribedTransaction | None, code: int) -> None:
                answers[index] = described or DescribedTransaction(code, transactional_id)
                if len(answers) == count:
                    respond([answers[at] for at in range(count)])

            self._engine.read(
                transactional_id, lambda shard: shard.describe(transactional_id), told
            )

        for index, transactional_id in enumerate(transactional_ids):
            ask(index, transactional_id)

    def _carry_out(
        self,
        transactional_id: str,
        operation: Callable[[TransactionShard, int | None], Result[R]],
        respond: Callable[[R], None],
        refused: Callable[[ApiError], R],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask the shard of the id, once the id and the request have passed their checks."""
        try:
            _check_id(transactional_id)
            check()
        except ApiError as error:
            return respond(refused(error))
        self._ask(transactional_id, operation, respond, refused)

    def _ask(
        self,
        key: str,
        operation: Callable[[TransactionShard, int | None], Result[R]],
        respond: Callable[[R], None],
        refused: Callable[[ApiError], R],
    ) -> None:
        request = PendingRequest(key, operation, refused)

        def reply(response: R | None, code: int) -> None:
            respond(refused(error_for(code)) if response is None else response)

        self._engine.write(key, lambda shard: shard.carry_out(request), reply)

    def _check_timeout(self, timeout_ms: int) -> None:
        longest = self._config.transaction_max_timeout_ms
        if not 0 < timeout_ms <= longest:
            raise InvalidTransactionTimeoutError(f"{timeout_ms} ms are not within 1 and {longest}")


def _refusing(response: Callable[[int, str], R]) -> Callable[[ApiError], R]:
    """Return what makes such a response of an error."""
    return lambda error: response(error.code, str(error))


def _check_id(transactional_id: str) -> None:
    if not transactional_id or transactional_id == ORDINAL_KEY:
        raise InvalidRequestError(f"{transactional_id!r} cannot be a transactional id")


def _check_shared(ordinal: int, tag: int) -> None:
    if ordinal < 1 or tag < 0:
        raise InvalidRequestError(f"ordinal {ordinal} and tag {tag}: at least 1, and 0")
