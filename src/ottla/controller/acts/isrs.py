"""Leaders change who is in sync: AlterPartition, and for brokers of old the news in ``/isr_change_notification``."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.controller.acts import moves
from ottla.controller.machine.isr import Wish, judge
from ottla.controller.machine.situation import States
from ottla.controller.term import Term
from ottla.metadata.ids import TopicPartition
from ottla.metadata.znodes.topics import LeaderAndIsr
from ottla.wire import ErrorCode

Verdicts = dict[TopicPartition, LeaderAndIsr | ErrorCode]


async def alter(term: Term, wishes: Mapping[TopicPartition, Wish]) -> Verdicts:
    """Judge what leaders wish for and write what is granted: the state of each partition, or why not."""
    verdicts: Verdicts = {where: judge(term.situation, where, wish) for where, wish in wishes.items()}
    granted: States = {
        where: verdict
        for where, verdict in verdicts.items()
        if not isinstance(verdict, ErrorCode) and verdict is not term.image.state(where)
    }
    if not granted:
        return verdicts
    updates = await term.registry.topics.update_states(granted, term.epoch)
    verdicts |= updates.done
    term.image = term.image.with_states({**updates.done, **await term.registry.topics.states(list(updates.retry))})
    verdicts |= {where: _judged_again(term, where, wishes[where]) for where in updates.retry}
    term.batch.tell(granted)
    term.tell()
    await moves.resume(term, granted)
    return verdicts


def _judged_again(term: Term, where: TopicPartition, wish: Wish) -> LeaderAndIsr | ErrorCode:
    """By what is written now: the write may have been done all the same, or another one before it.

    If neither, nothing was done at all, and no order will come: the leader has to ask again.
    """
    verdict = judge(term.situation, where, wish)
    if isinstance(verdict, ErrorCode) or verdict is term.image.state(where):
        return verdict
    return ErrorCode.REQUEST_TIMED_OUT


async def take_news(term: Term) -> None:
    """ISRs that leaders wrote themselves, as those without AlterPartition do."""
    changed = [where for where in await term.registry.orders.take_isr_changes(term.epoch) if term.image.state(where)]
    if changed:
        term.image = term.image.with_states(await term.registry.topics.states(changed))
        term.batch.tell(changed)
        term.tell()
        await moves.resume(term, changed)
