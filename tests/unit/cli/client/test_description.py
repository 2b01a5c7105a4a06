"""What is shown of a topic."""

from __future__ import annotations

from confluent_kafka import Uuid

from ottla.cli.client.description import format_topic_id


def test_an_id_is_written_as_kafkas_tools_write_it() -> None:
    assert format_topic_id(Uuid(-5, -6)) == "__________v_________-g"
