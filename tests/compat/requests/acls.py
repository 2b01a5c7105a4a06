"""Rules of access control asked for, made and removed, at brokers that have none."""

from __future__ import annotations

from ottla.wire import ApiKey
from ottla.wire.messages import k29_describe_acls as describe
from ottla.wire.messages import k30_create_acls as create
from ottla.wire.messages import k31_delete_acls as delete
from tests.compat.brokerpair import Step
from tests.compat.requests.drawing import Drawing

NAMES = ("events", "*", "", None)
PRINCIPALS = ("User:alice", "User:*", "nobody", None)
RESOURCE_TYPES, PATTERN_TYPES, OPERATIONS, PERMISSIONS = 7, 4, 14, 3


class Acls(Drawing):
    def _acls(self) -> Step:
        return self._draw.choice((self._describe_acls, self._create_acls, self._delete_acls))()

    def _kind(self, last: int) -> int:
        """Mostly one that there is."""
        return self._draw.choice((0, last + 1, -1)) if self._draw.random() < 0.05 else self._draw.randint(1, last)

    def _describe_acls(self) -> Step:
        draw = self._draw
        request = describe.DescribeAclsRequest(
            resource_type_filter=self._kind(RESOURCE_TYPES),
            resource_name_filter=draw.choice(NAMES),
            pattern_type_filter=self._kind(PATTERN_TYPES),
            principal_filter=draw.choice(PRINCIPALS),
            host_filter=draw.choice(("*", None)),
            operation=self._kind(OPERATIONS),
            permission_type=self._kind(PERMISSIONS),
        )
        return self._step(ApiKey.DESCRIBE_ACLS, f"{request}", lambda _side, _version: request)

    def _create_acls(self) -> Step:
        draw = self._draw
        creations = [
            create.AclCreation(
                resource_type=self._kind(RESOURCE_TYPES),
                resource_name=draw.choice(NAMES[:3]) or "",
                resource_pattern_type=self._kind(PATTERN_TYPES),
                principal=draw.choice(PRINCIPALS[:3]) or "",
                host="*",
                operation=self._kind(OPERATIONS),
                permission_type=self._kind(PERMISSIONS),
            )
            for _ in range(draw.choice((0, 1, 1, 2)))
        ]
        request = create.CreateAclsRequest(creations=creations)
        return self._step(ApiKey.CREATE_ACLS, f"{request}", lambda _side, _version: request)

    def _delete_acls(self) -> Step:
        draw = self._draw
        filters = [
            delete.DeleteAclsFilter(
                resource_type_filter=self._kind(RESOURCE_TYPES),
                resource_name_filter=draw.choice(NAMES),
                pattern_type_filter=self._kind(PATTERN_TYPES),
                principal_filter=draw.choice(PRINCIPALS),
                host_filter=draw.choice(("*", None)),
                operation=self._kind(OPERATIONS),
                permission_type=self._kind(PERMISSIONS),
            )
            for _ in range(draw.choice((0, 1, 1, 2)))
        ]
        request = delete.DeleteAclsRequest(filters=filters)
        return self._step(ApiKey.DELETE_ACLS, f"{request}", lambda _side, _version: request)
