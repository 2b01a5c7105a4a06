"""Quotas of users, clients and addresses set, removed and asked for. None of them is small enough to hold anybody up."""

from __future__ import annotations

from ottla.wire import ApiKey
from ottla.wire.messages import k48_describe_client_quotas as describe
from ottla.wire.messages import k49_alter_client_quotas as alter
from ottla.wire.messages import k50_describe_user_scram_credentials as passwords
from tests.compat.brokerpair import Step
from tests.compat.requests.drawing import Drawing

USERS = ("alice", "bob smith", "ü&/?", None)
CLIENTS = ("c-1", "c/2", "*", None)
IPS = ("10.0.0.9", "10.0.0.10", None)
EXACT, DEFAULT, ANY = range(3)


class Quotas(Drawing):
    def _alter_quotas(self) -> Step:
        draw = self._draw
        entries = [
            alter.RequestEntryData(
                entity=[alter.RequestEntityData(entity_type=kind, entity_name=name) for kind, name in self._whose()],
                ops=[self._op() for _ in range(draw.choice((1, 1, 2, 3)))],
            )
            for _ in range(draw.choice((1, 1, 2)))
        ]
        validate_only = draw.random() < 0.2
        request = alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
        return self._step(ApiKey.ALTER_CLIENT_QUOTAS, f"{entries} {validate_only=}", lambda _side, _version: request)

    def _whose(self) -> list[tuple[str, str | None]]:
        draw = self._draw
        user, client, ip = ("user", draw.choice(USERS)), ("client-id", draw.choice(CLIENTS)), ("ip", draw.choice(IPS))
        usual: list[list[tuple[str, str | None]]] = [[user], [client], [user, client], [ip]]
        odd: list[list[tuple[str, str | None]]] = [
            [],
            [ip, user],
            [("user", "")],
            [("group", "g")],
            [("ip", "no such")],
        ]
        return draw.choice(usual if draw.random() < 0.8 else odd)

    def _op(self) -> alter.OpData:
        draw = self._draw
        key = draw.choice(
            ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
        )
        if draw.random() < 0.25:
            key = draw.choice(("connection_creation_rate", "connection_creation_rate", "nonsense", ""))
        value = draw.choice((1e9, 2e8, 1e9 + 0.5, 3e9, 12_345_678.25))
        if draw.random() < 0.1:
            value = draw.choice((float("inf"), -0.0) if key == "request_percentage" else (float("inf"), float("-inf")))
            key = "producer_byte_rate" if value < 0 else key
        return alter.OpData(key=key, value=value, remove=draw.random() < 0.2)

    def _describe_quotas(self) -> Step:
        draw = self._draw
        names = {"user": USERS[:3], "client-id": CLIENTS[:3], "ip": IPS[:2]}
        kinds = draw.choice(
            (
                (),
                ("user",),
                ("client-id",),
                ("user", "client-id"),
                ("ip",),
                ("ip", "user"),
                ("user", "user"),
                ("group",),
            )
        )
        components = []
        for kind in kinds:
            match = draw.choice((EXACT, DEFAULT, ANY)) if draw.random() < 0.95 else ANY + 1
            name = draw.choice(names.get(kind, ("g",))) if match == EXACT and draw.random() < 0.95 else None
            components.append(describe.ComponentData(entity_type=kind, match_type=match, match=name))
        request = describe.DescribeClientQuotasRequest(components=components, strict=draw.random() < 0.4)
        return self._step(ApiKey.DESCRIBE_CLIENT_QUOTAS, f"{request}", lambda _side, _version: request)

    def _describe_users(self) -> Step:
        draw = self._draw
        names = [draw.choice(("alice", "bob smith", "ü&/?", "")) for _ in range(draw.choice((0, 1, 2, 3)))]
        users = [passwords.UserName(name=name) for name in names]
        request = passwords.DescribeUserScramCredentialsRequest(users=users or draw.choice((None, [])))
        return self._step(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, f"{names}", lambda _side, _version: request)
