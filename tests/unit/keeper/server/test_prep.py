"""Which of several errors a client is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.keeper.proto.errors import ErrorCode
from ottla.keeper.proto.jute import put_buffer, put_int, put_string
from ottla.keeper.proto.opcodes import CreateMode, OpCode
from ottla.keeper.proto.records import OPEN_ACL_UNSAFE, put_acls
from tests.unit.keeper.monitored_ensemble import Ensemble, Person


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (CreateMode.PERSISTENT, ErrorCode.MARSHALLING_ERROR),
        (CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, ErrorCode.BAD_ARGUMENTS),
        (99, ErrorCode.BAD_ARGUMENTS),
    ],
)
def test_a_mode_that_cannot_be_is_told_before_a_path_that_is_null(tmp_path: Path, flags: int, code: int) -> None:
    ensemble = Ensemble(tmp_path, settings={"extendedTypesEnabled": "true"})
    person = Person(ensemble, ensemble.of_mode("standalone"))
    body = bytearray()
    put_string(body, None)
    put_buffer(body, b"")
    put_acls(body, OPEN_ACL_UNSAFE)
    put_int(body, flags)
    assert person.ask(OpCode.CREATE, body) == code
