"""Quotas: what clients may send, fetch and ask for in a second. Who is over is made to wait, and nothing is dropped.

rates       how much was used lately (pure)
entities    which limit holds for whom (pure)
clients     what a request costs, and how long its sender has to wait for the next
connecting  how fast connections may come
"""

from __future__ import annotations

from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.connecting import ConnectionRates
from ottla.broker.quotas.entities import ANY, QUOTA_KEYS, Entity, Limits, quotas_of

__all__ = ["ANY", "QUOTA_KEYS", "ClientQuotas", "ConnectionRates", "Entity", "Limits", "quotas_of"]
