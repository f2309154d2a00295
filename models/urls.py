"""Addresses: as people may see them, and whether they are of the kind that a setting asks for."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote, urlsplit, urlunsplit

HIDDEN = "********"
# These have no host in front of their path, and a path may hold an @.
_PATH_ALONE = re.compile(r"(?i)(?:sqlite[^:/]*|unix|file):///")
_PARAMETER = re.compile(r"(?<=[?&])([^=&?]*)=[^&]*")
_SECRET = re.compile(r"(?i)pass|pwd|token|key|secret|credential|auth|signature")


def masked(url: str) -> str:
    """The URL without its login and without the parameters whose names look like secrets.

    A login ends at the last @ of all: a password that was not percent-encoded may hold a slash, a question mark or an
    @ itself. Sometimes more is hidden than need be, never less.
    """
    if _PATH_ALONE.match(url) is None:
        scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
        _, at, host = rest.rpartition("@")
        url = f"{scheme}{slashes}{HIDDEN if at else ''}{at}{host}"
    return _PARAMETER.sub(_parameter, url)


def _parameter(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if _SECRET.search(unquote(found[1])) else found[0]


def without_login(url: str) -> str:
    """The URL of a web server that another process may use and compare: no login, no query, no fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def require_http(url: str) -> None:
    """Raises ValueError unless it is the URL of a web server."""
    if not _begins(url, ("http", "https")) or not _has_host(url):
        raise ValueError("must be a URL that begins with http:// or https:// and names a host")


def require_redis(url: str) -> None:
    """Raises ValueError unless it is a URL that redis-py reads."""
    if not _begins(url, ("redis", "rediss", "unix")):
        raise ValueError("must be a URL that begins with redis://, rediss:// or unix://")
    if not _has_port_or_none(url):
        raise ValueError("the port is no number; percent-encode the special characters of a password")


def require_database(url: str) -> None:
    """Raises ValueError unless it is a SQLAlchemy URL of a database that the desk knows."""
    if not _begins(url, ("sqlite", "postgresql", "postgresql+psycopg")):
        raise ValueError("must be a SQLAlchemy URL: sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/NAME")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on this name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _begins(url: str, schemes: tuple[str, ...]) -> bool:
    scheme, slashes, rest = url.partition("://")
    return bool(slashes) and bool(rest) and scheme.lower() in schemes


def _has_host(url: str) -> bool:
    return _has_port_or_none(url) and bool(urlsplit(url).hostname)


def _has_port_or_none(url: str) -> bool:
    """Not so when a password was not percent-encoded: its part before a slash is then taken for the port."""
    try:
        _ = urlsplit(url).port
    except ValueError:
        return False
    return True
