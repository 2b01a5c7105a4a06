"""The controller as a running thing: events from the registry, answers and requests of brokers, taken one at a time.

    elected → read the image → tell everybody everything, mend what is broken → act on what comes

Everything it writes is guarded by its epoch. A write that fails that guard means that another controller rules: it drops
what it knows and waits for the next election. A write of which nobody knows whether it was done, or that the registry
refuses, means that it has lost track: it drops what it knows and reads it again. A state that was changed under its hands is read again and decided again.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Lock
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import Error
from ottla.base.scope import TaskScope
from ottla.controller.acts import brokers, isrs, leaders, moves, topics
from ottla.controller.logends import log_ends
from ottla.controller.lookout import Lookout, is_refused
from ottla.controller.machine.answers import Answered, deleted, obeyed, refused, storage_errors
from ottla.controller.machine.elections import LogEnd, undecided
from ottla.controller.machine.isr import Wish
from ottla.controller.machine.orders import Sender
from ottla.controller.machine.reassignment import Refusal, under_way
from ottla.controller.machine.situation import Situation
from ottla.controller.streams import Connect, Streams, over_sockets
from ottla.controller.term import ControllerConfig, Term
from ottla.metadata.errors import ZnodeError
from ottla.metadata.ids import BrokerId, TopicPartition
from ottla.metadata.image import ControllerEpoch, Image, LiveBroker, Topic
from ottla.metadata.znodes import paths
from ottla.metadata.znodes.brokers import decode_broker
from ottla.metadata.znodes.cluster import FinalizedFeatures, ProducerIdBlock
from ottla.metadata.znodes.topics import ReplicaAssignment
from ottla.registry import BadVersionError, ControllerMovedError, Registry, RegistryError
from ottla.registry import controllers as registered
from ottla.registry.errors import ConnectionLossError, StoreClosedError
from ottla.registry.store import ChildrenChanged, DataChanged, Event, Znode
from ottla.wire import ErrorCode

log = logging.getLogger(__name__)

FIRST_REBALANCE_S: Final = 5.0
COMPARE_AGAIN_S: Final = 0.1
READ_AGAIN_S: Final = 0.05
MENDED_S: Final = 1.0
"""How often to look whether somebody has mended what could not be read."""

T = TypeVar("T")
Deed = Callable[[Term], Awaitable[T]]


class NotControllerError(Error):
    """Another broker is the controller, or none is."""


class Controller:
    def __init__(
        self,
        registry: Registry,
        config: ControllerConfig,
        clock: Clock,
        scope: TaskScope,
        *,
        connect: Connect | None = None,
        inquire: Connect | None = None,
    ) -> None:
        self._registry = registry
        self._config = config
        self._clock = clock
        self._scope = scope
        self._acting = Lock()
        self._connect = connect or over_sockets(config.broker_id, config.listener)
        self._inquire = inquire or over_sockets(config.broker_id, config.listener)
        self.epoch: ControllerEpoch | None = None
        self._term: Term | None = None
        self._unclean_elections = 0
        self._waiting: list[Callable[[], None]] = []
        self._comparing: Term | None = None
        """The term whose logs are being compared after a crash."""
        self._lookout = Lookout(scope, self._gone)
        self._ruler: registered.Controller | None = None
        """The controller that this broker watches, as one that would like to be its successor."""
        self._given_up: dict[BrokerId, int] = {}
        """Brokers that are plainly gone, each with its epoch, and may still be registered."""

    @property
    def unclean_elections(self) -> int:
        """Of all its terms."""
        return self._unclean_elections + (0 if self._term is None else self._term.unclean_elections)

    @property
    def is_active(self) -> bool:
        """Elected, though it may still be settling in; whoever asks for something is answered behind that."""
        return self.epoch is not None

    @property
    def image(self) -> Image | None:
        """What this controller knows, as clients may see it; None while it does not know yet."""
        return None if self._term is None else self._term.situation.visible()

    @property
    def deleting(self) -> frozenset[str]:
        """Topics that are about to be gone: nobody is served any more, and something of them is still registered."""
        if self._term is None:
            return frozenset()
        term = self._term
        return frozenset(name for name, each in term.deletions.items() if not each.is_held_up(term.situation))

    async def start(self) -> None:
        """Watch everything that concerns a controller, and try to be it."""
        self._registry.controllers.watch()
        self._registry.brokers.watch()
        self._registry.topics.watch()
        self._registry.configs.watch()
        self._registry.orders.watch()
        async with self._acting:
            await self._elect()

    async def session_renewed(self) -> None:
        """The session that may have held the office is over."""
        async with self._acting:
            self._resign()
            await self._elect()

    async def on_event(self, event: Event) -> None:
        if isinstance(event, DataChanged) and event.path == paths.CONTROLLER:
            async with self._acting:
                # What is told may be from before the election that made this one the controller: look, do not believe.
                if not (self.is_active and await self._registry.controllers.is_here()):
                    self._resign()
                    await self._elect()
        elif self.is_active:
            await self._try(lambda term: self._heard(term, event))

    # What brokers and clients ask of the controller. All raise NotControllerError where there is none.

    async def topics_changed(self) -> None:
        """Somebody here wrote a topic and wants it brought up without waiting for the watch."""
        await self._try(topics.bring_up)

    async def partitions_added(self, topic: Topic) -> None:
        """Write a topic that was given more partitions, and bring those up. BadVersionError if it changed meanwhile."""
        if not await self._act(lambda term: topics.grow(term, topic)):
            raise BadVersionError(f"{topic.name} was changed by somebody else")

    async def deletion_asked(self, name: str) -> None:
        """Somebody here asked for a topic to be deleted, and does not want to wait for the watch."""
        await self._try(lambda term: topics.delete(term, (name,)))

    async def alter_partitions(
        self, broker_id: BrokerId, broker_epoch: int, wishes: Callable[[Image], Mapping[TopicPartition, Wish]]
    ) -> isrs.Verdicts | ErrorCode:
        """What becomes of a leader's wishes for other ISRs; ``wishes`` finds the topics by their ids."""

        async def deed(term: Term) -> isrs.Verdicts | ErrorCode:
            if term.image.broker_epoch(broker_id) != broker_epoch:
                return ErrorCode.STALE_BROKER_EPOCH
            return await isrs.alter(term, wishes(term.image))

        return await self._act(deed)

    async def shut_down(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition] | ErrorCode:
        """A broker is about to stop: what it leads on, since nobody else can."""

        async def deed(term: Term) -> list[TopicPartition] | ErrorCode:
            known = term.image.broker_epoch(broker_id)
            if known is None:
                return ErrorCode.BROKER_NOT_AVAILABLE
            if 0 <= broker_epoch < known:
                return ErrorCode.STALE_BROKER_EPOCH
            return await leaders.leave(term, broker_id)

        return await self._act(deed)

    async def elect(self, partitions: list[TopicPartition] | None, *, unclean: bool) -> leaders.Outcomes:
        choose = leaders.elect_unclean if unclean else leaders.elect_preferred
        return await self._act(lambda term: choose(term, partitions))

    async def reassign(self, wanted: moves.Moves) -> dict[TopicPartition, Refusal | None]:
        return await self._act(lambda term: moves.reassign(term, wanted))

    async def reassignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        """The moves that are under way."""

        async def deed(term: Term) -> dict[TopicPartition, ReplicaAssignment]:
            found = ((where, term.image.assignment(where)) for where in under_way(term.situation))
            return {where: assignment for where, assignment in found if assignment is not None}

        return await self._act(deed)

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock | ErrorCode:
        async def deed(term: Term) -> ProducerIdBlock | ErrorCode:
            known = term.image.broker_epoch(broker_id)
            if known is None:
                return ErrorCode.BROKER_ID_NOT_REGISTERED
            if known != broker_epoch:
                return ErrorCode.STALE_BROKER_EPOCH
            return await term.registry.cluster.allocate_producer_ids(broker_id)

        return await self._act(deed)

    # One deed at a time, since each takes several writes.

    async def _act(self, deed: Deed[T]) -> T:
        async with self._acting:
            if self._term is None:
                raise NotControllerError("this broker is not the controller")
            try:
                return await deed(self._term)
            except ControllerMovedError as error:
                log.info("another broker is the controller now")
                self._resign()
                raise NotControllerError("another broker is the controller now") from error
            except StoreClosedError:
                raise  # there is nothing more to do
            except RegistryError:
                await self._begin_again()
                raise
            finally:
                waiting, self._waiting = self._waiting, []
                for wake in waiting:
                    wake()

    def when_acted(self, wake: Callable[[], None]) -> None:
        """Call once, after the next deed."""
        self._waiting.append(wake)

    async def _try(self, deed: Deed[None]) -> None:
        """A deed that nobody waits for, or that comes again by itself."""
        try:
            await self._act(deed)
        except NotControllerError:
            return
        except StoreClosedError:
            raise
        except RegistryError as error:
            log.warning("lost track of the registry (%s), and read it again", error)
        except ZnodeError as error:
            log.error("nothing is done about what cannot be read: %s", error)  # noqa: TRY400

    async def _elect(self) -> None:
        epoch = await self._registry.controllers.elect(self._config.broker_id, timestamp_ms=self._clock.wall_ms())
        if epoch is None:
            await self._watch_ruler()
            return
        self.epoch = epoch
        log.info("broker %d is the controller, epoch %d", self._config.broker_id, epoch.epoch)
        await self._registry.cluster.make_features(FinalizedFeatures({}))
        await self._begin(epoch)

    async def _begin_again(self) -> None:
        assert self._term is not None
        await self._begin(self._term.epoch)

    async def _begin(self, epoch: ControllerEpoch) -> None:
        while True:
            self._end_term()
            try:
                await self._settle_in(epoch)
            except ControllerMovedError:
                self._resign()
                return
            except StoreClosedError:
                raise
            except RegistryError as error:
                log.info("the registry changed while it was read, or was lost (%s); reading it again", error)
                await asyncio.sleep(READ_AGAIN_S)
                continue
            except ZnodeError as error:
                # Whoever took the office instead would find the same. Until somebody mends it, all goes on as it was.
                log.error("the cluster cannot be ruled while this cannot be read: %s", error)  # noqa: TRY400
                await asyncio.sleep(MENDED_S)
                continue
            break
        assert self._term is not None
        if self._config.auto_rebalance:
            self._scope.spawn(self._keep_balanced(self._term), name="keeping leaders in balance")

    async def _settle_in(self, epoch: ControllerEpoch) -> None:
        while self._given_up:  # one more may be found to be gone meanwhile
            broker_id, broker_epoch = next(iter(self._given_up.items()))
            await self._registry.brokers.expel(broker_id, epoch=broker_epoch, controller=epoch)
            if self._given_up.get(broker_id) == broker_epoch:
                del self._given_up[broker_id]
        image = await self._registry.read_image()
        if await self._clear_away(image, epoch):
            image = await self._registry.read_image()
        sender = Sender(self._config.broker_id, epoch.epoch, self._config.listener)
        streams = Streams(self._scope, sender, self._connect, self._answered)
        self._unclean_elections = self.unclean_elections
        self._term = term = Term(self._registry, self._config, epoch, image, streams)
        self._watch_brokers(term)
        deletions = sorted(image.deletions)
        for name in deletions:
            if name in image.topics and self._config.may_delete:
                term.begin_deletion(name)
        topics.watch(term, image.topics)
        await topics.give_ids(term)
        await brokers.begin(term)
        await topics.delete(term, deletions)
        await self._carry_out_orders(term)
        self._compare_logs(term)

    async def _clear_away(self, image: Image, epoch: ControllerEpoch) -> bool:
        """Where some have crashed, others may have, and still be registered: nobody is to lose his place to the dead.

        So may the controller before this one: whoever found that out and deposed it was perhaps somebody else.
        """
        marked = {broker: live for broker, live in image.brokers.items() if live.registration.mark is not None}
        suspects = set(marked)
        if not any(Situation(image=image).has_crashed(broker) for broker in marked):
            suspects = set() if self._ruler is None else {self._ruler.registration.broker_id}
        others = [
            live
            for broker, live in marked.items()
            if broker in suspects and broker != self._config.broker_id and live.registration.endpoints
        ]
        verdicts = await asyncio.gather(*(is_refused(live.registration.endpoints) for live in others))
        for live, is_gone in zip(others, verdicts, strict=True):
            if is_gone:
                broker_id = live.registration.broker_id
                await self._registry.brokers.expel(broker_id, epoch=live.epoch, controller=epoch)
        return any(verdicts)

    def _resign(self) -> None:
        self._end_term()
        self.epoch = None

    def _end_term(self) -> None:
        if self._term is not None:
            self._term.streams.stop()
            self._unclean_elections = self.unclean_elections
            self._term = None

    # Who is there.

    async def _brokers_changed(self, term: Term) -> None:
        await brokers.changed(term, await self._registry.brokers.read_all())
        self._watch_brokers(term)
        self._compare_logs(term)

    async def _registration_changed(self, term: Term, broker_id: BrokerId, znode: Znode) -> None:
        """A broker that lives on may listen elsewhere now. Of one that came or went, its parent tells."""
        known = term.image.brokers.get(broker_id)
        if known is None or known.epoch != znode.stat.czxid:
            return
        if known.registration != decode_broker(broker_id, znode.data):
            await self._brokers_changed(term)

    def _compare_logs(self, term: Term) -> None:
        if undecided(term.situation) and self._comparing is not term:
            self._comparing = term
            self._scope.spawn(self._find_longest(term), name="comparing logs after a crash")

    async def _find_longest(self, term: Term) -> None:
        """Replicas are asked outside of all deeds, since they may take their time; what they say is judged inside."""
        while self._term is term and (wanted := undecided(term.situation)):
            for where in wanted:
                asked = term.image
                ends = await log_ends(self._inquire, asked, where)
                if ends is not None and self._term is term:
                    await self._try(partial(_elect_longest, where=where, ends=ends, asked=asked))
            await asyncio.sleep(COMPARE_AGAIN_S)
        if self._comparing is term:
            self._comparing = None

    def _watch_brokers(self, term: Term) -> None:
        """A controller watches everybody else."""
        self._ruler = None
        live = term.image.brokers
        for broker in live:
            self._registry.brokers.watch_registration(broker)
        self._lookout.follow({broker: live[broker] for broker in live if broker != self._config.broker_id})

    async def _watch_ruler(self) -> None:
        """Any other broker watches the controller."""
        self._ruler = await self._registry.controllers.current()
        ruler = None if self._ruler is None else self._ruler.registration.broker_id
        self._lookout.follow({} if ruler is None else await self._registry.brokers.read([ruler]))

    def _gone(self, live: LiveBroker) -> None:
        self._given_up[live.registration.broker_id] = live.epoch
        self._scope.spawn(self._succeed(live), name=f"after broker {live.registration.broker_id}")

    async def _succeed(self, live: LiveBroker) -> None:
        """A broker is plainly gone: its registration goes, or its office if it was the controller."""
        if self.is_active:
            await self._try(lambda term: self._expel(term, live))
            return
        ruler = self._ruler
        if ruler is None or ruler.registration.broker_id != live.registration.broker_id:
            return
        epoch = await self._registry.controllers.epoch()
        while epoch is not None and self._ruler == ruler:  # meanwhile there may be another one, who lives
            try:
                await self._registry.controllers.depose(ruler, epoch)
            except ConnectionLossError:
                await asyncio.sleep(READ_AGAIN_S)  # whether it was done shows the next attempt
            except RegistryError:
                return  # somebody else was faster
            else:
                return

    async def _expel(self, term: Term, live: LiveBroker) -> None:
        broker_id = live.registration.broker_id
        if await self._registry.brokers.expel(broker_id, epoch=live.epoch, controller=term.epoch):
            await self._brokers_changed(term)

    # What happens.

    async def _heard(self, term: Term, event: Event) -> None:
        match event:
            case ChildrenChanged(paths.BROKER_IDS):
                await self._brokers_changed(term)
            case DataChanged(path, znode) if znode is not None and path.startswith(f"{paths.BROKER_IDS}/"):
                await self._registration_changed(term, BrokerId(int(path.removeprefix(f"{paths.BROKER_IDS}/"))), znode)
            case ChildrenChanged(paths.TOPICS):
                await topics.bring_up(term)
            case ChildrenChanged(paths.DELETE_TOPICS, children):
                await topics.delete(term, children or ())
            case ChildrenChanged(paths.CONFIG_CHANGES):
                term.image = replace(term.image, configs=await self._registry.configs.read_all())
                await brokers.mend(term)  # unclean elections may be allowed now
                term.tell()
            case ChildrenChanged(paths.ISR_CHANGES):
                await isrs.take_news(term)
            case ChildrenChanged(paths.LOG_DIR_EVENTS):
                await brokers.take_disk_news(term)
            case DataChanged(path, znode) if znode is not None and path.startswith(f"{paths.TOPICS}/"):
                await topics.look_at(term, path.removeprefix(f"{paths.TOPICS}/"))
            case DataChanged(paths.REASSIGN_PARTITIONS | paths.PREFERRED_REPLICA_ELECTION, znode) if znode is not None:
                await self._carry_out_orders(term)

    async def _carry_out_orders(self, term: Term) -> None:
        """What tools of old left in the registry."""
        for carry_out in (self._reassign_as_written, self._elect_as_written):
            try:
                await carry_out(term)
            except ZnodeError as error:
                log.error("an order is not carried out, since it cannot be read: %s", error)  # noqa: TRY400

    async def _reassign_as_written(self, term: Term) -> None:
        orders = self._registry.orders
        if (wanted := await orders.reassignment()) is not None:
            for where, refusal in (await moves.reassign(term, wanted)).items():
                if refusal is not None:
                    log.warning("%s is not moved: %s", where, refusal)
            await orders.finish_reassignment(term.epoch)

    async def _elect_as_written(self, term: Term) -> None:
        orders = self._registry.orders
        if (partitions := await orders.preferred_election()) is not None:
            await leaders.elect_preferred(term, partitions)
            await orders.finish_preferred_election(term.epoch)

    def _answered(self, answer: Answered) -> None:
        if (refusal := refused(answer)) is not None:
            log.warning("broker %d refuses its orders: %s", answer.broker_id, refusal.name)
        lost = frozenset() if self._term is None else self._term.situation.failed.get(answer.broker_id, frozenset())
        mended = lost.intersection(obeyed(answer)) if lost else lost
        failed, gone = storage_errors(answer), deleted(answer)
        if mended or failed or gone:
            self._scope.spawn(self._try(lambda term: self._take(term, answer, mended, failed, gone)), name="answer")

    async def _take(
        self,
        term: Term,
        answer: Answered,
        mended: Collection[TopicPartition],
        failed: Collection[TopicPartition],
        gone: list[TopicPartition],
    ) -> None:
        if term.image.broker_epoch(answer.broker_id) != answer.broker_epoch:
            return  # what it said in another life
        if mended:
            await brokers.disks_mended(term, answer.broker_id, mended)
        if failed:
            await brokers.disks_failed(term, answer.broker_id, failed)
        if gone:
            await topics.replicas_gone(term, answer.broker_id, gone)

    async def _keep_balanced(self, term: Term) -> None:
        pause_s = FIRST_REBALANCE_S
        while self._term is term:
            await asyncio.sleep(pause_s)
            pause_s = self._config.imbalance_check_s
            if self._term is term:
                await self._try(leaders.rebalance)


async def _elect_longest(term: Term, where: TopicPartition, ends: Mapping[BrokerId, LogEnd], asked: Image) -> None:
    """What a broker said before it crashed once more says nothing of what it has now."""
    if all(term.image.broker_epoch(broker) == asked.broker_epoch(broker) for broker in ends):
        await leaders.elect_longest(term, where, ends)
