"""Connections that come too fast from one address wait for their turn, and every one of them is served."""

from __future__ import annotations

import time
from pathlib import Path

from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from tests.compat.brokerpair import Side
from tests.peers import OttlaKeepers
from tests.peers.brokers import OttlaBrokers

RATE, WINDOWS, COUNT = 5, 3, 16
"""In two seconds ten may come; the sixteenth has to wait (16 / 2 - 5) / 5 of them."""


def test_all_are_served_at_the_rate_that_is_set(tmp_path: Path) -> None:
    settings = {"quota.window.num": str(WINDOWS)}
    with OttlaKeepers(1, tmp_path) as keepers, OttlaBrokers(1, keepers.hosts, tmp_path, settings=settings) as brokers:
        [port] = brokers.ports
        admin = Side("admin", port)
        entity = RequestEntityData(entity_type="ip", entity_name="127.0.0.1")
        limit = RequestEntryData(entity=[entity], ops=[OpData(key="connection_creation_rate", value=RATE)])
        answer = admin.ask(AlterClientQuotasRequest(entries=[limit]), 1)
        assert isinstance(answer, AlterClientQuotasResponse)
        assert not answer.entries[0].error_code
        began = time.monotonic()
        sides = [Side(str(number), port) for number in range(COUNT)]
        for side in sides:
            assert isinstance(side.ask(MetadataRequest(topics=[]), 12), MetadataResponse)
        # One after another, the last of them came when the rate allowed it.
        assert time.monotonic() - began >= (COUNT - RATE * (WINDOWS - 1)) / RATE * 0.5
        assert isinstance(admin.ask(MetadataRequest(topics=[]), 12), MetadataResponse)
        for side in (admin, *sides):
            side.close()
