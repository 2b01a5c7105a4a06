"""What a stream has read, committed to a consumer group: so its lag is seen wherever lags are.

Nobody joins the group, and nothing is read from it: a stream goes on where its checkpoint says. A commit that fails is told and
otherwise of no consequence; the next one makes up for it.
"""

from __future__ import annotations

import logging

from ottla.scan.cluster import TopicPartition
from ottla.scan.errors import OptionError
from pyspark_ottla.clients import ClientSettings, client_settings, open_client
from pyspark_ottla.options import ReadOptions

logger = logging.getLogger(__name__)


def commit_to_group(options: ReadOptions, group: str, offsets: dict[TopicPartition, int]) -> None:
    from confluent_kafka import Consumer, KafkaException
    from confluent_kafka import TopicPartition as Committed

    own: ClientSettings = {"group.id": group, "enable.auto.commit": False, "log_level": 0}
    try:
        settings = {**client_settings(options.kafka), **own}
        consumer = open_client(Consumer, settings)
    except OptionError as error:
        logger.warning("offsets were not committed to group %s: %s", group, error)
        return
    try:
        committed = [Committed(place.topic, place.partition, offset) for place, offset in offsets.items()]
        consumer.commit(offsets=committed, asynchronous=False)
    except KafkaException as error:
        logger.warning("offsets were not committed to group %s: %s", group, error.args[0].str())
    finally:
        consumer.close()
