"""What a leader does by itself: removing containers, and telling of quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.jute import put_int, put_string
from ottla.keeper.proto.opcodes import CreateMode, OpCode
from ottla.keeper.server.quota import limits_path, stats_path
from tests.unit.keeper.monitored_ensemble import Ensemble, Person


def lone_server(folder: Path, **settings: str) -> tuple[Ensemble, Person]:
    ensemble = Ensemble(folder, settings=settings)
    return ensemble, Person(ensemble, ensemble.of_mode("standalone"), timeout_ms=10_000)


def unused_containers(person: Person, count: int) -> None:
    for number in range(count):
        assert person.create(f"/c{number}", b"", CreateMode.CONTAINER) == 0
        assert person.create(f"/c{number}/x") == 0
        body = bytearray()
        put_string(body, f"/c{number}/x")
        put_int(body, -1)
        assert person.ask(OpCode.DELETE, body) == 0


def left(person: Person) -> int:
    return sum(path.startswith("/c") for path in person.frontend.tree.nodes)


def test_containers_are_removed_at_the_rate_of_the_settings(tmp_path: Path) -> None:
    settings = {"znode.container.maxPerMinute": "6", "znode.container.checkIntervalMs": "1000"}
    ensemble, person = lone_server(tmp_path, **settings)
    unused_containers(person, 20)
    ensemble.run(2)
    assert left(person) == 14
    for minute in (1, 2):
        ensemble.run(60)
        assert left(person) == 14 - 6 * minute


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (b"count=2,bytes=-1", "quota exceeded: /q [current count=3, soft limit=2]"),
        (b"count=-1,bytes=5", "quota exceeded: /q [current bytes=8, soft limit=5]"),
        (b"count=1,bytes=-1=;byteHardLimit=-1;countHardLimit=2", "quota exceeded: /q [current count=3, hard limit=2]"),
    ],
)
@pytest.mark.parametrize("enforced", ["true", "false"])
def test_a_quota_that_is_exceeded_is_told_of_once_in_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, limits: bytes, told: str, enforced: str
) -> None:
    ensemble, person = lone_server(tmp_path, enforceQuota=enforced)
    for path in ("/q", "/zookeeper/quota/q"):
        assert person.create(path) == 0
    assert person.create(limits_path("/q"), limits) == 0
    assert person.create(stats_path("/q"), b"count=1,bytes=0") == 0
    codes = {person.create(f"/q/{number}", b"12345678") for number in range(5)}
    assert codes == ({0, int(ErrorCode.QUOTA_EXCEEDED)} if enforced == "true" and b"Hard" in limits else {0})
    assert [record.getMessage() for record in caplog.records if "quota" in record.message] == [told]
    ensemble.clock.advance(11)
    person.create("/q/later", b"12345678")
    assert caplog.text.count("quota exceeded: /q") == 2
