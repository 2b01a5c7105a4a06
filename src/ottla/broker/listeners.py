"""What a broker's listeners are said to be: where it listens, and under which address others are told to come.

    listeners                        NAME://host:port, separated by commas
    advertised.listeners             the same, for some or all of them; a listener that is not named is told to nobody
    listener.security.protocol.map   NAME:PROTOCOL

All three may be changed while a broker runs. Listeners are told apart by their names: new ones are opened, those that are gone
are closed with the connections on them. The listeners that brokers reach each other by stay where they are, for others are
connected to them, and would take the broker for dead. (Kafka takes such a change, goes on to listen where it did, and tells
everybody to come elsewhere.)

What cannot be is refused in Kafka's words and in Kafka's order, as people look the words up; what only this broker refuses,
behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.base.errors import ConfigError
from ottla.metadata.znodes.brokers import Endpoint, parse_endpoint

LOOPBACK: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
_LOOPBACK_PREFIXES: Final = ("127.", "::1", "localhost")
_PLAINTEXT: Final = "PLAINTEXT"
_KNOWN: Final = (_PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104  nobody is to be told that


class ListenerConfig(NamedTuple):
    """One listener."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    security_protocol: str
    is_advertised: bool = True

    @property
    def place(self) -> tuple[str, str, int]:
        """Two of the same place share a socket."""
        return self.name, self.host, self.port

    def endpoint(self, port: int) -> Endpoint:
        """What is registered, once the port is known."""
        return Endpoint(self.name, self.advertised_host, self.advertised_port or port, self.security_protocol)


def read_listeners(
    setting: Callable[[str], str | None], *, between: str | None, insecure: bool
) -> list[ListenerConfig]:
    """``between`` is the listener between brokers, where that is known already. Raises ConfigError on what cannot be."""
    protocols = _protocols(setting("listener.security.protocol.map") or "")
    bound, told = setting("listeners") or "", setting("advertised.listeners")
    listened = _endpoints(bound, protocols)
    _check_ports(bound, listened)
    advertised = listened if told is None else _endpoints(told, protocols)
    names, told_names = [each[0] for each in listened], [each[0] for each in advertised]
    _require(told_names, "There must be at least one broker advertised listener.")
    _require(
        between is None or between in told_names,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on "
        f"currently configured listeners are {','.join(told_names)}",
    )
    _require(
        set(told_names) <= set(names),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found "
        f"{','.join(told_names)}. The valid options based on the current configuration are {','.join(names)}",
    )
    _require(
        told is None or all(host != _ANYWHERE for _, host, _ in advertised),
        f"advertised.listeners cannot use the nonroutable meta-address {_ANYWHERE}. Use a routable IP address.",
    )
    addresses = {name: (host or LOOPBACK, port) for name, host, port in advertised}
    for name, host, port in listened:
        _check_port("listeners", name, port)
        check_reach("listeners", host, insecure=insecure)
    for name, _, port in advertised:
        _check_port("advertised.listeners", name, port)
    return [
        ListenerConfig(
            name, host or LOOPBACK, port, *addresses.get(name, (host, port)), protocols[name], name in addresses
        )
        for name, host, port in listened
    ]


def check_offered(listeners: Iterable[ListenerConfig]) -> None:
    for listener in listeners:
        if listener.security_protocol != _PLAINTEXT:
            raise ConfigError(
                f"listeners: {listener.name} wants {listener.security_protocol}, which this version does not have yet"
            )


def check_protocols_stay(now: Iterable[ListenerConfig], after: Iterable[ListenerConfig]) -> None:
    """What is connected to a listener would not understand it any more."""
    protocols = {listener.name: listener.security_protocol for listener in after}
    for listener in now:
        if protocols.get(listener.name, listener.security_protocol) != listener.security_protocol:
            raise ConfigError(
                "Invalid value org.apache.kafka.common.config.ConfigException: Security protocol cannot be updated for "
                f"existing listener ListenerName({listener.name}) for configuration Invalid dynamic configuration"
            )


def check_stay(now: Sequence[ListenerConfig], after: Sequence[ListenerConfig], names: Iterable[str]) -> None:
    """The listeners of these names may not go elsewhere while the broker runs."""
    kept = {listener.place for listener in after}
    for listener in now:
        if listener.name in names and listener.place not in kept:
            raise ConfigError(
                f"listeners: {listener.name} is the way of other brokers to this one; it is moved or removed by a restart"
            )


def check_reach(setting: str, host: str, *, insecure: bool) -> None:
    if not (insecure or not host or host.startswith(_LOOPBACK_PREFIXES)):
        raise ConfigError(
            f"{setting}: {host} can be reached from other machines, and there is no access control yet; "
            "use a loopback address, or allow it with --insecure"
        )


def _protocols(text: str) -> dict[str, str]:
    """By listener. Names of listeners are all in capitals."""
    protocols = {}
    for each in _listed(text):
        name, colon, protocol = each.rpartition(":")
        if not colon:  # as Java puts it
            raise ConfigError(
                "Error parsing configuration property 'listener.security.protocol.map': "
                f"begin 0, end -1, length {len(each)}"
            )
        protocols[name.strip().upper()] = protocol.strip()
    for protocol in protocols.values():
        if protocol not in _KNOWN:
            raise ConfigError(f"Invalid security protocol `{protocol}` defined in listener.security.protocol.map")
    return protocols


def _endpoints(text: str, protocols: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """Names, hosts and ports."""
    found = []
    for each in _listed(text):
        parsed = parse_endpoint(each)
        if parsed is None:
            reason = f"Unable to parse {each} to a broker endpoint"
        elif (name := parsed[0].upper()) not in protocols:
            reason = f"No security protocol defined for listener {name}"
        else:
            found.append((name, parsed[1], parsed[2]))
            continue
        raise ConfigError(f"Error creating broker listeners from '{text}': {reason}")
    names = {name for name, _, _ in found}
    _require(len(names) == len(found), f"Each listener must have a different name, listeners: {text}")
    return found


def _check_ports(text: str, endpoints: Iterable[tuple[str, str, int]]) -> None:
    """Two may share a port if one has an address of IPv4, and the other of IPv6."""
    hosts: dict[int, list[str]] = {}
    for _, host, port in endpoints:
        if port:
            hosts.setdefault(port, []).append(host)
    for port, sharing in hosts.items():
        versions = [_ip_version(host) for host in sharing]
        if len(sharing) == 1 or sorted(map(str, versions)) == ["4", "6"]:
            continue
        _require(versions.count(None) < 2, f"Each listener must have a different port, listeners: {text}")
        rule = "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6"
        if len(versions) - versions.count(None) != 2:
            rule = (
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the other "
                "IPv6 address"
            )
        raise ConfigError(f"requirement failed: {rule}, listeners: {text}, port: {port}")


def _check_port(setting: str, name: str, port: int) -> None:
    """What is beyond 16 bits would be cut down to them, and listened at elsewhere."""
    if not 0 <= port <= PORT_MAX:
        raise ConfigError(f"{setting}: {name}: port out of range: {port}")


def _ip_version(host: str) -> int | None:
    try:
        return ip_address(host).version
    except ValueError:
        return None


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ConfigError(f"requirement failed: {message}")


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
