"""The hosts of the pages that may be read, as the setting DESK_PAGE_HOSTS names them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from chordesk.models.urls import is_loopback

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

HTTPS_PORT = 443
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_ENTRY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
# A last label of digits makes a name an IPv4 address in one of its many forms: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)")


@dataclass(frozen=True, slots=True)
class PageHost:
    """One host. name: lower case; an IPv6 address without its brackets. subdomains: the names below it, and not itself.
    address: where the entry is an address."""

    name: str
    port: int = HTTPS_PORT
    subdomains: bool = False
    address: Address | None = None

    @property
    def loopback(self) -> bool:
        """Return True for a server of this machine, which may be read by plain HTTP."""
        return is_loopback(self.name)

    def admits(self, scheme: str, host: str, port: int) -> bool:
        """Return whether a URL's scheme, host and port are those of this entry."""
        named = host.endswith(f".{self.name}") if self.subdomains else host == self.name
        return named and port == self.port and (scheme == "https" or (scheme == "http" and self.loopback))

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        port = "" if self.port == HTTPS_PORT else f":{self.port}"
        return f"{'*.' if self.subdomains else ''}{name}{port}"


def page_hosts(text: str) -> tuple[PageHost, ...]:
    """Return the hosts of a comma list, each once. Raises ValueError, which names the entry and the remedy."""
    entries = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(_host(entry) for entry in entries if entry))


def readable_hosts(text: str) -> str:
    """Return the list as it is. Raises ValueError."""
    page_hosts(text)
    return text


def _host(entry: str) -> PageHost:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise ValueError(f"{entry!r} is no host: write names by comma, such as www.sec.gov, without scheme and path")
    name, port = found[1].strip("[]").lower(), int(found[2] or HTTPS_PORT)
    if not 0 < port < 65536:
        raise ValueError(f"{entry!r}: {port} is no port")
    address = _address(name)
    if address is None and (_NAME.fullmatch(name) is None or _NUMBER.fullmatch(name.rpartition(".")[2])):
        raise ValueError(f"{entry!r} is no host: write a name such as www.sec.gov, *.sec.gov for those below sec.gov")
    if is_loopback(name) and not found[2]:
        raise ValueError(f"{entry!r} is this machine: name the server's port too, such as {entry}:8080")
    subdomains = name.startswith("*.")
    return PageHost(name.removeprefix("*."), port, subdomains, address)


def _address(name: str) -> Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
