"""ISR changes on their way to the controller: AlterPartition, one request at a time with everything that waits for one.

Whatever keeps a proposal from being judged (no controller, a connection that ends, an answer that says nothing about it) has
it sent again, as long as the leadership that made it goes on. What the answers mean is in ``leadership``.

Who is told that its leadership is over waits for the order that says so, but asks again now and then: a controller that was
replaced and has not noticed says so too, or that it is not the one to ask, of an epoch it has not heard of, and its successor has
no new order for such a leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.metadata.ids import ZERO_ID, BrokerId, TopicPartition
from ottla.peers import Dial, Peer, PeerLostError
from ottla.replica.leadership import Proposal
from ottla.replica.partition import Partition
from ottla.wire import ErrorCode
from ottla.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)

log = logging.getLogger(__name__)

VERSION: Final = 3
PATIENCE_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.05
LAST_PAUSE_S: Final = 1.0
REFUSED_S: Final = 0.5
"""Who was refused may be proposed again, but not with every fetch."""

_REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
_SUPERSEDED = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NOT_CONTROLLER,
)

Address = tuple[str, int]


class _Asked(NamedTuple):
    partition: Partition
    proposal: Proposal

    @property
    def is_current(self) -> bool:
        leadership, proposal = self.partition.leadership, self.proposal
        return (
            leadership is not None
            and leadership.is_asking
            and (leadership.epoch, leadership.partition_epoch) == (proposal.leader_epoch, proposal.partition_epoch)
        )


class IsrProposals:
    """See the module. ``controller`` says where the controller listens, ``epoch`` which life of the broker this is."""

    def __init__(
        self,
        broker_id: BrokerId,
        controller: Callable[[], Address | None],
        epoch: Callable[[], int],
        *,
        dial: Dial = Peer,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._broker_id = broker_id
        self._patience_s = patience_s
        self._dial = dial
        self._controller = controller
        self._epoch = epoch
        self.shrinks = 0
        self.expands = 0
        """How often an ISR became smaller and larger."""
        self._waiting: dict[TopicPartition, _Asked] = {}
        self._news = asyncio.Event()
        self._peer: Peer | None = None

    @property
    def broker_epoch(self) -> int:
        return self._epoch()

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        self._waiting[partition.where] = _Asked(partition, proposal)
        self._news.set()

    async def run(self) -> None:
        pause_s = FIRST_PAUSE_S
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while asked := {where: each for where, each in self._waiting.items() if each.is_current}:
                    self._waiting = {}
                    if await self._ask(asked):
                        pause_s = FIRST_PAUSE_S
                        continue
                    self._waiting = asked | self._waiting
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, LAST_PAUSE_S)
        finally:
            self._hang_up()

    async def _ask(self, asked: dict[TopicPartition, _Asked]) -> bool:
        """False if all of it has to be asked again."""
        address = self._controller()
        if address is None:
            return False
        if self._peer is None or (self._peer.host, self._peer.port) != address:
            self._hang_up()
            self._peer = self._dial(*address, client_id=str(self._broker_id))
        try:
            response = await self._peer.call(
                self._request(asked), VERSION, AlterPartitionResponse, timeout_s=self._patience_s
            )
        except (PeerLostError, TimeoutError) as error:
            log.info("no answer of the controller: %s", str(error) or "not in time")
            return False
        if response.error_code:
            log.info("the controller refuses to change an ISR: %s", ErrorCode(response.error_code).name)
            return False
        by_id: dict[tuple[bytes, int], _Asked] = {
            (each.partition.topic_id or ZERO_ID, where.partition): each for where, each in asked.items()
        }
        for topic in response.topics:
            for data in topic.partitions:
                each = by_id.pop((topic.topic_id, data.partition_index), None)
                if each is not None:
                    self._answered(each, data)
        for each in by_id.values():
            self.propose(*each)  # nothing was said about it
        return True

    def _answered(self, asked: _Asked, data: ResponsePartitionData) -> None:
        partition, epoch = asked.partition, asked.proposal.leader_epoch
        if not data.error_code:
            isr = tuple(map(BrokerId, data.isr))
            log.info("%s: in sync are %s", partition.where, ", ".join(map(str, isr)))
            if data.leader_epoch == epoch:
                self.shrinks += len(isr) < len(partition.isr)
                self.expands += len(isr) > len(partition.isr)
                partition.isr_confirmed(epoch, isr, partition_epoch=data.partition_epoch)
            return
        code = ErrorCode(data.error_code)
        log.info("%s: the ISR stays as it is: %s", partition.where, code.name)
        if code in _REFUSED:
            partition.isr_refused(epoch)
            asyncio.get_running_loop().call_later(REFUSED_S, partition.isr_open_again, epoch)
        elif code in _SUPERSEDED:
            asyncio.get_running_loop().call_later(REFUSED_S, self._propose_again, asked)
        else:
            self.propose(*asked)

    def _propose_again(self, asked: _Asked) -> None:
        if asked.is_current:
            self._waiting.setdefault(asked.partition.where, asked)
            self._news.set()

    def _request(self, asked: dict[TopicPartition, _Asked]) -> AlterPartitionRequest:
        topics: dict[bytes, RequestTopicData] = {}
        for where, (partition, proposal) in asked.items():
            topic_id = partition.topic_id or ZERO_ID
            topic = topics.setdefault(topic_id, RequestTopicData(topic_id=topic_id))
            members = [BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.isr]
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=where.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self.broker_epoch, topics=list(topics.values())
        )

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
