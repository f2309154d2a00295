"""Targets: URLs that may be read, checked against the allowed hosts, and the address that each is connected to."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from chordesk.models.errors import DeskError
from chordesk.models.page_hosts import HTTPS_PORT, Address, PageHost

MOST_URL_CHARS = 2_000
_PORTS = {"https": HTTPS_PORT, "http": 80}
_HOST = re.compile(r"[0-9a-z_.:-]+")
_PATH_CHARS = "/%:@!$&'()*+,;=~-._"
# Addresses that pass for public ones: those that carry another address in them, and Azure's service for its machines.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network) for network in ("2002::/16", "2001::/32", "3fff::/20", "168.63.129.16/32")
)
# All that is given out of IPv6; outside of it are site-local addresses (fec0::/10), which count as global elsewhere.
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")


class PageError(DeskError):
    """A page that may not or cannot be read; the message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Target:
    """A URL of an allowed host. path: with the query. rule: the entry of the setting that allows it."""

    scheme: str
    host: str
    port: int
    path: str
    rule: PageHost

    @property
    def origin(self) -> str:
        """Return scheme, host and port, the port only where it is not the scheme's own."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"


def target_of(url: str, hosts: Sequence[PageHost]) -> Target:
    """Return the target of a URL. Raises PageError for one that is not of an allowed host."""
    if len(url) > MOST_URL_CHARS:
        raise PageError(f"the URL has {len(url)} characters, more than {MOST_URL_CHARS}")
    if any(letter <= " " or letter in '\\"<>^`{|}' or letter == "\x7f" for letter in url):
        raise PageError(f"{url!r} has a space or a sign that no URL has: percent-encode it")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise PageError(f"{url!r} is no URL") from None
    if parts.scheme not in _PORTS or not host:
        raise PageError(f"{url!r} is not read: only https:// URLs are")
    if "@" in parts.netloc:
        raise PageError(f"the URL of {host} has a login in it: it is not read")
    if _HOST.fullmatch(host) is None:
        raise PageError(f"{host!r} is no host: write it as DNS has it, in letters, digits and hyphens")
    port = port if port is not None else _PORTS[parts.scheme]
    path = quote(parts.path or "/", safe=_PATH_CHARS, errors="replace")
    if parts.query:
        path += f"?{quote(parts.query, safe=_PATH_CHARS + '?', errors='replace')}"
    for rule in hosts:
        if rule.admits(parts.scheme, host, port):
            return Target(parts.scheme, host, port, path, rule)
    raise _not_allowed(parts.scheme, host, port, hosts)


def address_of(host: str, port: int, rule: PageHost) -> str:
    """Return the one address that a host of the rule is connected to.

    Raises PageError when it has none, or when any of its addresses is of a private, link-local, loopback or otherwise
    not public network that the setting does not name.
    """
    if rule.address is not None:
        return str(rule.address)  # the setting names the address itself
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise PageError(f"{host} has no address: {getattr(error, 'strerror', None) or error}") from None
    found = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
    for address in found:
        if not (address.is_loopback if rule.loopback else is_public(address)):
            raise PageError(f"{host} has the address {address}, which is not public: it is not read")
    return str(found[0])


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_V6:
        return False
    inner = any(address in network for network in _NOT_PUBLIC if network.version == address.version)
    return address.is_global and not address.is_multicast and not inner


def _not_allowed(scheme: str, host: str, port: int, hosts: Sequence[PageHost]) -> PageError:
    allowed = ", ".join(str(rule) for rule in hosts)
    if scheme == "http" and any(rule.admits("https", host, HTTPS_PORT) for rule in hosts):
        return PageError(f"{host} is read by https:// alone")
    place = host if port == _PORTS[scheme] else f"{host}:{port}"
    return PageError(f"{place} is not among the allowed hosts ({allowed})", remedy="DESK_PAGE_HOSTS names them")
