"""Where partitions could be instead: on other brokers, with more or fewer replicas, or anywhere but on one broker.

A plan moves no more than it has to. Whatever is new goes to the broker with the fewest replicas, one in a rack that has none
of the partition before any other; what goes is taken from who is away, then from who is not in sync, then from the end, so
that leaders stay. Only spreading over given brokers starts from nothing, as Kafka's own tool does. What is on its way already
is planned from where it goes, and does not go back.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.base.errors import Error
from ottla.metadata.ids import BrokerId
from ottla.metadata.placement import place_replicas, usable_racks

Where = tuple[str, int]
Assignment = dict[Where, list[int]]
_NONE: Final[Mapping[Where, Collection[int]]] = MappingProxyType({})


class PlanError(Error):
    """What cannot be planned, or read."""


class UnknownBrokerError(PlanError):
    """A broker that is not there."""


class Layout(NamedTuple):
    """The brokers with their racks, and where all partitions are, or will be once their moves have ended."""

    racks: Mapping[int, str | None]
    replicas: Mapping[Where, list[int]]
    removing: Mapping[Where, Collection[int]] = _NONE
    """Who loses a partition by a move that is under way: nobody to give it to while there are others."""
    isr: Mapping[Where, Collection[int]] = _NONE
    """Without an entry all are in sync."""


def spread(layout: Layout, topics: Iterable[str], brokers: Iterable[int], *, start: int, shift: int) -> Assignment:
    """All partitions of these topics, evenly over these brokers."""
    wanted = sorted(set(brokers))
    if strangers := [broker for broker in wanted if broker not in layout.racks]:
        raise UnknownBrokerError(f"there is no broker {', '.join(map(str, strangers))}")
    racks = usable_racks({BrokerId(broker): layout.racks[broker] for broker in wanted})
    plan: Assignment = {}
    for topic in topics:
        numbers = sorted(number for name, number in layout.replicas if name == topic)
        factor = max(len(layout.replicas[topic, number]) for number in numbers)
        if factor > len(wanted):
            raise PlanError(f"{topic} has {factor} replicas, and {len(wanted)} brokers cannot hold them")
        placed = place_replicas(
            racks, partitions=len(numbers), replication_factor=factor, start=start % len(wanted), shift=shift
        )
        plan |= {(topic, number): list(placed[at]) for at, number in enumerate(numbers)}
    return plan


def with_factor(layout: Layout, topics: Iterable[str], factor: int) -> Assignment:
    """So many replicas of every partition of these topics."""
    if factor > len(layout.racks):
        raise PlanError(f"{factor} replicas need as many brokers, and there are {len(layout.racks)}")
    wanted = set(topics)
    loads = _loads(layout)
    plan: Assignment = {}
    for where, replicas in sorted(layout.replicas.items()):
        if where[0] in wanted and len(replicas) != factor:
            kept = _most_useful(layout, where, factor)
            while len(kept) < factor:
                kept = [*kept, _best(layout, loads, where, kept, layout.racks)]
            plan[where] = kept
    return plan


def without_broker(layout: Layout, leaving: int) -> Assignment:
    """Every replica of one broker on another. Its successor takes its place in line, so leaders are spread as before."""
    others = [broker for broker in layout.racks if broker != leaving]
    loads = _loads(layout)
    plan: Assignment = {}
    for where, replicas in sorted(layout.replicas.items()):
        if leaving not in replicas:
            continue
        if len(replicas) > len(others):
            raise PlanError(
                f"{where[0]}-{where[1]} has {len(replicas)} replicas, and without broker {leaving} there are "
                f"{len(others)} brokers; 'ottla cluster reassign generate --replication-factor' makes them fewer"
            )
        kept = [broker for broker in replicas if broker != leaving]
        successor = _best(layout, loads, where, kept, others)
        plan[where] = [successor if broker == leaving else broker for broker in replicas]
    return plan


def write_plan(plan: Assignment) -> str:
    """In the form of Kafka's own tool."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for (topic, number), replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def read_plan(text: str) -> Assignment:
    try:
        entries = json.loads(text)["partitions"]
        plan = {
            (str(entry["topic"]), int(entry["partition"])): [int(broker) for broker in entry["replicas"]]
            for entry in entries
        }
    except (ValueError, KeyError, TypeError) as error:
        raise PlanError(
            'not a plan: it has to have the form {"version": 1, "partitions": [{"topic": "orders", "partition": 0, '
            "\"replicas\": [1, 2]}]}, as 'ottla cluster reassign generate' writes it"
        ) from error
    if len(plan) != len(entries):
        raise PlanError("a partition is named twice")
    return plan


def _loads(layout: Layout) -> Counter[int]:
    return Counter(broker for replicas in layout.replicas.values() for broker in replicas)


def _most_useful(layout: Layout, where: Where, count: int) -> list[int]:
    """In the order that they have now."""
    replicas = layout.replicas[where]
    isr = layout.isr.get(where, replicas)
    ranked = sorted(replicas, key=lambda broker: (broker not in layout.racks, broker not in isr))
    return [broker for broker in replicas if broker in ranked[:count]]


def _best(layout: Layout, loads: Counter[int], where: Where, taken: list[int], among: Iterable[int]) -> int:
    racks, removing = {layout.racks.get(broker) for broker in taken}, layout.removing.get(where, ())
    free = [broker for broker in among if broker not in taken]
    best = min(free, key=lambda broker: (broker in removing, layout.racks[broker] in racks, loads[broker], broker))
    loads[best] += 1
    return best
