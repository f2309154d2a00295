"""URLs: masked for people, and checked against the kind that a setting requires."""

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
    """Return the URL without its login and without the parameters with names that look like secrets.

    A login ends at the last @: a password that was not percent-encoded may hold a slash, a question mark or an @
    itself. So sometimes more is hidden than necessary, never less.
    """
    if _PATH_ALONE.match(url) is None:
        scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
        _, at, host = rest.rpartition("@")
        url = f"{scheme}{slashes}{HIDDEN if at else ''}{at}{host}"
    return _PARAMETER.sub(_parameter, url)


def _parameter(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if _SECRET.search(unquote(found[1])) else found[0]


def without_login(url: str) -> str:
    """Return the URL of a web server that another process may use and compare: no login, no query, no fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def require_http(url: str) -> str:
    """Return the URL of a web server. Raises ValueError for another text."""
    if not _begins(url, ("http", "https")) or not _port_is_number(url) or not urlsplit(url).hostname:
        raise ValueError("must be a URL that begins with http:// or https:// and names a host")
    return url


def require_redis(url: str) -> str:
    """Return a URL that redis-py reads. Raises ValueError for another text."""
    if not _begins(url, ("redis", "rediss", "unix")):
        raise ValueError("must be a URL that begins with redis://, rediss:// or unix://")
    if not _port_is_number(url):
        raise ValueError("the port is not a number; percent-encode the special characters of a password")
    return url


def require_database(url: str) -> str:
    """Return the SQLAlchemy URL of a supported database. Raises ValueError for another text."""
    if not _begins(url, ("sqlite", "postgresql", "postgresql+psycopg")):
        raise ValueError("must be a SQLAlchemy URL: sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/NAME")
    return url


def is_loopback(host: str) -> bool:
    """Return True if a server that listens on this name or address can be reached from this machine alone."""
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
