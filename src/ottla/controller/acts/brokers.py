"""Brokers come and go."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.controller.acts import moves, topics
from ottla.controller.machine.elections import Unclean, first_states, next_states
from ottla.controller.term import Term
from ottla.metadata.ids import NO_LEADER, BrokerId, TopicPartition
from ottla.metadata.image import LiveBroker

log = logging.getLogger(__name__)


async def begin(term: Term) -> None:
    """A term begins: everybody is told everything, and what is broken is mended.

    A broker that crashed may have come back while nobody ruled, and still be listed as leader and in sync: it has been away. Nobody
    is elected uncleanly in its place, for it is there.
    """
    everybody = term.image.brokers
    crashed = {broker for broker in everybody if term.situation.has_crashed(broker)}
    if crashed:
        term.image = term.image.with_brokers({id_: live for id_, live in everybody.items() if id_ not in crashed})
        await mend(term, unclean=lambda _: False)
        term.image = term.image.with_brokers(everybody)
    term.streams.follow(everybody)
    term.situation = term.situation.doubting(everybody)
    await _lead_again(term)
    await _welcome(term, everybody.keys())


async def changed(term: Term, brokers: Mapping[BrokerId, LiveBroker]) -> None:
    """These live now. One in another life than before has been away, however shortly: it leads and is in sync no more."""
    before = term.image.brokers
    lost = {broker for broker, live in before.items() if broker not in brokers or brokers[broker].epoch != live.epoch}
    came = {broker for broker in brokers if broker not in before or broker in lost}
    if lost:
        log.info("brokers %s are gone", sorted(lost))
        term.image = term.image.with_brokers({broker: live for broker, live in before.items() if broker not in lost})
        term.situation = term.situation.forgetting(lost)
        term.streams.follow(term.image.brokers)
        await _lead_again(term)
        term.tell()
        await mend(term)
        term.batch.tell(_partitions_on(term, lost))
        term.tell()
    term.image = term.image.with_brokers(brokers)
    term.streams.follow(term.image.brokers)
    if came:
        log.info("brokers %s are here", sorted(came))
        await _welcome(term, came)
    else:
        term.batch.tell()
        term.tell()


async def take_disk_news(term: Term) -> None:
    """Brokers lost log directories, and say which replicas were there when they are told to lead or follow them."""
    for broker in await term.registry.orders.take_log_dir_failures(term.epoch):
        _lead_all(term, broker)
    term.tell()


async def disks_failed(term: Term, broker_id: BrokerId, replicas: Iterable[TopicPartition]) -> None:
    """A broker lives, but these replicas of it do not.

    Where somebody else leads then, it may have another try: a log that is damaged is fetched anew from whoever leads, and only one
    whose disk failed is still not there.
    """
    known = term.situation.failed.get(broker_id, frozenset())
    failed = [where for where in replicas if where not in known]
    if not failed:
        return
    term.situation = term.situation.with_failed(broker_id, failed)
    await mend(term)
    led = {where for where in failed if where.topic not in term.deletions and _is_led_elsewhere(term, where, broker_id)}
    for where in failed:
        if where not in led:
            term.batch.stop(where, (broker_id,), delete=False)
    term.batch.tell(failed)
    term.tell()
    term.lead(led, (broker_id,))
    term.tell()


async def disks_mended(term: Term, broker_id: BrokerId, replicas: Iterable[TopicPartition]) -> None:
    """These are there again."""
    mended = list(replicas)
    term.situation = term.situation.with_mended(broker_id, mended)
    term.batch.tell(mended)
    term.tell()


async def mend(term: Term, unclean: Unclean | None = None) -> None:
    """Leaders and ISRs as they can be with whoever is alive."""
    await term.create(first_states(term.situation, topics.staying(term)))
    await term.update(lambda situation: next_states(situation, unclean or term.config.unclean))


async def _lead_again(term: Term) -> None:
    """What nobody leads comes first: there may be thousands that have only lost a follower."""
    await term.update(lambda situation: next_states(situation, term.config.unclean, only_leaders=True))


async def _welcome(term: Term, came: Iterable[BrokerId]) -> None:
    arrived = list(came)
    term.situation = term.situation.doubting(arrived)
    for broker in arrived:
        term.batch.tell_everything(broker)
    term.tell()
    for broker in arrived:
        _lead_all(term, broker)
    await mend(term)
    term.tell()
    await moves.resume(term)
    await topics.resume_deletions(term)


def _lead_all(term: Term, broker: BrokerId) -> None:
    """A broker learns all that it is to hold: nothing of a topic that is deleted, or what it has deleted would come back."""
    term.lead((where for where in term.image.partitions_on(broker) if where.topic not in term.deletions), (broker,))


def _is_led_elsewhere(term: Term, where: TopicPartition, broker: BrokerId) -> bool:
    state = term.image.state(where)
    return state is not None and state.leader not in (NO_LEADER, broker)


def _partitions_on(term: Term, brokers: Iterable[BrokerId]) -> list[TopicPartition]:
    """Everybody learns that these replicas are offline."""
    return [where for broker in brokers for where in term.image.partitions_on(broker)]
