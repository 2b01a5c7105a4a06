"""Settings that are known, checked, stored and described, and change nothing here; each with the reason.

Every other setting takes effect. ``docs/broker-config.md`` is made from this, and a test holds it against the sources.
"""

from __future__ import annotations

import re
from typing import Final

_KRAFT: Final = "KRaft alone has it; this is a cluster on ZooKeeper's protocol"
_TIERED: Final = "there is no tiered storage"
_JAVA: Final = "it names Java classes, or what Java's metrics do; metrics are served by `ottla.metrics.port`"
_THREADS: Final = "one event loop does the work; there are no pools of threads to size"
_SECURITY: Final = "there is no access control yet"
_NEW_GROUPS: Final = "the newer group protocols are not offered yet"
_TRANSACTIONS: Final = "transactions are not offered yet"

_REASONS: Final = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"remote\..*|log\.local\.retention\..*|local\.retention\..*", _TIERED),
        (r"metadata\..*|controller\.quorum\..*|process\.roles|node\.id|controller\.listener\.names", _KRAFT),
        (r"initial\.broker\.registration\.timeout\.ms|broker\.(heartbeat\.interval|session\.timeout)\.ms", _KRAFT),
        (r"server\.max\.startup\.time\.ms|zookeeper\.metadata\.migration\..*|eligible\.leader\..*", _KRAFT),
        (r"unstable\..*|telemetry\.max\.bytes|log\.dir\.failure\.timeout\.ms", _KRAFT),
        (r"unclean\.leader\.election\.interval\.ms", _KRAFT),
        (r"sasl\..*|ssl\..*|zookeeper\.ssl\..*|zookeeper\.(set\.acl|clientCnxnSocket)", _SECURITY),
        (r"security\.providers|principal\.builder\.class", _SECURITY),
        (r"delegation\.token\..*|password\.encoder\..*|authorizer\.class\.name|early\.start\.listeners", _SECURITY),
        (r"connections\.max\.reauth\.ms|connection\.failed\.authentication\.delay\.ms", _SECURITY),
        (r"(metrics|metric|kafka\.metrics)\..*|auto\.include\.jmx\.reporter|client\.quota\.callback\.class", _JAVA),
        (r"num\.(io|network|replica\.alter\.log\.dirs|recovery)\.?.*threads.*|background\.threads", _THREADS),
        (r"group\.coordinator\.threads", _THREADS),
        (r"group\.(consumer|share)\..*|group\.coordinator\.(rebalance|append|new)\..*", _NEW_GROUPS),
        (r"transaction\.(partition|abort|remove)\..*|transactional\.id\..*", _TRANSACTIONS),
        (r"transaction\.state\.log\.load\.buffer\.size", _TRANSACTIONS),
        (r"(create\.topic|alter\.config)\.policy\.class\.name", "Java classes cannot be loaded"),
        (r".*\.purgatory\.purge\.interval\.requests", "what was waited for is forgotten at once"),
        (r"(log\.)?message\.format\.version|inter\.broker\.protocol\.version", "there is one version of either, 3.9's"),
        (r"(log\.)?message\.downconversion\.enable", "no version of Fetch is offered that would need it"),
        (r"queued\.max\.requests", "a request is handled when it is read; there is no queue between"),
    )
)


def no_effect(name: str) -> str | None:
    """Why a setting changes nothing; None if it takes effect."""
    return next((reason for pattern, reason in _REASONS if pattern.fullmatch(name)), None)
