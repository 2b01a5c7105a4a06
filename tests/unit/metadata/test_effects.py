"""Every setting of Kafka 3.9 either is read somewhere by the broker, or has a reason why it changes nothing. Never both."""

from __future__ import annotations

from pathlib import Path

import pytest

import ottla
from ottla.metadata.configs import BROKER_CONFIGS, TOPIC_CONFIGS, no_effect
from ottla.metadata.configs.broker import CHANGED_ONLY

SOURCES = Path(ottla.__file__).parent
PARTS = ("broker", "controller", "coordinator", "log", "net", "records", "registry", "replica")
EVERY = sorted({*BROKER_CONFIGS, *CHANGED_ONLY, *TOPIC_CONFIGS})
READ_OTHERWISE = {
    "compression.gzip.level": "the name is put together from that of the codec",
    "compression.lz4.level": "the same",
    "compression.zstd.level": "the same",
    "max.connections.per.ip.overrides": "by metadata.configs.together, which takes it apart",
    "node.id": "a name of broker.id in meta.properties, too",
}


@pytest.fixture(scope="module")
def text() -> str:
    return "".join(path.read_text() for part in PARTS for path in (SOURCES / part).rglob("*.py"))


def is_read(name: str, text: str) -> bool:
    topics = [key.name for key in TOPIC_CONFIGS.values() if any(synonym.name == name for synonym in key.broker)]
    return any(f'"{each}"' in text for each in (name, *topics))


@pytest.mark.parametrize("name", EVERY)
def test_a_setting_is_read_or_has_a_reason_not_to_be(name: str, text: str) -> None:
    if name not in READ_OTHERWISE:
        assert is_read(name, text) is (no_effect(name) is None), no_effect(name) or "nobody reads it"


def test_no_exception_is_for_nothing() -> None:
    assert set(EVERY) >= READ_OTHERWISE.keys()
