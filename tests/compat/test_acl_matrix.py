"""Who may do what: every scheme and permission against every operation, beside a real ZooKeeper.

One node per access list, made by the session that may do everything; then each of the others tries everything on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.compat import rawclient as raw
from tests.compat.differential import compare, pair
from tests.compat.rawclient import OPEN_ACL, acl, bool_, buffer, int_, string, vector
from tests.compat.steps import SUPER_SLOT, USERS, Request, Send, Step, digest, opening, password

IDS = {
    "world": ("world", "anyone"),
    "alice": ("digest", digest(password(USERS[0]))),
    "this address": ("ip", "127.0.0.1"),
    "this network": ("ip", "127.0.0.0/8"),
    "another network": ("ip", "10.0.0.0/8"),
}
PERMS = (0, 1, 2, 4, 8, 16, 31, 30, 15)
TRIED_BY = (0, 1, 2)
"""A session without identity, alice and bob."""


def attempts(node: str) -> Iterator[Request]:
    """Everything that needs a permission on a node or on its parent."""
    child = f"{node}/child"
    yield Request(raw.GET_DATA, (string(node), bool_(True)), f"{node} watch")
    yield Request(raw.EXISTS, (string(node), bool_(False)), node)
    yield Request(raw.GET_CHILDREN2, (string(node), bool_(False)), node)
    yield Request(raw.GET_CHILDREN, (string(node), bool_(False)), node)
    yield Request(raw.GET_ALL_CHILDREN_NUMBER, (string(node),), node)
    yield Request(raw.GET_ACL, (string(node),), node)
    yield Request(raw.ADD_WATCH, (string(node), int_(1)), f"{node} recursive")
    yield Request(raw.SET_DATA, (string(node), buffer(b"changed"), int_(-1)), node)
    yield Request(raw.CREATE2, (string(child), buffer(b""), OPEN_ACL, int_(0)), child)
    yield Request(raw.DELETE, (string(child), int_(-1)), child)
    yield _multi(Request(raw.CHECK, (string(node), int_(-1)), node))
    yield _multi(Request(raw.SET_DATA, (string(node), buffer(b""), int_(-1)), node))
    yield _multi(Request(raw.CREATE, (string(f"{child}-"), buffer(b""), OPEN_ACL, int_(2)), child))
    yield _multi(Request(raw.GET_DATA, (string(node), bool_(False)), node), opcode=raw.MULTI_READ)
    yield Request(raw.REMOVE_WATCHES, (string(node), int_(3)), node)


def _multi(request: Request, *, opcode: int = raw.MULTI) -> Request:
    parts = (int_(request.opcode), bool_(False), int_(-1), *request.parts, int_(-1), bool_(True), int_(-1))
    return Request(opcode, parts, str(request))


def steps() -> list[Step]:
    made: list[Step] = opening()
    made.append(_send(SUPER_SLOT, Request(raw.CREATE, (string("/acl"), buffer(b""), OPEN_ACL, int_(0)), "/acl")))
    for name, (scheme, id_) in IDS.items():
        for perms in PERMS:
            node = f"/acl/{name.replace(' ', '-')}-{perms}"
            only = vector([acl(perms, scheme, id_)])
            create = Request(raw.CREATE, (string(node), buffer(b"data"), only, int_(0)), node)
            made.append(_send(SUPER_SLOT, create))
            for slot in TRIED_BY:
                made += [_send(slot, request) for request in attempts(node)]
            # Last, since it changes what is tried: the list itself, and the node.
            for slot in TRIED_BY:
                made.append(_send(slot, Request(raw.SET_ACL, (string(node), only, int_(-1)), node)))
                made.append(_send(slot, Request(raw.GET_ACL, (string(node),), node)))
            made.append(_send(SUPER_SLOT, Request(raw.GET_ACL, (string(node),), node)))
    return made


def _send(slot: int, request: Request) -> Step:
    return Send(slot, (request,))


def test_permissions_are_those_of_zookeeper() -> None:
    with pair(1) as (left, right):
        assert compare(left, right, steps()) > 2000
