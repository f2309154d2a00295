"""URLs: masked for people, checked against the kind that a setting requires, and the hosts that may be read."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

HIDDEN = "********"
# These have no host in front of their path, and a path may hold an @.
_PATH_ALONE = re.compile(r"(?i)(?:sqlite[^:/]*|unix|file):///")
_PARAMETER = re.compile(r"(?<=[?&])([^=&?]*)=[^&]*")
_SECRET = re.compile(r"(?i)pass|pwd|token|key|secret|credential|auth|signature")


def masked(url: str) -> str:
    """Return the URL without its login and without the parameters with names that look like secrets. A login ends at
    the last @: a password that was not percent-encoded may hold a slash, a question mark or an @ itself. So sometimes
    more is hidden than necessary, never less."""
    if _PATH_ALONE.match(url) is None:
        scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
        _, at, host = rest.rpartition("@")
        url = f"{scheme}{slashes}{HIDDEN if at else ''}{at}{host}"
    return _PARAMETER.sub(_parameter, url)


def _parameter(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if _SECRET.search(unquote(found[1])) else found[0]


def without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def require_http(url: str) -> str:
    if not _begins(url, ("http", "https")) or not _port_is_number(url) or not urlsplit(url).hostname:
        raise ValueError("must be a URL that begins with http:// or https:// and names a host")
    return url


def require_redis(url: str) -> str:
    if not _begins(url, ("redis", "rediss", "unix")):
        raise ValueError("must be a URL that begins with redis://, rediss:// or unix://")
    if not _port_is_number(url):
        raise ValueError("the port is not a number; percent-encode the special characters of a password")
    return url


def require_database(url: str) -> str:
    if not _begins(url, ("sqlite", "postgresql", "postgresql+psycopg")):
        raise ValueError("must be a SQLAlchemy URL: sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/NAME")
    return url


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _begins(url: str, schemes: tuple[str, ...]) -> bool:
    scheme, slashes, rest = url.partition("://")
    return bool(slashes) and bool(rest) and scheme.lower() in schemes


def _port_is_number(url: str) -> bool:
    """Return False for a password that was not percent-encoded: its part before a slash is then taken for the port."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        return False
    return True


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

HTTPS_PORT = 443
MOST_URL_CHARS = 2_000  # of a page that is read
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_ENTRY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
# A last label of digits makes a name an IPv4 address in one of its many forms: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)")


@dataclass(frozen=True, slots=True)
class PageHost:
    name: str  # lower case; an IPv6 address without its brackets
    port: int = HTTPS_PORT
    subdomains: bool = False  # the names below it, and not itself
    address: Address | None = None  # where the entry is an address

    @property
    def loopback(self) -> bool:
        return is_loopback(self.name)

    def admits(self, scheme: str, host: str, port: int) -> bool:
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
