"""Topics come, grow and go."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence

from ottla.controller.machine.deletion import Deletion
from ottla.controller.machine.elections import first_states
from ottla.controller.machine.situation import Replica
from ottla.controller.term import Term
from ottla.metadata.ids import BrokerId, TopicId, TopicPartition, topic_id_from
from ottla.metadata.image import Topic
from ottla.metadata.znodes.configs import topic_entity
from ottla.registry import BadVersionError, ConnectionLossError

log = logging.getLogger(__name__)


def staying(term: Term) -> list[Topic]:
    return [topic for name, topic in term.image.topics.items() if name not in term.deletions]


def new_topic_id() -> TopicId:
    while (drawn := topic_id_from(os.urandom(16))) is None:
        pass
    return drawn


async def give_ids(term: Term) -> None:
    """Topics that were made before Kafka 2.8 have none, and orders go by them."""
    for name, topic in list(term.image.topics.items()):
        if topic.topic_id is None and name not in term.deletions:
            await term.set_assignment(topic._replace(topic_id=new_topic_id()))


def watch(term: Term, names: Iterable[str]) -> None:
    for name in names:
        term.registry.topics.watch_assignment(name)


async def bring_up(term: Term) -> None:
    """Topics that came, and topics that somebody took away without asking."""
    names = set(await term.registry.topics.names())
    gone = [name for name in term.image.topics if name not in names]
    for name in gone:
        term.forget(name)
        term.registry.topics.unwatch_assignment(name)
    new = await term.registry.topics.read(sorted(names - term.image.topics.keys()))
    configs = await term.registry.configs.read_many([topic_entity(name) for name in new])
    term.image = term.image.with_configs({topic_entity(name): configs.get(topic_entity(name), {}) for name in new})
    term.image = term.image.with_topics(new)
    watch(term, new)
    await give_ids(term)
    await term.create(first_states(term.situation, [term.image.topics[name] for name in new]))
    for topic in [term.image.topics[name] for name in new]:
        # What has a state already was brought up by a controller before, who may not have said so.
        for where, assignment, state in topic.leaders():
            if state is not None:
                term.batch.lead(where, assignment.replicas)
    if new or gone:
        term.tell()


async def look_at(term: Term, name: str) -> None:
    """The znode of a topic changed, perhaps by a tool that writes it itself: partitions that are new are brought up."""
    known = term.image.topics.get(name)
    found = (await term.registry.topics.read([name])).get(name)
    if known is None or found is None or found.zk_version <= known.zk_version or name in term.deletions:
        return
    log.info("%s was changed by somebody else", name)
    term.image = term.image.with_topic(found)
    await term.create(first_states(term.situation, (found,)))
    term.tell()


async def grow(term: Term, topic: Topic) -> bool:
    """Write a topic that was given more partitions, and bring those up. False if somebody else changed it meanwhile."""
    if topic.name not in term.image.topics or topic.name in term.deletions:
        return True
    try:
        await term.set_assignment(topic)
    except BadVersionError:
        term.image = term.image.with_topics(await term.registry.topics.read([topic.name]))
        term.tell()
        return False
    await term.create(first_states(term.situation, (term.image.topics[topic.name],)))
    term.tell()
    return True


async def delete(term: Term, names: Iterable[str]) -> None:
    """Somebody wants these topics deleted."""
    wanted = [name for name in names if name not in term.deletions]
    if any(name not in term.image.topics for name in wanted):
        await bring_up(term)  # one that was made and unmade before it was heard of
    for name in wanted:
        if name not in term.image.topics or not term.config.may_delete:
            await term.registry.topics.cancel_deletion(name, term.epoch)
            continue
        log.info("deleting topic %s", name)
        term.begin_deletion(name)
    if wanted:
        await resume_deletions(term)


async def resume_deletions(term: Term) -> None:
    """Ask the replicas that can be asked, and finish with topics that have none left."""
    for deletion in list(term.deletions.values()):
        if deletion.name not in term.image.topics:
            term.forget(deletion.name)
        else:
            await _go_on(term, deletion)


async def replicas_gone(term: Term, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """A broker says that it has deleted these."""
    touched = {where.topic for where in partitions} & term.deletions.keys()
    for where in partitions:
        if where.topic in touched:
            term.deletions[where.topic].gone(Replica(where, broker_id))
    for name in sorted(touched):
        if term.deletions[name].is_done:
            await _finish(term, name)


async def _go_on(term: Term, deletion: Deletion) -> None:
    term.batch.tell(where for where, _, _ in term.image.topics[deletion.name].leaders())
    for replica in deletion.ask(term.situation):
        term.batch.stop(replica.where, (replica.broker_id,), delete=True)
    term.tell()
    if deletion.is_done:
        await _finish(term, deletion.name)


async def _finish(term: Term, name: str) -> None:
    """The znodes go, the wish for it last. Done in part, it can be done again."""
    while True:
        try:
            await term.registry.topics.delete(name, term.epoch)
        except ConnectionLossError:
            continue
        break
    term.forget(name)
    term.registry.topics.unwatch_assignment(name)
    term.tell()
