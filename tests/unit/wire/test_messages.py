from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla import wire
from ottla.wire import table

ROOT = Path(__file__).resolve().parents[3]


def test_the_modules_made_from_the_table_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "wire_messages.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_requests_and_responses_come_in_pairs_with_the_same_versions() -> None:
    for api in wire.APIS.values():
        request, response = table.schema(f"{api.name}Request"), table.schema(f"{api.name}Response")
        assert request.key == response.key == api.key
        assert request.versions == response.versions == api.versions
        assert request.flexible.low == response.flexible.low
        assert (api.request.__name__, api.response.__name__) == (request.name, response.name)


def test_what_is_not_finished_or_not_wanted_any_more_is_not_offered() -> None:
    offered = dict(wire.offers(wire.ApiKey))
    assert offered[wire.ApiKey.FETCH] == (4, 18)
    assert offered[wire.ApiKey.INIT_PRODUCER_ID] == (0, 5)
    assert offered[wire.ApiKey.LEADER_AND_ISR] == (0, 7)
    assert wire.ApiKey.SHARE_FETCH not in offered


def test_produce_is_offered_from_version_0() -> None:
    assert wire.offers([wire.ApiKey.FETCH, wire.ApiKey.PRODUCE])[0] == (wire.ApiKey.PRODUCE, (0, 13))


def test_importing_the_package_imports_no_messages() -> None:
    program = "import sys, ottla.wire; print(*[name for name in sys.modules if name.startswith('ottla.wire.messages')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_arrays_that_were_not_given_are_not_shared() -> None:
    from ottla.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic

    first = MetadataRequest()
    assert first.topics == []
    first.topics.append(MetadataRequestTopic(name="a"))
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_messages_are_equal_when_their_fields_are_and_show_them() -> None:
    from ottla.wire.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert HeartbeatRequest() != HeartbeatResponse()
    assert repr(HeartbeatResponse(error_code=5)) == "HeartbeatResponse(throttle_time_ms=0, error_code=5)"
