"""What the APIs of a broker share."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import NamedTuple

from ottla.base.clock import Clock
from ottla.base.scope import TaskScope
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.dispatch import Dispatch
from ottla.broker.fetchsessions import FetchSessions
from ottla.broker.producerids import ProducerIds
from ottla.broker.topics import TopicAdmin
from ottla.replica.replicas import Replicas


class Services(NamedTuple):
    config: BrokerConfig
    clock: Clock
    loop: AbstractEventLoop
    scope: TaskScope
    dispatch: Dispatch
    cluster: ClusterView
    replicas: Replicas
    topics: TopicAdmin
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
