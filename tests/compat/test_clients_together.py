"""What one client wrote, every other reads: all codecs, headers, nulls and times, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.clients.client import Client
from tests.compat.clients.cluster import KINDS, Cluster
from tests.compat.clients.lines import Record
from tests.compat.clients.roster import BY_NAME, ROSTER
from tests.compat.test_clients import check, records_for

pytestmark = pytest.mark.timeout(1200)

Written = dict[tuple[str, str], tuple[str, list[Record]]]


@pytest.fixture(scope="module")
def written() -> Written:
    """By writer and codec: the topic, and what was sent there."""
    return {}


def write(writer: Client, cluster: Cluster, codec: str) -> tuple[str, list[Record]]:
    topic = f"together.{writer.entry.name.replace(' ', '-')}.{codec}"
    cluster.create(topic)
    sent = records_for(writer, 60)
    for first in range(0, 60, 20):
        writer.produce(cluster.bootstrap, topic, sent[first : first + 20], codec=codec)
    return topic, sent


@pytest.mark.long
@pytest.mark.card("reads others'")
@pytest.mark.parametrize("writer", [entry.name for entry in ROSTER])
def test_a_client_reads_what_another_wrote(
    client: Client,
    writer: str,
    clients: Callable[[str], Client],
    clusters: Callable[[str], Cluster],
    written: Written,
) -> None:
    cluster, by = clusters(KINDS[0]), clients(writer)
    for codec in BY_NAME[writer].codecs:
        if codec not in client.entry.codecs:
            continue
        if (writer, codec) not in written:
            written[writer, codec] = write(by, cluster, codec)
        topic, sent = written[writer, codec]
        check(by, sent, client.read(cluster.bootstrap, topic, len(sent)))
