"""What the APIs of a broker share."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import NamedTuple

from ottla.base.clock import Clock
from ottla.base.scope import TaskScope
from ottla.broker.cluster import ClusterView
from ottla.broker.config import BrokerConfig
from ottla.broker.configadmin import ConfigAdmin
from ottla.broker.dispatch import Dispatch
from ottla.broker.fetchsessions import FetchSessions
from ottla.broker.moving import Moving
from ottla.broker.orders import Orders
from ottla.broker.producerids import ProducerIds
from ottla.broker.quotas import ClientQuotas
from ottla.broker.topics import TopicAdmin
from ottla.broker.vetting import Vetting
from ottla.controller.controller import Controller
from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.replica.replicas import Replicas


class Services(NamedTuple):
    config: BrokerConfig
    clock: Clock
    loop: AbstractEventLoop
    scope: TaskScope
    dispatch: Dispatch
    cluster: ClusterView
    replicas: Replicas
    orders: Orders
    controller: Controller
    topics: TopicAdmin
    moving: Moving
    groups: GroupCoordinator
    configs: ConfigAdmin
    quotas: ClientQuotas
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    vetting: Vetting
