"""Random requests to a broker, from a seed: every API that is served here, in every version, sensible and not.

The generator keeps a rough idea of what exists, so that most requests meet something. It never needs to be right: a request
for what is not there is as good a question as any.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.wire import ApiKey
from tests.compat.brokerpair import CONNECTIONS, Step
from tests.compat.requests.acls import Acls
from tests.compat.requests.altering import Altering
from tests.compat.requests.asking import Asking
from tests.compat.requests.deleting import Deleting
from tests.compat.requests.drawing import NAMES, PRODUCE_FLOOR, ROLLED
from tests.compat.requests.leading import Leading
from tests.compat.requests.producing import Producing
from tests.compat.requests.quotas import Quotas
from tests.compat.requests.topics import Topics

__all__ = ["NOT_COMPARED", "PRODUCE_FLOOR", "Generator"]


WEIGHTS: Final = {
    "produce": 30,
    "fetch": 16,
    "session": 10,
    "waiting_fetch": 2,
    "list_offsets": 10,
    "metadata": 8,
    "create": 8,
    "delete": 4,
    "grow": 4,
    "init_producer": 3,
    "epochs": 5,
    "configs": 5,
    "alter": 4,
    "alter_some": 6,
    "delete_records": 3,
    "alter_quotas": 3,
    "describe_quotas": 3,
    "describe_users": 1,
    "acls": 2,
    "describe_producers": 4,
    "elect": 2,
    "reassign": 2,
    "reassignments": 1,
    "cluster": 2,
    "offers": 2,
    "nonsense": 2,
}
GROUP_APIS: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
)
BROKER_APIS: Final = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
)
NOT_COMPARED: Final = {
    **dict.fromkeys(BROKER_APIS, "brokers say it to each other, and clusters of both kinds show that they understand"),
    **dict.fromkeys((ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ALTER_REPLICA_LOG_DIRS), "folders and sizes are the machine's"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "Kafka 3.9 answers it with KRaft only; see its unit test",
    **dict.fromkeys(GROUP_APIS, "members of groups wait for each other, so they have a comparison of their own"),
}


class Generator(Topics, Producing, Asking, Altering, Deleting, Quotas, Acls, Leading):
    """Steps without end, the same for the same seed."""

    def steps(self, count: int) -> list[Step]:
        first = [self._create_plainly(name) for name in (ROLLED, *NAMES[:3])]
        first += [self._init_producer() for _ in range(2)]
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        more = [self._one(self._draw.choices(kinds, weights)[0]) for _ in range(count - len(first))]
        return [*first, *more]

    def _one(self, kind: str) -> Step:
        step: Step = getattr(self, f"_{kind}")()
        step.connection = self._draw.randrange(CONNECTIONS)
        if step.silent and step.meanwhile is not None:
            step.meanwhile.connection = step.connection
        elif step.meanwhile is not None:
            step.meanwhile.connection = (step.connection + 1) % CONNECTIONS
        return step

    def _nonsense(self) -> Step:
        """A good request whose bytes are then cut short, made longer, or of a version or an API that nobody has."""
        draw = self._draw
        step = self._one(draw.choice(("metadata", "list_offsets", "fetch", "create", "configs", "epochs", "delete")))
        step = replace(step, meanwhile=None, silent=False, session=None)
        cut = draw.randrange(1, 30)
        kind = draw.choice(("cut", "longer", "version", "api", "correlation"))
        match kind:
            case "cut":
                step.spoil = lambda frame: frame[: max(10, len(frame) - cut)]
            case "longer":
                step.spoil = lambda frame: frame + b"\1\2\3"
            case "version":
                step.spoil = lambda frame: frame[:2] + b"\0\x63" + frame[4:]
            case "api":
                step.spoil = lambda frame: b"\x03\xe7" + frame[2:]
            case "correlation":
                step.spoil = None
        step.what = f"{kind}: {step.what}"
        return step
