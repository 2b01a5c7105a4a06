"""Made traffic, sent to a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.pipeline.traffic.mess import KINDS_BY_TOPIC, Arrival

_FLUSH_S = 120.0


def make_topics(settings: Mapping[str, str], *, prefix: str = "", partitions: int = 2, replicas: int = 1) -> list[str]:
    """The topics of the traffic; what arrived long ago is not taken away by retention."""
    topics = [prefix + topic for topic in KINDS_BY_TOPIC]
    config = {"retention.ms": "-1", "min.insync.replicas": "2" if replicas > 2 else "1"}
    new = [NewTopic(topic, partitions, replicas, config=config) for topic in topics]
    admin = AdminClient({"log_level": 0, **settings})
    for made in admin.create_topics(new).values():
        made.result(30)
    return topics


class Sender:
    """Sends with acknowledgments, and never twice; ``acknowledged`` counts what is safe."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        eager = {"linger.ms": 5, "retry.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
        self._producer = Producer({"enable.idempotence": True, "log_level": 0, **eager, **settings})
        self._failed: list[KafkaError] = []
        self.acknowledged = 0

    def send(self, arrivals: Iterable[Arrival]) -> None:
        for one in arrivals:
            while True:
                try:
                    self._producer.produce(
                        one.topic, one.value, one.key, timestamp=one.at_ms, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self._producer.poll(0)

    def flush(self) -> None:
        left = self._producer.flush(_FLUSH_S)
        if self._failed:
            raise KafkaException(self._failed[0])
        if left:
            raise TimeoutError(f"{left} records were not acknowledged within {_FLUSH_S:g} s")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._failed.append(error)
